// The tools that the IMEX commands change things with, found and made for real or for a dry run.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "commands/context.h"
#include "imex/config.h"
#include "imex/ctl.h"
#include "systemd/units.h"

namespace commands {

// `whole`: no call of systemctl goes on after it (a second for what cleans up later). Error: surroundings where
// systemctl is missing or not trustworthy.
base::Result<std::unique_ptr<systemd::Units>> open_units(const Context& context,
                                                         const std::optional<host::Deadline>& whole);

struct CtlChoice {
  std::unique_ptr<imex::Ctl> ctl;
  std::string unusable_because;  // empty: it can be asked
};

// nvidia-imex-ctl; unusable where config.cfg turns the command service off or the tool is missing. Error:
// surroundings where it is there but not trustworthy.
base::Result<CtlChoice> open_ctl(const Context& context, const imex::DaemonConfig& config);

}  // namespace commands
