#include "host/boot_time.h"

#include "base/text.h"

namespace host {

std::optional<std::int64_t> boot_time_ns(const Files& files) {
  const auto stat = files.read("/proc/stat", 1U << 20U);
  if (!stat) return std::nullopt;
  for (const std::string_view line : base::each_line(*stat)) {
    if (!line.starts_with("btime ")) continue;
    const auto boot = base::parse_number(base::trim(line.substr(6)));
    if (boot) return static_cast<std::int64_t>(*boot) * 1'000'000'000;
  }
  return std::nullopt;
}

}  // namespace host
