// The pending branch of mig-setup: reboot once per launch, where that is allowed, or tell what helps.
#pragma once

#include <string>

#include "commands/context.h"
#include "commands/mig_report.h"
#include "commands/mig_setup.h"

namespace commands {

// The exit code; does not come back before the node goes down where it reboots. `pending_from_the_start`: a mode was
// pending before this run asked for it, so an earlier boot may have been for nothing.
int reboot_or_tell(Context& context, const MigSetupOptions& options, const std::string& layout,
                   const base::Error& pending, bool pending_from_the_start, MigReport& report, std::string& out);

// All modes are as wanted: this launch may be rebooted again should a mode ever be pending.
void forget_reboot(Context& context);

// $INSTANCE_ID, what cloud-init keeps (an older file than this boot only where DMI has no id of EC2's), DMI; empty:
// unknown.
std::string instance_id(const host::Host& host);

}  // namespace commands
