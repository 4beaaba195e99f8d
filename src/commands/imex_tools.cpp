#include "commands/imex_tools.h"

#include <cerrno>

#include "commands/ask_tool.h"
#include "site/site.h"
#include "systemd/dry_units.h"
#include "systemd/systemctl.h"

namespace commands {

base::Result<std::unique_ptr<systemd::Units>> open_units(const Context& context,
                                                         const std::optional<host::Deadline>& whole) {
  const host::Host& host = context.host;
  auto systemctl = find_listed_tool(context, "systemctl", site::systemctl);
  if (!systemctl) return systemctl.error();
  auto real =
      std::make_unique<systemd::SystemctlUnits>(*systemctl, host.processes, host.files, host.clock, context.run.log());
  if (whole) real->end_by(*whole);
  std::unique_ptr<systemd::Units> units = std::move(real);
  if (context.dry_run()) units = std::make_unique<systemd::DryUnits>(std::move(units), *context.plan);
  return units;
}

base::Result<CtlChoice> open_ctl(const Context& context, const imex::DaemonConfig& config) {
  const host::Host& host = context.host;
  CtlChoice choice;
  auto tool = find_listed_tool(context, "nvidia-imex-ctl", site::imex_ctl);
  if (!tool && tool.error().os_error != ENOENT) return tool.error();
  if (!config.command_enabled) {
    choice.unusable_because = "IMEX_CMD_ENABLED=0 in " + std::string(site::imex_config);
  } else if (!tool) {
    choice.unusable_because = tool.error().what;
  }
  const std::string program = tool ? *tool : "";
  if (context.dry_run()) {
    choice.ctl = std::make_unique<imex::DryCtl>(host.files, config.nodes_config, *context.plan);
  } else {
    choice.ctl = std::make_unique<imex::ToolCtl>(program, "", host.processes);
  }
  return choice;
}

}  // namespace commands
