#include "slurm/ask_scontrol.h"

#include "base/duration.h"
#include "base/text.h"
#include "site/site.h"
#include "slurm/hostlist.h"

namespace slurm {

namespace {

using Ending = host::Exit::Ending;

// show node prints about 1 KiB a node, with long comments some more; a flood must not cost the node its memory.
std::size_t output_cap(std::size_t nodes) { return (256U << 10U) + nodes * (8U << 10U); }
constexpr std::size_t topology_cap = 16U << 20U;  // one line a block, the whole cluster

base::Error no_time(const std::string& what) {
  return base::Error{base::ExitCode::time_out, "no time was left for " + what, "see what took the time in this log"};
}

base::Error told_to_stop(const std::string& what) {
  return base::Error{base::ExitCode::time_out, "told to stop during " + what, ""};
}

// Empty: the answer is whole and may be read.
std::string failure(const host::Exit& exit) {
  if (exit.cut) return "its answer is too long";
  return exit.succeeded() ? "" : host::describe(exit);
}

bool knows_not_all(const host::Exit& exit) {
  return exit.ending == Ending::exited && exit.status == 1 && exit.out.find(" not found") != std::string::npos;
}

}  // namespace

base::Result<std::vector<NodeAddress>> node_addresses(host::Processes& processes, host::Clock& clock, host::Log& log,
                                                      const std::string& scontrol,
                                                      const std::vector<std::string>& nodes,
                                                      const host::Deadline& deadline) {
  const std::string list = fold_hostlist(nodes);
  if (deadline.over()) return no_time("scontrol getaddrs " + base::printable(list));

  host::Command getaddrs;
  getaddrs.program = scontrol;
  getaddrs.arguments = {"getaddrs", list};
  getaddrs.limit = deadline.limit(site::scontrol_limit);
  getaddrs.output_cap = output_cap(nodes.size());
  const host::Exit short_answer = processes.run(getaddrs);
  if (short_answer.ending == Ending::interrupted) return told_to_stop("scontrol getaddrs");
  std::string why = failure(short_answer);
  if (why.empty()) {
    auto addresses = parse_getaddrs(short_answer.out, nodes);
    if (addresses) return addresses;
    why = addresses.error().what;
  }
  log.info("scontrol getaddrs gave no usable answer, asking scontrol show node: " + base::printable(why));

  host::Command show;
  show.program = scontrol;
  show.arguments = {"-ao", "show", "node", list};
  show.output_cap = output_cap(nodes.size());
  constexpr std::size_t tries = site::scontrol_pauses.size() + 1;
  bool all_timed_out = true;
  std::string last;
  for (std::size_t attempt = 0; attempt < tries; ++attempt) {
    if (attempt > 0) {
      if (!clock.sleep(deadline.limit(site::scontrol_pauses[attempt - 1]))) return told_to_stop("scontrol show node");
    }
    if (deadline.over()) {
      if (last.empty()) last = "no time was left for scontrol show node";
      break;
    }
    show.limit = deadline.limit(site::scontrol_limit);
    const host::Exit answer = processes.run(show);
    if (answer.ending == Ending::interrupted) return told_to_stop("scontrol show node");
    // Where a node is unknown the exit is 1, and the others are printed all the same.
    const std::string failed = failure(answer);
    if (failed.empty() || knows_not_all(answer)) {
      auto addresses = parse_show_node(answer.out, nodes);
      if (failed.empty() || !addresses) return addresses;
    }
    if (answer.ending != Ending::timed_out) all_timed_out = false;
    last = failed;
    log.info("scontrol show node, try " + std::to_string(attempt + 1) + " of " + std::to_string(tries) + ": " +
             base::printable(failed));
  }
  // Shared: a controller that does not answer does so to every node of the job. Slurm 24.11 and 26.05 try for 10 s
  // to resolve a NodeAddr that is no known name, and answer nobody meanwhile: eight nodes that ask for one such peer
  // all run out of time (seen on both).
  return base::Error{
      all_timed_out ? base::ExitCode::time_out : base::ExitCode::source,
      "scontrol gave no addresses for " + base::printable(list, 200) + ": " + last,
      "see whether slurmctld answers (scontrol ping) and whether it can resolve the NodeAddr of each node",
      base::Blame::shared};
}

base::Result<BlockMap> show_topology(host::Processes& processes, const std::string& scontrol,
                                     const std::string& topology, const host::Deadline& deadline) {
  if (deadline.over()) return no_time("scontrol show topology");
  host::Command command;
  command.program = scontrol;
  command.arguments = {"show", "topology"};
  // The name comes from slurm.conf; only one that cannot be taken for an option or KEY=VALUE is passed on.
  if (is_node_name(topology)) command.arguments.push_back(topology);
  command.limit = deadline.limit(site::scontrol_limit);
  command.output_cap = topology_cap;
  const host::Exit exit = processes.run(command);
  if (exit.ending == Ending::interrupted) return told_to_stop("scontrol show topology");
  const std::string failed = failure(exit);
  if (!failed.empty()) {
    const auto code = exit.ending == Ending::timed_out ? base::ExitCode::time_out : base::ExitCode::source;
    return base::Error{code, "scontrol show topology: " + failed, "see whether slurmctld answers: scontrol ping"};
  }
  return parse_show_topology(exit.out);
}

}  // namespace slurm
