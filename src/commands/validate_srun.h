// validate imex --srun: the same checks on every node of the allocation, merged into one report.
#pragma once

#include "base/result.h"
#include "commands/context.h"
#include "flow/findings.h"

namespace commands {

// Error: surroundings: not inside an allocation, no srun.
base::Status validate_imex_by_srun(Context& context, flow::Findings& findings);

}  // namespace commands
