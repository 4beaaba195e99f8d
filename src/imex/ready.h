// Waiting for this node's own daemon.
#pragma once

#include <string>

#include "base/result.h"
#include "host/clock.h"
#include "host/log.h"
#include "host/network.h"
#include "host/processes.h"
#include "imex/ctl.h"
#include "systemd/units.h"

namespace imex {

struct ReadyTask {
  std::string unit;
  systemd::Started daemon;  // main_pid 0 in a dry run
  unsigned server_port = 0;
  std::string no_ctl_because;  // why nvidia-imex-ctl cannot be asked; empty: it can
};

struct Ready {
  std::string word;  // READY, WAITING_FOR_PEERS, ...; "alive" where only process and port were looked at
  bool asked_ctl = true;
  systemd::Started daemon;  // differs from the task's where systemd restarted the daemon meanwhile
};

std::string describe(const Ready& ready);

// Checks that the daemon lives; takes over a new main process where systemd restarted it (a site's
// Restart=on-failure drop-in), with a WARN. Error: change.
base::Status check_alive(systemd::Units& units, const host::Processes& processes, host::Log& log,
                         const std::string& unit, systemd::Started& daemon);

// READY goes on; WAITING_FOR_PEERS and WAITING_FOR_RECOVERY are about peers, and go on too once they have
// held for a second (a starting daemon passes through them). Error: time_out when the deadline comes first,
// change when the daemon is dead. Without nvidia-imex-ctl: a WARN, a live process and its port instead.
base::Result<Ready> await_ready(Ctl& ctl, systemd::Units& units, const host::Processes& processes,
                                const host::Network& network, host::Clock& clock, host::Log& log, const ReadyTask& task,
                                const host::Deadline& deadline);

}  // namespace imex
