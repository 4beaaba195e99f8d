#include "commands/imex_domain_end.h"

#include "imex/nodes_config.h"

namespace commands {

std::string describe(const DomainEnd& end) {
  return systemd::describe(end.stopped) +
         (end.emptied ? "; the old node list is gone" : "; " + end.emptied.error().what);
}

base::Result<DomainEnd> end_domain(const Context& context, systemd::Units& units, const std::string& unit,
                                   const std::string& nodes_config, const std::string& list,
                                   const host::Deadline& deadline, host::milliseconds graceful) {
  auto stopped = units.stop_and_wait(unit, deadline, graceful);
  if (!stopped) return stopped.error();
  DomainEnd end;
  end.stopped = *stopped;
  end.emptied = imex::write_nodes_config(context.host.files, nodes_config, list);
  return end;
}

}  // namespace commands
