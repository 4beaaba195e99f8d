// What mig-setup and validate mig both begin with: the layouts that were asked for, and the tool.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "commands/context.h"
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

// A path that a person typed, which may be relative to the folder where the person stands.
std::string typed_path(const std::string& path);

// Error: surroundings.
base::Result<std::string> find_nvidia_smi(const Context& context);

std::string read_line(const host::Files& files, std::string_view path);  // trimmed; empty where it cannot be read

}  // namespace commands
