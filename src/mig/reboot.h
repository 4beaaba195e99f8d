// May this run reboot the node to make a pending MIG mode effective? Once per launch of the instance at most: the
// marker lies on the root file system and carries the instance id, since it may be baked into an image.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mig {

enum class RebootPolicy { no, if_pending, force };

struct RebootMarker {
  std::string instance_id;
  std::string boot_id;  // the boot that asked for the reboot
  std::string layout;
};

std::string to_json(const RebootMarker& marker);
// nullopt: nothing that we wrote. The caller takes an unreadable marker for one of this launch: better no reboot than a
// loop.
std::optional<RebootMarker> parse_marker(const std::string& text);

struct RebootFacts {
  RebootPolicy policy = RebootPolicy::no;
  std::string instance_id;             // empty: unknown
  std::string boot_id;                 // empty: unknown
  bool marker_there = false;           // a file lies where the marker goes
  std::optional<RebootMarker> marker;  // what it says; nullopt with marker_there: unreadable
  bool slurmd_runs = false;
  bool boot_finished = false;
  std::string why_finished;
};

struct RebootVerdict {
  bool reboot = false;
  std::string why;   // why not, or why yes
  std::string cure;  // where it is no: the option or step that helps
};

RebootVerdict decide_reboot(const RebootFacts& facts);

}  // namespace mig
