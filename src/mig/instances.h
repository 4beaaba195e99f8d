// GPU instances (GI), the compute instances (CI) in them, and the MIG devices that programs see.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mig {

struct GpuInstance {
  unsigned gpu = 0;
  std::string profile;  // name
  unsigned profile_id = 0;
  unsigned id = 0;
  unsigned start = 0;
  unsigned size = 0;
};

struct ComputeInstance {
  unsigned gpu = 0;
  unsigned gpu_instance = 0;
  std::string name;  // 3g.20gb for the whole, 1c.3g.20gb for a part
  unsigned id = 0;
};

struct MigDevice {
  unsigned gpu = 0;
  std::string name;
  std::string uuid;
};

// `-lgi` and `-lci`. An empty text is no listing (error, source): "none" is told by words (mig/answer.h), never by
// nothing.
base::Result<std::vector<GpuInstance>> parse_gpu_instances(std::string_view text);
base::Result<std::vector<ComputeInstance>> parse_compute_instances(std::string_view text);
// `nvidia-smi -L`, both paddings of the device lines, and UUIDs from before R470 ("MIG-GPU-.../1/0").
std::vector<MigDevice> parse_devices(std::string_view text);

// "GPU 0: NVIDIA H200 (UUID: GPU-...)" lines of `nvidia-smi -L`: name and UUID by index.
struct ListedGpu {
  unsigned index = 0;
  std::string name;
  std::string uuid;
};
std::vector<ListedGpu> parse_listed_gpus(std::string_view text);

}  // namespace mig
