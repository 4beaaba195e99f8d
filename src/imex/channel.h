// /dev/nvidia-caps-imex-channels/channel0: without it no process may use the IMEX domain.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "host/files.h"
#include "host/log.h"

namespace imex {

// The character device major of exactly `nvidia-caps-imex-channels` in /proc/devices (which pads majors
// below 100 with spaces). nullopt: the driver has not registered one.
std::optional<unsigned> parse_channel_major(std::string_view proc_devices);

struct Channel {
  enum class Outcome { right_already, made, repaired, left_to_slurm };
  Outcome outcome = Outcome::right_already;
  unsigned device_major = 0;
  std::string found;  // what was wrong, for a repair
};

std::string describe(const Channel& channel);

// For people who only look: what is wrong with channel0; empty: nothing. Error: as ensure_channel's.
base::Result<std::string> find_channel_fault(const host::Files& files);
inline constexpr std::string_view channel_missing = "missing";  // one of its words

// What to type as root to make it right; empty where the driver has no major.
std::string channel_cure(const host::Files& files);

// Folder 0755, channel0 a char device major:0 with 0666 whatever the umask; repaired where it is something
// else; proved by lstat and by opening it. ENXIO at the open (no driver behind the number) is a WARN: a
// channel can be right before the fabric is. Error: change, with the published guide's advice where the
// driver has no major.
base::Result<Channel> ensure_channel(host::Files& files, host::Log& log);

}  // namespace imex
