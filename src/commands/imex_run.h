// What imex-prolog and imex-epilog both know of the run they are in.
#pragma once

#include <optional>
#include <string>

#include "commands/context.h"
#include "imex/state.h"
#include "slurm/conf.h"
#include "slurm/job.h"

namespace commands {

// The node's own slurm.conf; nothing where none can be read (that is no fault: defaults apply).
std::optional<slurm::Conf> find_conf(const Context& context);

imex::RunIdentity identity_of(const slurm::Job& job);
std::string show_run(const imex::RunIdentity& run);  // "job 7 (restart 1)"

}  // namespace commands
