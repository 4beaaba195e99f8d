// What mig-setup and validate mig both begin with: the layouts that were asked for, and the tool.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "commands/context.h"
#include "commands/mig_setup.h"
#include "host/log.h"
#include "mig/layout.h"

namespace commands {

struct LayoutWords {
  std::vector<std::string> layouts;
  std::string file;
  std::string name;

  bool any() const { return !layouts.empty() || !file.empty(); }
};

// Error: usage; a file's name stands in front of what is wrong with it.
base::Result<std::vector<mig::Rule>> read_rules(const host::Files& files, const LayoutWords& words);

// GPUs without MIG: nothing to do for `none`; for a layout an error (surroundings), or with --if-supported passed over.
// Empty: none of the selected GPUs has MIG.
base::Result<std::vector<mig::Wanted>> keep_supported(const std::vector<mig::Wanted>& wanted, bool if_supported,
                                                      host::Log& log);
inline constexpr std::string_view no_mig_words = "nothing to do: no selected GPU has MIG (--if-supported)";

// A node of another kind with the same launch template: --if-supported, no GPU on the PCI bus, and none was promised.
bool may_have_no_gpu(const host::Files& files, const MigSetupOptions& options);
inline constexpr std::string_view no_gpu_words = "nothing to do: this node has no NVIDIA GPU (--if-supported)";

// A path that a person typed, which may be relative to the folder where the person stands.
std::string typed_path(const std::string& path);

// Error: surroundings.
base::Result<std::string> find_nvidia_smi(const Context& context);

std::string read_line(const host::Files& files, std::string_view path);  // trimmed; empty where it cannot be read

}  // namespace commands
