// validate job: has this job the GPU that it asked for? Run inside a job.
//
// Options of `validate job`: --requeue [flag] `scontrol requeue` the job where it has no GPU (from SLURM_PROCID 0 or
// the batch step only), --max-requeues N [number, 3] not more often than this by SLURM_RESTART_COUNT.
#pragma once

#include "base/result.h"
#include "commands/context.h"
#include "flow/findings.h"

namespace commands {

struct ValidateJobOptions {
  bool requeue = false;
  unsigned max_requeues = 3;
};

// Error: surroundings, outside a job.
base::Status validate_job(Context& context, const ValidateJobOptions& options, flow::Findings& findings);

// Inside a job's step or batch script.
bool job_applies(const Context& context);

}  // namespace commands
