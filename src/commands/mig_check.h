// mig-setup --check: can this layout be had? Against saved listings on a laptop, or this node's driver; changes
// nothing.
#pragma once

#include <string>

#include "commands/context.h"
#include "commands/mig_setup.h"

namespace commands {

int mig_check(Context& context, const MigSetupOptions& options, std::string& out);

}  // namespace commands
