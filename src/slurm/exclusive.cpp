#include "slurm/exclusive.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/text.h"
#include "slurm/block_source.h"

namespace slurm {

namespace {

constexpr std::string_view cgroup_root = "/sys/fs/cgroup";
constexpr std::size_t pids_cap = 1U << 20U;
constexpr int deepest_slice = 3;
constexpr int deepest_cgroup = 6;  // job/step/user/task and a little more
constexpr host::milliseconds look_again{200};
constexpr std::string_view extern_step = "4294967292";  // SLURM_EXTERN_CONT, in the name of a step's socket

bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "s" and 13 characters of Crockford's base 32 (sluid.c, print_sluid).
bool is_sluid(std::string_view name) {
  constexpr std::string_view alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  return name.size() == 14 && name.front() == 's' && name.find_first_not_of(alphabet, 1) == std::string_view::npos;
}

class Look {
 public:
  Look(const host::Files& files, const host::Processes& processes, const std::string& own_job,
       const std::string& own_sluid, bool count_extern)
      : files_(files), processes_(processes), own_job_(own_job), own_sluid_(own_sluid), count_extern_(count_extern) {}

  std::optional<ForeignStep> cgroups() const {
    for (const std::string& name : list(std::string(cgroup_root))) {
      const std::string path = std::string(cgroup_root) + "/" + name;
      if (auto found = slice_or_controller(path, 1)) return found;
    }
    return std::nullopt;
  }

  std::optional<ForeignStep> sockets(const std::string& node_name, const std::string& spool_dir) const {
    for (const std::string& name : list(spool_dir)) {
      const std::size_t underscore = name.rfind('_');
      if (underscore == std::string::npos) continue;
      // By hand, nobody may have said what the node is called.
      if (!node_name.empty() && std::string_view(name).substr(0, underscore) != node_name) continue;
      // <job>.<step>, for a component of a het step <job>.<step>.<component> (stepd_api.c)
      const auto parts = base::split(std::string_view(name).substr(underscore + 1), '.');
      if (parts.size() < 2 || parts.size() > 3 || !std::all_of(parts.begin(), parts.end(), is_digits)) continue;
      if (parts[0] == own_job_) continue;
      if (!count_extern_ && parts[1] == extern_step) continue;
      const std::string path = spool_dir + "/" + name;
      const auto status = files_.status(path);
      if (!status || !*status || (*status)->kind != host::FileStatus::Kind::socket) continue;
      return ForeignStep{std::string(parts[0]), 0, path};
    }
    return std::nullopt;
  }

 private:
  std::vector<std::string> list(const std::string& path) const {
    auto names = files_.list(path);
    return names ? std::move(*names) : std::vector<std::string>{};
  }

  std::optional<ForeignStep> slice_or_controller(const std::string& path, int depth) const {
    for (const std::string& name : list(path)) {
      const std::string below = path + "/" + name;
      if (name.ends_with("slurmstepd.scope")) {
        if (auto found = jobs(below)) return found;
      } else if (name.starts_with("slurm") && !name.ends_with(".service") && !name.ends_with(".slice")) {
        for (const std::string& user : list(below)) {
          if (!user.starts_with("uid_")) continue;
          if (auto found = jobs(below + "/" + user)) return found;
        }
      } else if (name.ends_with(".slice") && depth < deepest_slice) {
        if (auto found = slice_or_controller(below, depth + 1)) return found;
      }
    }
    return std::nullopt;
  }

  std::optional<ForeignStep> jobs(const std::string& folder) const {
    constexpr std::string_view prefix = "job_";
    for (const std::string& name : list(folder)) {
      std::string job;
      if (name.starts_with(prefix) && is_digits(std::string_view(name).substr(prefix.size()))) {
        job = name.substr(prefix.size());
        if (job == own_job_) continue;
      } else if (is_sluid(name)) {
        job = name;
        if (job == own_sluid_) continue;
      } else {
        continue;
      }
      if (auto found = process(folder + "/" + name, job, 0)) return found;
    }
    return std::nullopt;
  }

  // A live process anywhere in this part of the tree.
  std::optional<ForeignStep> process(const std::string& path, const std::string& job, int depth) const {
    const std::string pids_path = path + "/cgroup.procs";
    if (const auto pids = files_.read(pids_path, pids_cap)) {
      for (const std::string_view line : base::each_line(*pids)) {
        const auto pid = base::parse_number(base::trim(line));
        if (!pid || *pid > static_cast<std::uint64_t>(std::numeric_limits<pid_t>::max())) continue;
        // 0 is how the kernel writes a process of another pid namespace: it lives, whoever it is.
        if (*pid == 0 || processes_.alive(static_cast<pid_t>(*pid))) {
          return ForeignStep{job, static_cast<pid_t>(*pid), pids_path};
        }
      }
    }
    if (depth == deepest_cgroup) return std::nullopt;
    for (const std::string& name : list(path)) {
      if (!is_cgroup(name)) continue;
      if (!count_extern_ && name == "step_extern") continue;
      if (auto found = process(path + "/" + name, job, depth + 1)) return found;
    }
    return std::nullopt;
  }

  // A cgroup's control files stand beside the folders below it; theirs have a dot (memory.max), except two of v1.
  static bool is_cgroup(const std::string& name) {
    return name.find('.') == std::string::npos && name != "tasks" && name != "notify_on_release";
  }

  const host::Files& files_;
  const host::Processes& processes_;
  const std::string& own_job_;
  const std::string& own_sluid_;
  bool count_extern_;
};

}  // namespace

Claim read_claim(const host::Environment& environment) {
  Claim claim;
  if (const auto value = environment.get("SLURM_JOB_EXCLUSIVE")) {
    claim.variable = "SLURM_JOB_EXCLUSIVE";
    claim.value = base::printable(*value, 60);
    claim.kind = *value == "NODE"   ? Claim::Kind::exclusive
                 : *value == "TOPO" ? Claim::Kind::exclusive_if_block_topology
                                    : Claim::Kind::not_exclusive;
  } else if (const auto shared = environment.get("SLURM_JOB_OVERSUBSCRIBE")) {
    claim.variable = "SLURM_JOB_OVERSUBSCRIBE";
    claim.value = base::printable(*shared, 60);
    claim.kind = *shared == "NO"     ? Claim::Kind::exclusive
                 : *shared == "TOPO" ? Claim::Kind::exclusive_if_block_topology
                                     : Claim::Kind::not_exclusive;
  }
  return claim;
}

std::optional<bool> partition_topology_is_block(const host::Files& files, const Conf& conf,
                                                const std::string& partition) {
  const auto file = read_topology_file(files, conf, partition);
  if (!file || !*file) return std::nullopt;
  switch ((*file)->kind) {
    case TopologyFile::Kind::block: return true;
    case TopologyFile::Kind::other: return false;
    case TopologyFile::Kind::none: return std::nullopt;
  }
  return std::nullopt;
}

bool claims_exclusive(const Claim& claim, std::optional<bool> topology_is_block) {
  switch (claim.kind) {
    case Claim::Kind::exclusive: return true;
    case Claim::Kind::exclusive_if_block_topology: return topology_is_block.value_or(true);
    case Claim::Kind::not_exclusive:
    case Claim::Kind::unknown: return false;
  }
  return false;
}

std::optional<ForeignStep> foreign_step(const host::Files& files, const host::Processes& processes,
                                        const std::string& own_job, const std::string& own_sluid,
                                        const std::string& node_name, const std::string& spool_dir, bool count_extern) {
  const Look look(files, processes, own_job, own_sluid, count_extern);
  if (auto found = look.cgroups()) return found;
  return look.sockets(node_name, spool_dir);
}

std::optional<ForeignStep> lasting_foreign_step(const host::Files& files, const host::Processes& processes,
                                                host::Clock& clock, const Job& job, const std::string& spool_dir,
                                                host::milliseconds limit) {
  const host::Deadline deadline(clock, limit);
  for (;;) {
    auto found = foreign_step(files, processes, job.id, job.sluid, job.node_name, spool_dir, true);
    if (!found || deadline.over() || !clock.sleep(deadline.limit(look_again))) return found;
  }
}

}  // namespace slurm
