// Has this job the node for itself? What Slurm says (it means different things in different versions), and a
// look at the node that needs no RPC.
#pragma once

#include <optional>
#include <string>

#include "host/environment.h"
#include "host/files.h"
#include "host/processes.h"
#include "slurm/job.h"

namespace slurm {

struct Claim {
  enum class Kind { exclusive, exclusive_if_block_topology, not_exclusive, unknown };
  Kind kind = Kind::unknown;
  std::string variable;  // which variable decided; empty where none is set
  std::string value;     // printable
};

// SLURM_JOB_EXCLUSIVE, if set, decides alone (NODE, TOPO: exclusive; anything else, also empty: not). Else
// SLURM_JOB_OVERSUBSCRIBE: NO exclusive; TOPO exclusive_if_block_topology; another word: not. Absent: unknown.
Claim read_claim(const host::Environment& environment);

// Somebody else's live step on this node.
struct ForeignStep {
  std::string job;  // id
  pid_t pid = 0;    // 0 where only a socket tells of it
  std::string seen_at;  // path
};

// Looks at the cgroup trees (v2: system.slice/*slurmstepd.scope/job_N; v1: */slurm*/uid_*/job_N) for live
// processes of another job than `own_job`, then at sockets <node>_<job>.<step> in `spool_dir` (%n, %h
// expanded). Nothing readable: nobody seen. `count_extern`: false leaves out the extern step (step_extern).
std::optional<ForeignStep> foreign_step(const host::Files& files, const host::Processes& processes,
                                        const std::string& own_job, const std::string& node_name,
                                        const std::string& spool_dir, bool count_extern);

}  // namespace slurm
