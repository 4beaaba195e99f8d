// validate cluster: Slurm's settings, as far as jobs on GPU nodes depend on them. Reads only.
#pragma once

#include "commands/context.h"
#include "flow/findings.h"

namespace commands {

void validate_cluster(Context& context, flow::Findings& findings);

}  // namespace commands
