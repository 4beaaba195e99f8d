#include "imex/channel.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/text.h"
#include "site/site.h"

namespace imex {

using base::Error;
using base::ExitCode;
using host::FileStatus;

namespace {

constexpr mode_t folder_mode = 0755;
constexpr mode_t channel_mode = 0666;

std::string octal(mode_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode));
  return text;
}

// What is wrong with the thing at channel0's place; empty: nothing.
std::string fault_of(const std::optional<FileStatus>& status, unsigned device_major) {
  if (!status) return std::string(channel_missing);
  if (status->kind != FileStatus::Kind::char_device) return "no character device";
  if (status->device_major != device_major || status->device_minor != 0) {
    return "device " + std::to_string(status->device_major) + ":" + std::to_string(status->device_minor) +
           " instead of " + std::to_string(device_major) + ":0";
  }
  if (status->uid != 0) return "owned by uid " + std::to_string(status->uid);  // who could take the mode away again
  if (status->permissions != channel_mode) return "mode " + octal(status->permissions) + " instead of 0666";
  return "";
}

base::Status ensure_folder(host::Files& files, const std::string& folder) {
  const auto status = files.status(folder);
  if (!status) return status.error();
  if (*status && (*status)->kind != FileStatus::Kind::directory) {
    if (auto removed = files.remove(folder); !removed) return removed;
    return files.make_directory(folder, folder_mode);
  }
  if (*status && (*status)->permissions == folder_mode) return base::ok();
  return files.make_directory(folder, folder_mode);
}

base::Result<unsigned> find_major(const host::Files& files) {
  const auto devices = files.read(std::string(site::proc_devices), 1U << 20U);
  if (!devices) return Error{ExitCode::change, devices.error().what, "see whether /proc is mounted"};
  const auto device_major = parse_channel_major(*devices);
  if (!device_major) {
    return Error{ExitCode::change, "no IMEX channel device: /proc/devices has no " + std::string(site::channel_driver),
                 "verify that the NVIDIA driver is installed and loaded (`nvidia-smi`), and that "
                 "/proc/devices contains nvidia-caps-imex-channels"};
  }
  return *device_major;
}

}  // namespace

std::optional<unsigned> parse_channel_major(std::string_view proc_devices) {
  bool in_character_devices = true;
  for (const std::string_view line : base::each_line(proc_devices)) {
    if (line.starts_with("Block devices")) in_character_devices = false;
    if (line.starts_with("Character devices")) in_character_devices = true;
    const auto words = base::words(line);
    if (!in_character_devices || words.size() != 2 || words[1] != site::channel_driver) continue;
    const auto number = base::parse_number(words[0]);
    if (number && *number > 0 && *number < (1U << 12U)) return static_cast<unsigned>(*number);
  }
  return std::nullopt;
}

std::string describe(const Channel& channel) {
  const std::string what =
      std::string(site::channel0) + " (device " + std::to_string(channel.device_major) + ":0, mode 0666)";
  switch (channel.outcome) {
    case Channel::Outcome::right_already: return what + " is right already";
    case Channel::Outcome::made: return "made " + what;
    case Channel::Outcome::repaired: return "repaired " + what + ", it was: " + channel.found;
    case Channel::Outcome::left_to_slurm:
      return "left alone: SwitchType is switch/nvidia_imex, so Slurm makes each job's channel";
  }
  return "";
}

base::Result<std::string> find_channel_fault(const host::Files& files) {
  const auto device_major = find_major(files);
  if (!device_major) return device_major.error();
  const auto status = files.status(std::string(site::channel0));
  if (!status) return status.error();
  return fault_of(*status, *device_major);
}

std::string channel_cure(const host::Files& files) {
  const auto device_major = find_major(files);
  if (!device_major) return "";
  const std::string path(site::channel0);
  // -d: container runtimes leave an empty folder in its place; -m: whatever the umask.
  return "rm -df " + path + "; mkdir -p -m 0755 " + std::string(site::channel_dir) + "; mknod -m 0666 " + path + " c " +
         std::to_string(*device_major) + " 0";
}

base::Result<Channel> ensure_channel(host::Files& files, host::Log& log) {
  const std::string path(site::channel0);
  const auto device_major = find_major(files);
  if (!device_major) return device_major.error();
  Channel channel;
  channel.device_major = *device_major;
  if (auto folder = ensure_folder(files, std::string(site::channel_dir)); !folder) {
    return Error{ExitCode::change, folder.error().what, "see what is at " + std::string(site::channel_dir)};
  }
  const auto status = files.status(path);
  if (!status) return Error{ExitCode::change, status.error().what, ""};
  channel.found = fault_of(*status, *device_major);
  if (!channel.found.empty()) {
    channel.outcome = *status ? Channel::Outcome::repaired : Channel::Outcome::made;
    const bool mode_only = *status && channel.found.starts_with("mode ");
    auto changed = mode_only ? files.set_permissions(path, channel_mode)
                             : files.make_char_device(path, *device_major, 0, channel_mode);
    if (!changed)
      return Error{ExitCode::change, changed.error().what,
                   "see what is at " + path + " and whether /dev can be written"};
    const auto after = files.status(path);
    if (!after) return Error{ExitCode::change, after.error().what, ""};
    if (const std::string still = fault_of(*after, *device_major); !still.empty()) {
      return Error{ExitCode::change, "cannot make " + path + ": it is still wrong (" + still + ")",
                   "see what else manages /dev"};
    }
  }
  // A dry run's channel that is not there yet cannot be opened: nothing to learn from that.
  if (const int error = files.probe_device(path); error == ENXIO || error == ENODEV) {
    log.warn(path + " exists, but no driver answers behind device " + std::to_string(*device_major) + ":0 (" +
             std::strerror(error) + "): is the NVIDIA driver loaded and ImexChannelCount above 0?");
  } else if (error != 0) {
    return Error{ExitCode::change, "cannot open " + path + ": " + std::strerror(error),
                 "a process of the job could not open it either; see how /dev is mounted (nodev?) and limited"};
  }
  return channel;
}

}  // namespace imex
