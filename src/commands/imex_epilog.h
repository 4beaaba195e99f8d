// imex-epilog: ends the domain that this job's prolog made on this node.
#pragma once

#include <optional>

#include "base/result.h"
#include "commands/context.h"
#include "commands/imex_options.h"

namespace commands {

// The exit code: 0 but where the daemon will not die (the node must not take a next job then), or by hand.
int imex_epilog(Context& context, const ImexEpilogOptions& options, const std::optional<base::Error>& config_error);

}  // namespace commands
