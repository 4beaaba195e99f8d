// What the readers of nvidia-smi's tables share.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"

namespace mig {

// The error of a line that `nvidia-smi mig CALL` printed and nobody can read.
base::Error unreadable(std::string_view call, std::string_view line);

// An index, ID or slice: a number of at most 100000.
std::optional<unsigned> small_number(std::string_view text);

}  // namespace mig
