// Is this job on this node any of our business? Comes before everything that can fail, so that nothing that
// is wrong drains a node that is not an UltraServer node.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "commands/context.h"
#include "commands/imex_options.h"
#include "slurm/conf.h"
#include "slurm/job.h"
#include "systemd/units.h"

namespace commands {

struct GateAnswer {
  enum class Say { go, skip_info, skip_warn, skip_error };
  Say say = Say::go;
  std::string why;

  bool go() const { return say == Say::go; }
};

std::string describe(const GateAnswer& answer);

// The environment alone: no child, no network. `conf` may be missing.
GateAnswer gate_exclusive_claim(const Context& context, const std::optional<slurm::Conf>& conf);

// IMDS, else DMI: no child. Error: source, for an unknown type under --unknown-type=fail.
// IMDS has at most half of what is left, so that DMI and a job on the right node get the rest.
base::Result<GateAnswer> gate_instance_type(const Context& context, const ImexGateOptions& options,
                                            const host::Deadline& deadline);

// The local look that confirms a claim: another job's live step, looked at for up to 5 s.
GateAnswer gate_exclusive_look(const Context& context, const std::optional<slurm::Conf>& conf, const slurm::Job& job,
                               const host::Deadline& deadline);

// Error: surroundings (no systemctl), change (it does not answer).
base::Result<GateAnswer> gate_unit(systemd::Units& units, const std::string& unit);

// What makes a unit that is not enabled one: `systemctl enable` alone does not lift a mask and installs nothing.
std::string how_to_enable(const systemd::EnabledWord& word, const std::string& unit);

// A person at the node: refused (surroundings) while any job's process but the extern step runs here.
base::Status check_by_hand(const Context& context, const std::optional<slurm::Conf>& conf);

// The word SLURM_SCRIPT_CONTEXT is not set: nobody but a person starts us so.
bool is_by_hand(const host::Environment& environment);

}  // namespace commands
