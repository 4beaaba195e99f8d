#include "imex/ctl.h"

#include "base/text.h"
#include "imex/nodes_config.h"
#include "site/site.h"

namespace imex {

using base::Error;
using base::ExitCode;
using Ending = host::Exit::Ending;

host::Exit ToolCtl::run(std::vector<std::string> arguments, host::milliseconds limit) {
  host::Command command;
  command.program = program_;
  if (!config_.empty()) command.arguments = {"-c", config_};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  command.limit = limit;
  return processes_.run(command);
}

LocalStatus ToolCtl::local_status(host::milliseconds limit) {
  const host::Exit exit = run({"-q"}, limit);
  LocalStatus status;
  // Without a daemon it says "Query Status returned error code: 14" (gRPC UNAVAILABLE), in some releases with exit 0.
  if (exit.ending == Ending::exited) status.word = parse_local_status(exit.out);
  if (status.word.empty()) status.why = "nvidia-imex-ctl -q: " + host::describe(exit);
  status.hung = exit.ending == Ending::timed_out;
  return status;
}

base::Result<DomainView> ToolCtl::domain(host::milliseconds limit) {
  const auto failed = [](const host::Exit& exit, const std::string& call) {
    return Error{exit.ending == Ending::timed_out ? ExitCode::time_out : ExitCode::source,
                 call + ": " + host::describe(exit),
                 host::cure_for(exit, "run `nvidia-imex-ctl -N` by hand on this node")};
  };
  if (!no_json_) {
    const host::Exit exit = run({"-N", "-j"}, limit);
    if (exit.ending != Ending::exited) return failed(exit, "nvidia-imex-ctl -N -j");
    auto view = parse_status_json(exit.out);
    if (view) return view;
    // A daemon that is not there yet is told on either form; only other words mean that -j is not known.
    if (exit.status != 0 && base::contains_ignoring_case(exit.out + exit.err, "error code"))
      return failed(exit, "nvidia-imex-ctl -N -j");
  }
  const host::Exit exit = run({"-N"}, limit);
  if (exit.ending != Ending::exited) return failed(exit, "nvidia-imex-ctl -N");
  auto view = parse_status_text(exit.out);
  if (view) no_json_ = true;
  return view;
}

std::vector<base::Result<DomainView>> ToolCtl::peer_domains(const std::vector<std::string>& addresses, unsigned port,
                                                            host::milliseconds limit) {
  std::vector<host::Command> commands;
  for (const std::string& address : addresses) {
    host::Command command;
    command.program = program_;
    command.arguments = {"-i", address, std::to_string(port), "-N", "-j"};
    command.limit = limit;
    commands.push_back(std::move(command));
  }
  std::vector<base::Result<DomainView>> views;
  const std::vector<host::Exit> exits = processes_.run_all(commands);
  for (std::size_t i = 0; i < exits.size(); ++i) {
    if (exits[i].ending == Ending::exited && !exits[i].out.empty()) {
      views.push_back(parse_status_json(exits[i].out));
    } else {
      views.emplace_back(Error{ExitCode::source, host::show(commands[i]) + ": " + host::describe(exits[i]), ""});
    }
  }
  return views;
}

LocalStatus DryCtl::local_status(host::milliseconds) {
  if (!told_ready_) plan_.add("would ask nvidia-imex-ctl -q until the daemon is READY");
  told_ready_ = true;
  return {"READY", "", false};
}

base::Result<DomainView> DryCtl::domain(host::milliseconds) {
  if (!told_domain_) plan_.add("would ask nvidia-imex-ctl -N until every pair of the list is connected");
  told_domain_ = true;
  const auto text = files_.read(nodes_config_, 1U << 20U);
  if (!text) return text.error();
  DomainView view;
  for (const std::string& address : parse_nodes_config(*text)) view.nodes.push_back({address, "READY", ""});
  view.links.assign(view.nodes.size(), std::vector<Link>(view.nodes.size(), Link::connected));
  view.state = "UP";
  return view;
}

std::vector<base::Result<DomainView>> DryCtl::peer_domains(const std::vector<std::string>& addresses, unsigned,
                                                           host::milliseconds) {
  return {addresses.size(), Error{ExitCode::source, "peers are not asked in a dry run", ""}};
}

}  // namespace imex
