// One fault, one drain: a fault that every node of the block sees alike fails on one node only. One failure
// requeues the job; eighteen drain a rack.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace commands {

// Does this node fail for a shared fault? It does where it is the first of `block_nodes`; where that list is
// not known (empty), the first node of the raw node list, read leniently: a malformed list has a first name too.
// A list that does not even begin with a host name blames whoever sees it: there is nobody else to.
bool is_blamed(const std::string& own_node, const std::vector<std::string>& block_nodes,
               std::string_view raw_node_list);

// The name that a node list begins with: "ultra-[1-18" -> "ultra-1". Empty: none.
std::string first_name(std::string_view raw_node_list);

}  // namespace commands
