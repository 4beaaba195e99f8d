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

// `slurmd -G`: "Gres Name=gpu Type=nvidia_h200_1g.18gb Count=1 ..." lines, with or without "slurmd: " before them.
std::vector<GresEntry> parse_slurmd_gres(std::string_view text);

// What the newest start of slurmd in its log said of GPUs that it could not use; empty: nothing.
std::vector<std::string> complaints(std::string_view log);

}  // namespace mig
