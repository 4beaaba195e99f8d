// What Slurm has to be told about the MIG devices of a node, and what its matching makes of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "mig/gpu.h"
#include "mig/instances.h"

namespace mig {

// Devices of one kind on a node. `profile` empty: whole GPUs with MIG off.
struct DeviceCount {
  std::string product;  // NVIDIA A100-SXM4-40GB; may be empty where only saved listings are known
  std::string profile;  // 3g.20gb
  unsigned count = 0;
};

struct GresEntry {
  std::string type;
  unsigned count = 0;
};

// What a node with these GPUs has for Slurm: GPUs with MIG off are whole, one that is on but empty is nothing.
std::vector<DeviceCount> devices_of(const std::vector<Gpu>& gpus, const std::vector<GpuInstance>& instances);

// The type that slurmd's AutoDetect=nvml makes: product in lower case, blanks as '_', for MIG cut at the first '-' and
// followed by the profile (gpu_nvml.c): "nvidia_a100_3g.20gb".
std::string detected_type(const DeviceCount& device);

// What a Gres= line with these entries gets out of these devices, by slurmd's rule: both lists longest type first; each
// device takes the first entry that still has room and is a part of its type, in any case; the rest is thrown away.
struct Match {
  std::vector<GresEntry> got;        // as configured, with the devices that each entry really got
  std::vector<std::string> ignored;  // devices that no entry takes
  std::vector<std::string> wrong;    // "gpu:1g.10gb takes nvidia_a100_1g.10gb+me"
};
Match match(const std::vector<GresEntry>& configured, const std::vector<DeviceCount>& devices);

struct Gres {
  std::vector<GresEntry> entries;  // largest profile first
  bool long_types = false;         // short types would be confused on this node
  std::vector<std::string> warnings;
};

// Short types (3g.20gb) where Slurm tells them apart, else the long ones.
Gres gres_for(const std::vector<DeviceCount>& devices);

std::string gres_text(const std::vector<GresEntry>& entries);  // gpu:3g.20gb:8,gpu:1g.5gb:16
// "gpu:3g.20gb:8,gpu:1g.5gb:16(S:0)", other Gres passed over. Error (usage): an entry that cannot be read.
base::Result<std::vector<GresEntry>> parse_gres(std::string_view text);

// As a person gives it (--plan-from): the same, but every entry must be one, and at least one must be of GPUs; "(null)"
// is none. Error: usage.
base::Result<std::vector<GresEntry>> parse_given_gres(std::string_view text);

std::string aws_cli(const std::vector<GresEntry>& entries);   // the documented update-compute-node-group call
std::string aws_json(const std::vector<GresEntry>& entries);  // its --slurm-configuration as JSON
// What to know before that call: it may replace existing lists.
extern const std::string_view aws_note;

// What a change from one Gres to another means for nodes that are powered down.
struct GresChange {
  std::vector<std::string> gone;  // types that jobs can no longer ask for
  std::vector<std::string> added;
  std::vector<std::string> fewer;  // "3g.20gb 8 -> 4"
  std::vector<std::string> more;
  bool same() const { return gone.empty() && added.empty() && fewer.empty() && more.empty(); }
};
GresChange change_of(const std::vector<GresEntry>& before, const std::vector<GresEntry>& after);

// Lines that tell it; `stale_nodes`: nodes that still advertise the old Gres, empty where nobody could be asked.
std::vector<std::string> tell(const GresChange& change, const std::vector<std::string>& stale_nodes);

// Nodes of `scontrol -o show node` whose Gres= has a type or count of `before` that `after` has not.
std::vector<std::string> stale_nodes(std::string_view show_node, const std::vector<GresEntry>& before,
                                     const std::vector<GresEntry>& after);

}  // namespace mig
