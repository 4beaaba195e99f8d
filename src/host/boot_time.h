// When this machine was booted.
#pragma once

#include <cstdint>
#include <optional>

#include "host/files.h"

namespace host {

// Nanoseconds since the epoch, exact to the second ("btime" of /proc/stat); nothing where it cannot be read.
std::optional<std::int64_t> boot_time_ns(const Files& files);

}  // namespace host
