// The job as slurmd's Prolog and Epilog environment tells it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/environment.h"

namespace slurm {

struct Job {
  std::string id;             // decimal
  std::string node_name;      // SLURMD_NODENAME
  std::string node_list;      // SLURM_JOB_NODELIST, else SLURM_NODELIST; unexpanded; empty where neither is set
  std::string partition;      // may be empty
  std::string conf;           // SLURM_CONF; may be empty
  std::string sluid;          // SLURM_JOB_SLUID (25.11+); may be empty
  std::string restart_count;  // SLURM_JOB_RESTART_COUNT; may be empty
  std::string start_time;     // SLURM_JOB_START_TIME, seconds since the epoch; may be empty
  std::string het_job_id;     // SLURM_HET_JOB_ID; empty for an ordinary job
};

// Error: surroundings, naming the variable that is missing or is no job id or node name. A missing node list
// is no error here: an epilog needs none (and on some paths is given a part of it only). Variables that only
// describe (sluid, restart count, start time, het job id) are left out where they have not their form.
base::Result<Job> read_job(const host::Environment& environment);

// The job's nodes in the list's order. Error (surroundings, shared blame): no list, a list that
// expand_hostlist refuses, a node in it twice; (local) this node is not among them.
base::Result<std::vector<std::string>> job_nodes(const Job& job);

}  // namespace slurm
