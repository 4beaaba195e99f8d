// Asking scontrol. Each question is small for the controller: show node sends every client all nodes of the
// cluster, so it is asked only where getaddrs gave nothing usable.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "host/clock.h"
#include "host/log.h"
#include "host/processes.h"
#include "slurm/blocks.h"
#include "slurm/scontrol.h"

namespace slurm {

// The addresses of `nodes` in their order: one `scontrol getaddrs`; where that gives nothing usable (no error:
// an INFO says why), `scontrol -ao show node`, at most 3 tries, 1 s and 2 s apart, 10 s each. Errors:
//   source (shared): Slurm does not know a node, or the answer is short or unusable; final, not tried again
//   time_out: every try timed out, or the deadline came, or we were told to stop
//   source: every try failed, with scontrol's own words
base::Result<std::vector<NodeAddress>> node_addresses(host::Processes& processes, host::Clock& clock, host::Log& log,
                                                      const std::string& scontrol,
                                                      const std::vector<std::string>& nodes,
                                                      const host::Deadline& deadline);

// One `scontrol show topology [TOPOLOGY]` (the word is known from 25.05 on; empty: the default one), 10 s.
base::Result<BlockMap> show_topology(host::Processes& processes, const std::string& scontrol,
                                     const std::string& topology, const host::Deadline& deadline);

}  // namespace slurm
