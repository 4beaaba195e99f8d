// Saved listings of a board, so that a layout can be tried on a machine without a GPU.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "mig/gpu.h"
#include "mig/profiles.h"

namespace mig {

struct SavedBoard {
  std::vector<Gpu> gpus;  // index always; name and UUID where the file holds `nvidia-smi -L` too
  Boards boards;
};

// Output of `nvidia-smi mig -lgip` and `-lgipp`, one after the other in one file, and of `nvidia-smi -L` if wanted.
// `gpus`: as many GPUs of the one saved board. Error: usage, what is missing.
base::Result<SavedBoard> parse_board_file(const std::string& text, std::optional<unsigned> gpus);

}  // namespace mig
