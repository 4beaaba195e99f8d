// A daemon that runs outside the unit: it is named, never killed, and the new one cannot start beside it (one
// IMEX session a driver, one server port a host).
#pragma once

#include "base/result.h"
#include "host/files.h"
#include "host/network.h"
#include "imex/config.h"
#include "systemd/units.h"

namespace imex {

// No process of this node's own namespaces runs the nvidia-imex program but those of the unit (as `unit` shows
// it), and where the unit has none, nobody listens on the server or command port. Looked at before anything is
// stopped. Error: change, naming pid, program and port.
base::Status check_no_stray_daemon(const host::Files& files, const host::Network& network, const DaemonConfig& config,
                                   const systemd::UnitState& unit);

}  // namespace imex
