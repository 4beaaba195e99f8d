#include "mig/board_file.h"

#include "base/text.h"
#include "mig/instances.h"

namespace mig {

using base::Error;
using base::ExitCode;

base::Result<SavedBoard> parse_board_file(const std::string& text, std::optional<unsigned> gpus) {
  const std::string how =
      "save both listings of a node with this GPU: (nvidia-smi mig -lgip; nvidia-smi mig -lgipp; nvidia-smi -L) > "
      "board.txt";
  const auto as_usage = [&](const Error& error) { return Error{ExitCode::usage, error.what, how}; };
  auto profiles = parse_profiles(text);
  if (!profiles) return as_usage(profiles.error());
  auto boards = add_placements(std::move(*profiles), text);
  if (!boards) return as_usage(boards.error());
  SavedBoard saved;
  saved.boards = std::move(*boards);
  for (const auto& [index, board] : saved.boards) {
    Gpu gpu;
    gpu.index = index;
    gpu.bus_id = "saved";
    gpu.current = gpu.pending = Mode::disabled;
    for (const ListedGpu& listed : parse_listed_gpus(text)) {
      if (listed.index != index) continue;
      gpu.name = listed.name;
      gpu.uuid = listed.uuid;
    }
    saved.gpus.push_back(std::move(gpu));
  }
  if (gpus) {
    if (saved.gpus.size() != 1 && saved.gpus.size() != *gpus) {
      return Error{
          ExitCode::usage,
          "it holds " + std::to_string(saved.gpus.size()) + " GPUs, --expect-gpus says " + std::to_string(*gpus),
          "leave --expect-gpus out"};
    }
    while (saved.gpus.size() < *gpus) {
      Gpu twin = saved.gpus.front();
      twin.index = saved.gpus.back().index + 1;
      twin.uuid.clear();
      saved.boards[twin.index] = saved.boards.at(saved.gpus.front().index);
      saved.gpus.push_back(std::move(twin));
    }
  }
  return saved;
}

}  // namespace mig
