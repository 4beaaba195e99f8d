#include "mig/instances.h"

#include <optional>

#include "base/text.h"
#include "mig/listing.h"

namespace mig {

namespace {

// The words of a table row that holds "MIG", else nothing.
std::vector<std::string_view> row(std::string_view line) {
  line = base::trim(line);
  if (!line.starts_with('|')) return {};
  line.remove_prefix(1);
  if (line.ends_with('|')) line.remove_suffix(1);
  auto words = base::words(line);
  for (std::string_view word : words) {
    if (word == "MIG") return words;
  }
  return {};
}

}  // namespace

base::Result<std::vector<GpuInstance>> parse_gpu_instances(std::string_view text) {
  std::vector<GpuInstance> instances;
  for (std::string_view line : base::each_line(text)) {
    const auto words = row(line);
    if (words.empty()) continue;
    // "0 MIG 3g.20gb 9 1 4:4"
    if (words.size() != 6 || words[1] != "MIG") return unreadable("-lgi", line);
    const auto gpu = small_number(words[0]);
    const auto profile = small_number(words[3]);
    const auto id = small_number(words[4]);
    const auto place = base::split(words[5], ':');
    const auto start = small_number(place[0]);
    const auto size = place.size() == 2 ? small_number(place[1]) : std::nullopt;
    if (!gpu || !profile || !id || !start || !size) return unreadable("-lgi", line);
    instances.push_back({*gpu, std::string(words[2]), *profile, *id, *start, *size});
  }
  if (instances.empty()) return unreadable("-lgi", text);
  return instances;
}

base::Result<std::vector<ComputeInstance>> parse_compute_instances(std::string_view text) {
  std::vector<ComputeInstance> instances;
  for (std::string_view line : base::each_line(text)) {
    const auto words = row(line);
    if (words.empty()) continue;
    // "0 1 MIG 3g.20gb 2 0 0:3"; the placement is missing in the form of older drivers.
    if (words.size() < 6 || words.size() > 7 || words[2] != "MIG") return unreadable("-lci", line);
    const auto gpu = small_number(words[0]);
    const auto gpu_instance = small_number(words[1]);
    const auto id = small_number(words[5]);
    if (!gpu || !gpu_instance || !id) return unreadable("-lci", line);
    instances.push_back({*gpu, *gpu_instance, std::string(words[3]), *id});
  }
  if (instances.empty()) return unreadable("-lci", text);
  return instances;
}

std::vector<MigDevice> parse_devices(std::string_view text) {
  std::vector<MigDevice> devices;
  std::optional<unsigned> gpu;
  for (std::string_view line : base::each_line(text)) {
    const auto words = base::words(line);
    if (words.size() >= 2 && words[0] == "GPU" && words[1].ends_with(':')) {
      gpu = small_number(words[1].substr(0, words[1].size() - 1));
      continue;
    }
    // "  MIG 1g.24gb     Device  0: (UUID: MIG-...)"
    if (!gpu || words.size() != 6 || words[0] != "MIG" || words[2] != "Device" || words[4] != "(UUID:") continue;
    std::string_view uuid = words[5];
    if (uuid.ends_with(')')) uuid.remove_suffix(1);
    devices.push_back({*gpu, std::string(words[1]), std::string(uuid)});
  }
  return devices;
}

std::vector<ListedGpu> parse_listed_gpus(std::string_view text) {
  std::vector<ListedGpu> gpus;
  for (std::string_view line : base::each_line(text)) {
    line = base::trim(line);
    if (!line.starts_with("GPU ")) continue;
    const std::size_t colon = line.find(": ");
    const std::size_t open = line.rfind(" (UUID: ");
    if (colon == std::string_view::npos || open == std::string_view::npos || open < colon || !line.ends_with(')'))
      continue;
    const auto index = small_number(base::trim(line.substr(4, colon - 4)));
    if (!index) continue;
    gpus.push_back({*index, base::printable(line.substr(colon + 2, open - colon - 2), 100),
                    std::string(line.substr(open + 8, line.size() - open - 9))});
  }
  return gpus;
}

}  // namespace mig
