// slurm.conf as far as we need it: read from the node's copy, no RPC.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "host/files.h"

namespace slurm {

// Keys in lower case. A later line of the same key wins, as in Slurm; lines that begin a PartitionName= record are
// kept apart, those of a NodeName=, NodeSet=, DownNodes= ... record are not kept.
class Conf {
 public:
  std::optional<std::string> get(std::string_view key) const;  // any case
  std::vector<std::string> all(std::string_view key) const;    // every value in order (Prolog= may repeat)
  // Key=value words of PartitionName=`name` (keys in lower case), DEFAULT lines before it folded in; empty
  // where there is none.
  std::map<std::string, std::string> partition(std::string_view name) const;

  // Every partition's name and its value of `key` (empty: none), DEFAULT folded in; in the file's order.
  std::vector<std::pair<std::string, std::string>> of_partitions(std::string_view key) const;

  std::string path;                     // the file that was read; what could not be is in `unreadable`
  std::string host_name;                // this host's, short; for %h in paths
  std::vector<std::string> unreadable;  // files before this one and Include files that could not be read, with why

 private:
  friend base::Result<Conf> read_conf(const host::Files& files, const std::string& path);
  friend void parse_conf(std::string_view text, Conf& into, std::vector<std::string>& includes);
  friend class ConfReader;
  std::optional<std::string> take(std::string_view line);  // one logical line; the value is an Include's path

  std::vector<std::pair<std::string, std::string>> values_;
  std::vector<std::map<std::string, std::string>> partitions_;
  std::size_t settings_ = 0;  // in both
  bool too_many_settings_ = false;
};

// Pure: comments (# not after a backslash), continuation lines (\), any case of keys, quotes. Include paths
// are appended to `includes` in order.
void parse_conf(std::string_view text, Conf& into, std::vector<std::string>& includes);

// Follows Include in its place (relative to the folder of `path`, %c is the cluster name; at most 8 deep, 64
// files, 4 MiB and 32,768 settings in all). Error: surroundings where `path` itself cannot be read, os_error EFBIG
// where it is too large.
base::Result<Conf> read_conf(const host::Files& files, const std::string& path);

// The node's own copy: $SLURM_CONF (`variable`, may be empty), else /run/slurm/conf/slurm.conf, else
// /etc/slurm/slurm.conf: the first that can be read. Error: surroundings, naming all that were tried; os_error is
// ENOENT only where none of them is there.
base::Result<Conf> own_conf(const host::Files& files, const std::string& variable);

// "65534", "INFINITE", "0" and absent mean no limit: nullopt. Slurm's own numbers are seconds.
std::optional<std::chrono::milliseconds> prolog_limit(const Conf& conf);  // PrologTimeout, else PrologEpilogTimeout
std::optional<std::chrono::milliseconds> epilog_limit(const Conf& conf);
bool has_prolog_flag(const Conf& conf, std::string_view flag);
std::chrono::milliseconds message_timeout(const Conf& conf);            // default 10 s
std::chrono::milliseconds batch_start_timeout(const Conf& conf);        // default 10 s
std::string spool_dir(const Conf& conf, const std::string& node_name);  // %n and %h expanded; default /var/spool/slurmd

// True where SwitchType=switch/nvidia_imex: slurmd makes IMEX channels itself then, one a job, and removes
// what else it finds in their folder.
bool switch_makes_channels(const Conf& conf);

}  // namespace slurm
