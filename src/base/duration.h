// Durations as people write them on the command line and in the config file.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"

namespace base {

using std::chrono::milliseconds;

// "30" and "30s" are seconds, "2m" minutes, "500ms" milliseconds, "1.5s" works. No sign, at most one day.
// Error: usage, naming the text.
Result<milliseconds> parse_duration(std::string_view text);

// For people: "0.42 s", "12.3 s", "150 s", "12 ms".
std::string show_duration(milliseconds duration);

}  // namespace base
