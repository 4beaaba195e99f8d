#include "commands/mig_inputs.h"

#include <cerrno>

#include "base/text.h"
#include "commands/ask_tool.h"
#include "mig/holders.h"
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

base::Result<std::vector<mig::Wanted>> keep_supported(const std::vector<mig::Wanted>& wanted, bool if_supported,
                                                      host::Log& log) {
  std::vector<mig::Wanted> kept;
  std::vector<std::string> lost;
  std::vector<std::string> without;
  for (const mig::Wanted& want : wanted) {
    const bool off = want.layout.kind == mig::Layout::Kind::off;
    const bool unsupported = want.gpu.current == mig::Mode::unsupported;
    const bool unknown = want.gpu.current == mig::Mode::unknown || want.gpu.pending == mig::Mode::unknown;
    if (unknown) lost.push_back(want.gpu.show() + " answers '" + want.gpu.mode_words + "'");
    if (unsupported && !off) without.push_back(want.gpu.show() + " " + want.gpu.name);
    if (!unknown && (!unsupported || off)) kept.push_back(want);
  }
  if (!lost.empty()) {
    return Error{ExitCode::surroundings, "the MIG mode cannot be read: " + base::join(lost, ", "),
                 "look at `dmesg` for NVRM or Xid lines, and replace the node"};
  }
  if (without.empty()) return kept;
  if (!if_supported) {
    return Error{ExitCode::surroundings, "no MIG on " + base::join(without, ", "),
                 "use an instance type whose GPUs have MIG, select others with SEL=..., or give --if-supported"};
  }
  log.info("passed over, no MIG (--if-supported): " + base::join(without, ", "));
  return kept;
}

bool may_have_no_gpu(const host::Files& files, const MigSetupOptions& options) {
  const bool is_expected = options.expect_gpus && *options.expect_gpus > 0;
  return options.if_supported && !is_expected && files.list("/sys/bus/pci/devices") && mig::pci_gpus(files).empty();
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
