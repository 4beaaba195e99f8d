// imex-prolog: makes this job's IMEX domain on this node, before the job may run.
#pragma once

#include <optional>

#include "base/result.h"
#include "commands/context.h"
#include "commands/imex_options.h"

namespace commands {

// The exit code; everything that was done and went wrong is in the runner's report. `config_error`: the config
// file is broken and `options` are the built-in defaults: told only where the gate says that this node is ours.
int imex_prolog(Context& context, const ImexPrologOptions& options, const std::optional<base::Error>& config_error);

}  // namespace commands
