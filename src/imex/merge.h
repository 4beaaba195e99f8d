// One domain seen by all its nodes: each pair from both ends, every node's own entry first-hand. Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "imex/status.h"

namespace imex {

// What one node tells of itself: a part of `validate imex --json`.
struct NodeReport {
  std::string node;                // Slurm's name
  std::vector<std::string> list;   // addresses of its node list, in order
  std::optional<std::size_t> own;  // its place in that list
  std::optional<DomainView> view;  // as its daemon sees the domain
};

std::string render_node_report(const NodeReport& report);
base::Result<NodeReport> parse_node_report(std::string_view json);

// A short name of a list: equal lists, equal names. Not a secure hash.
std::string list_name(const std::vector<std::string>& list);

// Where the daemon's own list differs from this one, in words; empty: nowhere, as far as it shows addresses.
std::string list_difference(const DomainView& view, const std::vector<std::string>& list);

struct MergedDomain {
  std::string list;                  // list_name
  std::vector<std::string> names;    // by node id; empty where nobody reported for it
  std::vector<std::string> holders;  // the nodes that hold this list
  DomainView view;                   // row by row from the node itself; a silent node is "no answer"
};

struct Merged {
  std::vector<MergedDomain> domains;     // one for each list, that of the first node first
  std::vector<std::string> list_faults;  // a node that is in a list but holds another one
};

Merged merge(const std::vector<NodeReport>& reports);

// For machines (docs/json.md): each node, answered or silent, and each list with the pairs that are not connected.
// `nodes`: all that were asked; `answered`: those that said anything, a report or not.
std::string render_merged(const Merged& merged, const std::vector<NodeReport>& reports,
                          const std::vector<std::string>& nodes, const std::set<std::string>& answered);

}  // namespace imex
