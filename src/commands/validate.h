// validate: reads only; says what is wrong and what to do. Each subject has a file of its own.
#pragma once

#include <string>

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

struct ValidateForm {
  bool json = false;
  bool colour = false;
};

// The exit code: 0, 1 where something is wrong, 3 only where validate itself cannot run. `out` is what stdout gets.
int validate(Context& context, const ValidateOptions& options, const ValidateForm& form, std::string& out);

}  // namespace commands
