// slurm.conf as far as we need it: read from the node's copy, no RPC.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/files.h"

namespace slurm {

// Keys in lower case. A later line of the same key wins, as in Slurm; lines that begin a NodeName=,
// PartitionName=, NodeSet=, DownNodes= ... record are kept apart.
class Conf {
 public:
  std::optional<std::string> get(std::string_view key) const;  // any case
  std::vector<std::string> all(std::string_view key) const;    // every value in order (Prolog= may repeat)
  // Key=value words of PartitionName=`name` (keys in lower case), DEFAULT lines before it folded in; empty
  // where there is none.
  std::map<std::string, std::string> partition(std::string_view name) const;

  std::string path;                    // the file that was read
  std::vector<std::string> unreadable; // Include files that could not be read

 private:
  friend base::Result<Conf> read_conf(const host::Files& files, const std::string& path);
  friend void parse_conf(std::string_view text, Conf& into, std::vector<std::string>& includes);
  std::vector<std::pair<std::string, std::string>> values_;
  std::vector<std::map<std::string, std::string>> partitions_;
};

// Pure: comments (# not after a backslash), continuation lines (\), any case of keys, quotes. Include paths
// are appended to `includes` in order.
void parse_conf(std::string_view text, Conf& into, std::vector<std::string>& includes);

// Follows Include (relative to the file's folder; at most 8 deep). Error: surroundings where `path` itself
// cannot be read.
base::Result<Conf> read_conf(const host::Files& files, const std::string& path);

// "65534", "INFINITE", "0" and absent mean no limit: nullopt. Slurm's own numbers are seconds.
std::optional<std::chrono::milliseconds> prolog_limit(const Conf& conf);   // PrologTimeout, else PrologEpilogTimeout
std::optional<std::chrono::milliseconds> epilog_limit(const Conf& conf);
bool has_prolog_flag(const Conf& conf, std::string_view flag);
std::chrono::milliseconds message_timeout(const Conf& conf);      // default 10 s
std::chrono::milliseconds batch_start_timeout(const Conf& conf);  // default 10 s
std::string spool_dir(const Conf& conf, const std::string& node_name);  // %n and %h expanded; default /var/spool/slurmd

}  // namespace slurm
