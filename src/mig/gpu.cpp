#include "mig/gpu.h"

#include <algorithm>

#include "base/text.h"

namespace mig {

using base::Error;
using base::ExitCode;

namespace {

Mode mode_of(std::string_view text) {
  if (text == "Enabled") return Mode::enabled;
  if (text == "Disabled") return Mode::disabled;
  // Newer drivers write "Requested functionality has been deprecated" into fields that they dropped.
  for (std::string_view absent :
       {"N/A", "[N/A]", "Not Supported", "[Not Supported]", "Requested functionality has been deprecated",
        "[Requested functionality has been deprecated]"}) {
    if (text == absent) return Mode::unsupported;
  }
  return Mode::unknown;
}

bool is_hex(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

}  // namespace

std::string_view word(Mode mode) {
  switch (mode) {
    case Mode::disabled: return "Disabled";
    case Mode::enabled: return "Enabled";
    case Mode::unsupported: return "N/A";
    case Mode::unknown: break;
  }
  return "unknown";
}

std::string Gpu::show() const { return "GPU " + std::to_string(index) + " (" + bus_id + ")"; }

base::Result<std::vector<Gpu>> parse_gpus(std::string_view text) {
  std::vector<Gpu> gpus;
  for (std::string_view line : base::each_line(text)) {
    line = base::trim(line);
    // "WARNING: infoROM is corrupted at gpu ..." follows the rows of some boards.
    if (line.empty() || line.starts_with("WARNING") || line.starts_with("Warning")) continue;
    std::vector<std::string_view> parts;
    std::string_view rest = line;
    for (int i = 0; i < 8; ++i) {
      const std::size_t comma = rest.find(',');
      if (comma == std::string_view::npos) break;
      parts.push_back(base::trim(rest.substr(0, comma)));
      rest.remove_prefix(comma + 1);
    }
    parts.push_back(base::trim(rest));
    const auto index = base::parse_number(parts[0]);
    if (parts.size() != 9 || !index || *index > 4096 || !canonical_bus_id(parts[1])) {
      return Error{ExitCode::source, "nvidia-smi answered the GPU query with '" + base::printable(line, 200) + "'",
                   "look at `nvidia-smi --query-gpu=" + std::string(gpu_query) + " --format=csv,noheader`"};
    }
    Gpu gpu;
    gpu.index = static_cast<unsigned>(*index);
    gpu.bus_id = parts[1];
    gpu.device_id = parts[2];
    gpu.uuid = parts[3];
    gpu.current = mode_of(parts[4]);
    gpu.pending = mode_of(parts[5]);
    gpu.mode_words = base::printable(std::string(parts[4]) + ", " + std::string(parts[5]), 120);
    gpu.persistence = parts[6] == "Enabled";
    gpu.driver = base::printable(parts[7], 40);
    gpu.name = base::printable(parts[8], 100);
    if (find_by_index(gpus, gpu.index) != nullptr || find_by_bus(gpus, gpu.bus_id) != nullptr) {
      return Error{ExitCode::source, "nvidia-smi lists " + gpu.show() + " twice", "look at `nvidia-smi -L`"};
    }
    gpus.push_back(std::move(gpu));
  }
  std::sort(gpus.begin(), gpus.end(), [](const Gpu& a, const Gpu& b) { return a.index < b.index; });
  return gpus;
}

std::optional<std::string> canonical_bus_id(std::string_view text) {
  const std::string lowered = base::lower(base::trim(text));
  auto parts = base::split(lowered, ':');
  if (parts.size() == 2) parts.insert(parts.begin(), "0");
  if (parts.size() != 3 || !is_hex(parts[0]) || parts[0].size() > 8 || !is_hex(parts[1]) || parts[1].size() > 2)
    return {};
  const auto slot = base::split(parts[2], '.');
  if (slot.size() != 2 || !is_hex(slot[0]) || slot[0].size() > 2 || slot[1].size() != 1 || !is_hex(slot[1])) return {};
  std::string_view domain = parts[0];
  while (domain.size() > 1 && domain.front() == '0') domain.remove_prefix(1);
  const auto two = [](std::string_view part) { return (part.size() == 1 ? "0" : "") + std::string(part); };
  return std::string(domain) + ":" + two(parts[1]) + ":" + two(slot[0]) + "." + std::string(slot[1]);
}

const Gpu* find_by_index(const std::vector<Gpu>& gpus, unsigned index) {
  for (const Gpu& gpu : gpus) {
    if (gpu.index == index) return &gpu;
  }
  return nullptr;
}

const Gpu* find_by_bus(const std::vector<Gpu>& gpus, std::string_view bus_id) {
  const auto wanted = canonical_bus_id(bus_id);
  if (!wanted) return nullptr;
  for (const Gpu& gpu : gpus) {
    if (canonical_bus_id(gpu.bus_id) == wanted) return &gpu;
  }
  return nullptr;
}

std::vector<ComputeApp> parse_compute_apps(std::string_view text) {
  std::vector<ComputeApp> apps;
  for (std::string_view line : base::each_line(text)) {
    const std::size_t first = line.find(',');
    if (first == std::string_view::npos || !base::parse_number(base::trim(line.substr(0, first)))) continue;
    const std::size_t second = line.find(',', first + 1);
    if (second == std::string_view::npos) continue;
    apps.push_back({std::string(base::trim(line.substr(0, first))),
                    base::printable(base::trim(line.substr(second + 1)), 100),
                    std::string(base::trim(line.substr(first + 1, second - first - 1)))});
  }
  return apps;
}

}  // namespace mig
