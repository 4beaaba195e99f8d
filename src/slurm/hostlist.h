// Slurm's hostlist expressions, expanded without asking anybody (src/common/hostlist.c is the grammar).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace slurm {

// A name that may stand for a node: [A-Za-z0-9._-], at most 255 bytes, first neither '-' nor '.': so that it is
// never an option of a tool and never a path.
bool is_node_name(std::string_view name);

// "ultra-[1-3,08-10]x,b7" in its own order, duplicates kept; of several brackets the left one is the outer
// loop. Refused with an error (surroundings, shared blame): empty, more than `limit` hosts (counted before
// anything is made), unbalanced or nested brackets, lo > hi, a range that is no digits, an empty item, a
// name that is_node_name refuses.
base::Result<std::vector<std::string>> expand_hostlist(std::string_view text, std::size_t limit);

// The other way, for messages and arguments: neighbours with one prefix, one width and the next number are
// folded. expand_hostlist(fold_hostlist(x)) is x, in the same order.
std::string fold_hostlist(const std::vector<std::string>& names);

}  // namespace slurm
