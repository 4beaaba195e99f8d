// Ending a domain on this node: the daemon stopped, the list without nodes, so that no stale domain meets the
// next job or the next boot. What a failed prolog and an epilog have in common.
#pragma once

#include <string>

#include "base/result.h"
#include "commands/context.h"
#include "systemd/units.h"

namespace commands {

struct DomainEnd {
  systemd::Stopped stopped;
  base::Status emptied = base::ok();  // an error: the daemon is gone, but the list still names the old nodes
};

std::string describe(const DomainEnd& end);

// Error: change, where the daemon cannot be stopped; the list is then left alone, since it is never written while
// a daemon runs.
base::Result<DomainEnd> end_domain(const Context& context, systemd::Units& units, const std::string& unit,
                                   const std::string& nodes_config, const std::string& list,
                                   const host::Deadline& deadline, host::milliseconds graceful);

}  // namespace commands
