#include "slurm/find_scontrol.h"

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "host/trusted_tool.h"
#include "site/site.h"

namespace slurm {

namespace {

std::vector<std::string> pcs_candidates(const host::Files& files) {
  constexpr std::string_view prefix = "slurm-";
  const std::string folder(site::pcs_slurm_dir);
  auto names = files.list(folder);
  if (!names) return {};
  std::erase_if(*names, [&](const std::string& name) { return !name.starts_with(prefix); });
  std::stable_sort(names->begin(), names->end(), [&](const std::string& a, const std::string& b) {
    return base::compare_versions(std::string_view(a).substr(prefix.size()),
                                  std::string_view(b).substr(prefix.size())) > 0;
  });
  std::vector<std::string> candidates;
  for (const std::string& name : *names) candidates.push_back(folder + "/" + name + "/bin/scontrol");
  return candidates;
}

}  // namespace

std::vector<std::string> beside_slurmd(const host::Files& files, const host::Processes& processes) {
  const std::string process = "/proc/" + std::to_string(processes.parent());
  // The folder of a process belongs to whom the process runs as.
  const auto status = files.status(process);
  if (!status || !*status || (*status)->uid != 0) return {};
  auto link = files.read_link(process + "/exe");
  if (!link) return {};
  std::string program = *link;
  constexpr std::string_view deleted = " (deleted)";
  if (program.ends_with(deleted)) program.resize(program.size() - deleted.size());
  const std::size_t slash = program.rfind('/');
  if (slash == std::string::npos || !program.starts_with('/')) return {};
  std::string name = program.substr(slash + 1);
  // Debian's packages hold slurmd-wlm and slurmstepd-wlm; slurmd is a link to it.
  constexpr std::string_view debian = "-wlm";
  if (name.ends_with(debian)) name.resize(name.size() - debian.size());
  if (name != "slurmd" && name != "slurmstepd") return {};
  // Root's slurmd is a program of root's: one that somebody else could have written is no reason to trust its
  // neighbours. (Of an upgraded one the old file is gone, and a new one may be in its place.)
  const auto file = files.status(program);
  if (file && *file && ((*file)->uid != 0 || ((*file)->permissions & 022U) != 0)) return {};
  const std::string folder = program.substr(0, slash);
  std::vector<std::string> candidates;
  if (const std::size_t above = folder.rfind('/'); above != std::string::npos) {
    candidates.push_back(folder.substr(0, above) + "/bin/scontrol");
  }
  candidates.push_back(folder + "/scontrol");
  return candidates;
}

base::Result<std::string> find_scontrol(const host::Files& files, const host::Processes& processes, host::Log& log,
                                        const std::string& configured) {
  const bool as_root = processes.is_root();
  if (!configured.empty()) {
    auto tool = host::check_tool(files, configured, as_root);
    if (tool || tool.error().os_error != ENOENT) return tool;
    log.warn("the configured scontrol " + base::printable(configured) + " is not there: looking for another");
  }
  for (const std::string& candidate : beside_slurmd(files, processes)) {
    // Root already runs the slurmd of this folder: asking more of its neighbour would protect nothing.
    auto tool = host::check_tool(files, candidate, false);
    if (tool) return tool;
  }
  std::vector<std::string> candidates = pcs_candidates(files);
  candidates.insert(candidates.end(), site::scontrol.begin(), site::scontrol.end());
  auto tool = host::find_tool(files, "scontrol", candidates, as_root);
  if (tool || tool.error().os_error != ENOENT) return tool;
  base::Error error = tool.error();
  error.cure = "install it, or tell its path by --scontrol or scontrol = \"...\" in the config file";
  return error;
}

}  // namespace slurm
