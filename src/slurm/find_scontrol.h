// Which scontrol to ask: best the one that belongs to the running slurmd.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "host/files.h"
#include "host/log.h"
#include "host/processes.h"

namespace slurm {

// In this order: `configured` (may be empty; where it is not there, a WARN and the search goes on); beside the
// running slurmd, our parent, trusted as that is; AWS PCS' folders, highest version first; the usual places.
// Error: surroundings; a tool that is there but not trustworthy ends the search.
base::Result<std::string> find_scontrol(const host::Files& files, const host::Processes& processes, host::Log& log,
                                        const std::string& configured);

// <prefix>/bin/scontrol and <folder>/scontrol for our parent's program, where that is root's slurmd or
// slurmstepd; empty otherwise. An upgraded program is told as "/opt/slurm/sbin/slurmd (deleted)".
std::vector<std::string> beside_slurmd(const host::Files& files, const host::Processes& processes);

}  // namespace slurm
