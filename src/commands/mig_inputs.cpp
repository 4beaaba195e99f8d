#include "commands/mig_inputs.h"

#include <cerrno>

#include "base/text.h"
#include "commands/ask_tool.h"
#include "site/site.h"

namespace commands {

using base::Error;
using base::ExitCode;

base::Result<std::vector<mig::Rule>> read_rules(const host::Files& files, const LayoutWords& words) {
  if (!words.layouts.empty() && !words.file.empty()) {
    return Error{ExitCode::usage, "--layout and --layout-file were both given", "give one of them"};
  }
  if (words.file.empty()) {
    if (!words.name.empty())
      return Error{ExitCode::usage, "--layout-name without --layout-file", "give the file that holds this layout"};
    return mig::parse_rules(words.layouts);
  }
  const auto text = files.read(typed_path(words.file), 1U << 20U);
  if (!text)
    return Error{ExitCode::usage, "layout file " + words.file + ": " + text.error().what,
                 "give a readable file with --layout-file"};
  auto rules = mig::parse_layout_file(*text, words.name);
  if (!rules) return Error{ExitCode::usage, words.file + ": " + rules.error().what, rules.error().cure};
  return rules;
}

std::string typed_path(const std::string& path) {
  return path.empty() || path.front() == '/' ? path : "/proc/self/cwd/" + path;
}

base::Result<std::string> find_nvidia_smi(const Context& context) {
  auto tool = find_listed_tool(context, "nvidia-smi", site::nvidia_smi);
  if (!tool && tool.error().os_error == ENOENT && tool.error().cure.empty())
    tool.error().cure = "install the NVIDIA driver";
  return tool;
}

std::string read_line(const host::Files& files, std::string_view path) {
  const auto text = files.read(std::string(path), 4096);
  return text ? std::string(base::trim(*text)) : "";
}

}  // namespace commands
