// The GPUs of the node and their MIG mode, as one query tells them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mig {

enum class Mode { disabled, enabled, unsupported, unknown };

std::string_view word(Mode mode);

struct Gpu {
  unsigned index = 0;     // changes between boots: for reading nvidia-smi's tables only
  std::string bus_id;     // 00000000:36:00.0: how every changing call names the GPU
  std::string device_id;  // 0x233510DE
  std::string uuid;
  Mode current = Mode::unknown;
  Mode pending = Mode::unknown;
  std::string mode_words;  // as printed, where a mode is unknown
  bool persistence = false;
  std::string driver;
  std::string name;  // NVIDIA H200

  bool on() const { return current == Mode::enabled && pending == Mode::enabled; }
  bool off() const { return (current == Mode::disabled && pending == Mode::disabled) || current == Mode::unsupported; }
  // "GPU 0 (00000000:36:00.0)"
  std::string show() const;
};

// The fields of --query-gpu, in the order that parse_gpus expects. The name is last: it is the only free text.
inline constexpr std::string_view gpu_query =
    "index,pci.bus_id,pci.device_id,uuid,mig.mode.current,mig.mode.pending,persistence_mode,driver_version,name";

// Output of --query-gpu=<gpu_query> --format=csv,noheader. Error (source) for a row of another shape or a GPU twice. In
// the order of the index; empty where no row is there.
base::Result<std::vector<Gpu>> parse_gpus(std::string_view text);

// "36:00.0", "0000:36:00.0" and "00000000:36:00.0" are one: lower case, domain without leading zeros ("0:36:00.0").
// nullopt: no bus id.
std::optional<std::string> canonical_bus_id(std::string_view text);

const Gpu* find_by_index(const std::vector<Gpu>& gpus, unsigned index);
const Gpu* find_by_bus(const std::vector<Gpu>& gpus, std::string_view bus_id);

struct ComputeApp {
  std::string pid;
  std::string name;
  std::string gpu_uuid;
};

// Output of --query-compute-apps=pid,gpu_uuid,process_name --format=csv,noheader. No process: an empty text.
std::vector<ComputeApp> parse_compute_apps(std::string_view text);

}  // namespace mig
