// What scontrol said, parsed: pure functions on its text. Asking is in slurm/ask_scontrol.h.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace slurm {

struct NodeAddress {
  std::string node;
  std::string address;  // as printed: IPv4, IPv6 without brackets, or (show node) a host name
};

// `scontrol getaddrs LIST`: "node1: 10.88.0.1:6818", "n: [fd00::1]:6818". In the order of `wanted` (the tool
// prints node-table order). nullopt-like error (source) for: empty, short, unknown or repeated node, port 0,
// an unspecified address, a line of any other form or without its end. Such an answer is no fault by itself: one
// unresolvable name empties it with exit 0 (seen on 24.11 and 26.05), so the caller falls back to show node.
base::Result<std::vector<NodeAddress>> parse_getaddrs(std::string_view text, const std::vector<std::string>& wanted);

// `scontrol -ao show node LIST`, by key from the left: a record begins with NodeName= at column 0; the first
// NodeAddr= before OS=, Reason=, Comment=, Extra= counts, so that user text cannot forge one; continuation
// lines of a Comment are passed over. Errors (source, shared blame): "Node X not found" (in any position),
// a wanted node without record or without NodeAddr, a record twice, a node nobody asked for, an answer whose last
// line is cut short.
base::Result<std::vector<NodeAddress>> parse_show_node(std::string_view text, const std::vector<std::string>& wanted);

// `scontrol show config`: keys in lower case ("prolog[0]"), values as printed ("10 sec", "(null)"). A key of a
// later section ("Cgroup Support Configuration:") does not replace one of the first.
std::map<std::string, std::string> parse_show_config(std::string_view text);

}  // namespace slurm
