// Has this job the node for itself? What Slurm says (it means different things in different versions), and a
// look at the node that needs no RPC.
#pragma once

#include <optional>
#include <string>

#include "host/clock.h"
#include "host/environment.h"
#include "host/files.h"
#include "host/processes.h"
#include "slurm/conf.h"
#include "slurm/job.h"

namespace slurm {

struct Claim {
  enum class Kind { exclusive, exclusive_if_block_topology, not_exclusive, unknown };
  Kind kind = Kind::unknown;
  std::string variable;  // which variable decided; empty where none is set
  std::string value;     // printable
};

// SLURM_JOB_EXCLUSIVE, if set, decides alone (NODE exclusive, TOPO exclusive_if_block_topology; anything else,
// also empty: not). Else SLURM_JOB_OVERSUBSCRIBE: NO exclusive; TOPO exclusive_if_block_topology; another
// word: not. Absent: unknown.
//
// A claim is not yet the truth, so every yes is confirmed by foreign_step: Slurm 26.05's controller packs its
// new numbers into the old field, and a 25.11 slurmd then says NO for a plain shared job
// (plugins/cred/common/cred_common.c).
Claim read_claim(const host::Environment& environment);

// What topology.yaml beside the conf file shows of the topology of this partition; nullopt where it shows
// nothing: no such file, not readable, no choice possible. Slurm enforces "TOPO" in a block topology only
// (cons_tres/job_test.c, _block_by_topology): in any other, a TOPO job may share its nodes.
std::optional<bool> partition_topology_is_block(const host::Files& files, const Conf& conf,
                                                const std::string& partition);

// The claim with that knowledge: exclusive_if_block_topology becomes exclusive unless the topology is shown to
// be another one.
bool claims_exclusive(const Claim& claim, std::optional<bool> topology_is_block);

// Somebody else's live step on this node.
struct ForeignStep {
  std::string job;      // id, or the SLUID where only that is known (26.05's cgroups)
  pid_t pid = 0;        // 0 where only a socket tells of it, or the process is in another pid namespace
  std::string seen_at;  // path
};

// Looks at the cgroup trees for live processes of another job than `own_job`, then at sockets
// <node>_<job>.<step> in `spool_dir` (%n, %h expanded; of any node where `node_name` is empty). Nothing readable:
// nobody seen. `count_extern`: false leaves out the extern step.
//   v2: <slice>/*slurmstepd.scope/job_N, also with CgroupSlice= of 26.05; 26.05 names the job's folder by its
//       SLUID unless CgroupJobIdPaths=yes (cgroup_v2.c), hence `own_sluid` (empty: no SLUID is ours)
//   v1: <controller>/slurm*/uid_*/job_N
std::optional<ForeignStep> foreign_step(const host::Files& files, const host::Processes& processes,
                                        const std::string& own_job, const std::string& own_sluid,
                                        const std::string& node_name, const std::string& spool_dir, bool count_extern);

// The same, looked at again and again until nobody is seen or `limit` is over (a step that is just ending must
// not cost the job its domain). The value is who was there at the last look.
std::optional<ForeignStep> lasting_foreign_step(const host::Files& files, const host::Processes& processes,
                                                host::Clock& clock, const Job& job, const std::string& spool_dir,
                                                host::milliseconds limit);

}  // namespace slurm
