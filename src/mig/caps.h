// Capability files: without /dev/nvidia-caps/nvidia-capN of its GPU and compute instance a MIG device cannot be opened,
// and slurmd skips it. The driver names them in /proc/driver/nvidia-caps/mig-minors, by the GPU's minor number.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/files.h"
#include "mig/gpu.h"
#include "mig/instances.h"

namespace mig {

// "gpu0/gi1/ci0/access" -> 5. Lines of another form are passed over.
std::map<std::string, unsigned> parse_mig_minors(std::string_view text);

// "Device Minor: 3" of /proc/driver/nvidia/gpus/0000:36:00.0/information; the index where it cannot be read (they
// differ only where a GPU was lost or hidden).
unsigned device_minor(const host::Files& files, const Gpu& gpu);

// The character device major of nvidia-caps in /proc/devices.
std::optional<unsigned> caps_major(const host::Files& files);

// Files that should be there and are not, or are other devices: "/dev/nvidia-caps/nvidia-cap5 (gpu0/gi1/ci0/access)".
// Every GPU instance is taken to hold compute instance 0. Empty where the driver's list cannot be read.
std::vector<std::string> missing_caps(const host::Files& files, const std::vector<Gpu>& gpus,
                                      const std::vector<GpuInstance>& instances);

}  // namespace mig
