// What Slurm says of this node's GPUs, parsed: scontrol's record of the node, slurmd's own list, its log. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mig/gres.h"

namespace mig {

struct NodeRecord {
  std::string name;
  std::string gres;  // as printed, "(null)" for none
  std::string state;
  std::string reason;
};

// The record of `scontrol -o show node` whose NodeName or NodeHostName is `name`; the only one where there is one.
std::optional<NodeRecord> parse_node_record(std::string_view text, std::string_view name);

// slurmd's own list. A row is a whole GPU where its File= is a GPU's own device alone, and its type no MIG device's
// name. A configured type may stand for both: `h200` is a part of nvidia_h200 and of nvidia_h200_7g.141gb.
struct SlurmdGres {
  std::vector<GresEntry> entries;  // all, by type
  std::vector<GresEntry> whole;    // those of them that are whole GPUs
  std::vector<GresEntry> rest;
};

// `slurmd -G`: "Gres Name=gpu Type=nvidia_h200_1g.18gb Count=1 ..." lines, with or without "slurmd: " before them.
SlurmdGres parse_slurmd_gres(std::string_view text);

// What of slurmd's list does not exist, or exists and is not in it, by Slurm's rule of parts of names. Empty: it is
// what exists.
std::vector<std::string> slurmd_faults(const SlurmdGres& seen, const std::vector<DeviceCount>& devices);

// What the newest start of slurmd in its log said of GPUs that it could not use; empty: nothing.
std::vector<std::string> complaints(std::string_view log);

}  // namespace mig
