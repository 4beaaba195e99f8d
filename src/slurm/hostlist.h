// Slurm's hostlist expressions, expanded without asking anybody (src/common/hostlist.c is the grammar).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace slurm {

// "ultra-[1-3,08-10]x,b7" in its own order, duplicates kept. Refused with an error (surroundings, shared
// blame): empty, more than `limit` hosts (checked before anything that large is made), unbalanced or nested
// brackets, lo > hi, a range that is no digits, a name with characters outside [A-Za-z0-9._-] or that begins
// with '-' or '.', a name over 255 bytes.
base::Result<std::vector<std::string>> expand_hostlist(std::string_view text, std::size_t limit);

// The other way, for messages and arguments: consecutive numbers with one prefix and width are folded.
std::string fold_hostlist(const std::vector<std::string>& names);

}  // namespace slurm
