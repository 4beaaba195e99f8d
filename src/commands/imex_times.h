// How long imex-prolog and imex-epilog may take: Slurm's own limits, read from slurm.conf without an RPC.
#pragma once

#include <optional>
#include <string>

#include "commands/imex_options.h"
#include "slurm/conf.h"

namespace commands {

struct TimeLimit {
  site::milliseconds limit{0};
  std::string because;  // for the log
};

// --deadline, or auto: the least of 150 s and PrologTimeout (PrologEpilogTimeout) - 5 s.
TimeLimit prolog_time(const std::optional<site::milliseconds>& asked, const std::optional<slurm::Conf>& conf);
// The same with 60 s and EpilogTimeout - 5 s.
TimeLimit epilog_time(const std::optional<site::milliseconds>& asked, const std::optional<slurm::Conf>& conf);

// With PrologFlags=NoHold srun does not wait for the prolog but gives up after MessageTimeout +
// BatchStartTimeout: the domain wait must end 3 s before, counted from the run's begin. nullopt: no NoHold.
std::optional<TimeLimit> nohold_time(const std::optional<slurm::Conf>& conf);

}  // namespace commands
