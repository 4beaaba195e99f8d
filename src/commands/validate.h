// validate: reads only; says what is wrong and what to do.
#pragma once

#include "commands/context.h"
#include "commands/validate_job.h"
#include "commands/validate_mig.h"

namespace commands {

enum class ValidateWhat { everything, imex, mig, job, cluster };

struct ValidateOptions {
  ValidateWhat what = ValidateWhat::everything;
  bool strict = false;
  bool srun = false;  // validate imex --srun: on every node of the allocation
  ValidateMigOptions mig;
  ValidateJobOptions job;
};

}  // namespace commands
