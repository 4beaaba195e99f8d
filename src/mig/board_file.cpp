#include "mig/board_file.h"

#include <algorithm>
#include <map>

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
  std::map<unsigned, Gpu> found;
  for (const auto& [index, board] : saved.boards) found[index].current = found[index].pending = Mode::disabled;
  // Listed by -L, but without profiles: as another one of this product, else without MIG.
  for (const ListedGpu& listed : parse_listed_gpus(text)) {
    Gpu& gpu = found[listed.index];
    gpu.name = listed.name;
    gpu.uuid = listed.uuid;
  }
  for (auto& [index, gpu] : found) {
    if (saved.boards.contains(index)) continue;
    const auto alike = std::find_if(found.begin(), found.end(), [&, &name = gpu.name](const auto& other) {
      return saved.boards.contains(other.first) && other.second.name == name;
    });
    gpu.current = gpu.pending = alike == found.end() ? Mode::unsupported : Mode::disabled;
    if (alike != found.end()) saved.boards[index] = saved.boards.at(alike->first);
  }
  for (auto& [index, gpu] : found) {
    gpu.index = index;
    gpu.bus_id = "saved";
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
