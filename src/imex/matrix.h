// A domain drawn for people, from 2 to 72 nodes, and its faults told by node: one dead node of 18 is one line, not
// 34 pairs. Pure.
#pragma once

#include <string>
#include <vector>

#include "imex/status.h"

namespace imex {

// A row for each node (id, address, status, version where they differ) with its cells, the columns' ids above.
// `names`: what stands beside the address, by node id; may be empty.
std::string draw_matrix(const DomainView& view, const std::vector<std::string>& names);

// One finding about one node or one pair.
struct DomainFault {
  std::vector<std::size_t> nodes;  // whom it is about: one, or two for a pair
  std::string what;
  std::string cure;
};

// Nodes that tell nothing of themselves though their peers are connected with them: status and version travel over the
// command port, connections over the server port. explain_faults has no word about them.
std::vector<std::size_t> mute_nodes(const DomainView& view);

// What daemons refuse each other first (a node that is met with another list is often not READY either), then dead
// nodes, then the nodes that explain most of the other wrong pairs, then single pairs.
std::vector<DomainFault> explain_faults(const DomainView& view, const std::vector<std::string>& names);

// Distinct versions with the ids that have them; nodes that told none are left out.
std::vector<std::pair<std::string, std::vector<std::size_t>>> versions_of(const DomainView& view);

// "0-3,7" for messages.
std::string show_ids(const std::vector<std::size_t>& ids);

}  // namespace imex
