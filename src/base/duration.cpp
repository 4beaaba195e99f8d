#include "base/duration.h"

#include <cstdio>

#include "base/text.h"

namespace base {

Result<milliseconds> parse_duration(std::string_view text) {
  const Error bad{ExitCode::usage, "'" + printable(text) + "' is no duration",
                  "write seconds (30) or a number with a unit (30s, 2m, 500ms)"};
  std::string_view number = trim(text);
  std::uint64_t unit_ms = 1000;
  if (number.ends_with("ms")) {
    unit_ms = 1;
    number.remove_suffix(2);
  } else if (number.ends_with('s')) {
    number.remove_suffix(1);
  } else if (number.ends_with('m')) {
    unit_ms = 60'000;
    number.remove_suffix(1);
  }
  std::string_view whole = number;
  std::string_view fraction;
  if (const std::size_t dot = number.find('.'); dot != std::string_view::npos) {
    whole = number.substr(0, dot);
    fraction = number.substr(dot + 1);
    if (fraction.empty() || fraction.size() > 3) return bad;
  }
  const auto units = parse_number(whole);
  if (!units || *units > 86'400'000) return bad;
  std::uint64_t total = *units * unit_ms;
  if (!fraction.empty()) {
    const auto parts = parse_number(fraction);
    if (!parts) return bad;
    std::uint64_t scale = 1;
    for (std::size_t i = 0; i < fraction.size(); ++i) scale *= 10;
    total += *parts * unit_ms / scale;
  }
  if (total > 86'400'000) return bad;
  return milliseconds(total);
}

std::string show_duration(milliseconds duration) {
  const auto ms = duration.count();
  char text[40];
  if (ms < 100) {
    std::snprintf(text, sizeof text, "%lld ms", static_cast<long long>(ms));
  } else if (ms < 10'000) {
    std::snprintf(text, sizeof text, "%.2f s", static_cast<double>(ms) / 1000);
  } else if (ms % 1000 == 0 || ms >= 100'000) {
    std::snprintf(text, sizeof text, "%lld s", static_cast<long long>(ms / 1000));
  } else {
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ms) / 1000);
  }
  return text;
}

}  // namespace base
