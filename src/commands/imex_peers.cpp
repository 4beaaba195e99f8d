#include "commands/imex_peers.h"

#include <algorithm>

#include "base/ip_literal.h"
#include "base/text.h"
#include "commands/ask_tool.h"
#include "slurm/ask_scontrol.h"
#include "slurm/find_scontrol.h"

namespace commands {

namespace {

std::vector<std::string> column(const std::vector<net::Peer>& peers, std::string net::Peer::*member) {
  std::vector<std::string> values;
  for (const net::Peer& peer : peers) values.push_back(peer.*member);
  return values;
}

}  // namespace

std::vector<std::string> Peers::nodes() const { return column(peers, &net::Peer::node); }

std::vector<std::string> Peers::addresses() const { return column(peers, &net::Peer::address); }

std::string describe(const OwnBlock& block) { return slurm::describe(block.decision, block.question); }

std::string describe(const Peers& peers) {
  return std::to_string(peers.peers.size()) + " addresses, this node is number " + std::to_string(peers.own) + " (" +
         peers.peers[peers.own].address + ")";
}

base::Result<OwnBlock> find_block(const Context& context, const ImexPrologOptions& options, const slurm::Job& job,
                                  const std::optional<slurm::Conf>& conf, const host::Deadline& deadline) {
  const host::Host& host = context.host;
  auto nodes = slurm::job_nodes(job);
  if (!nodes) return nodes.error();
  OwnBlock block;
  block.question.scope = options.scope;
  block.question.max_nodes = options.max_domain_nodes;
  block.question.job_nodes = std::move(*nodes);
  block.question.own_node = job.node_name;
  block.question.partition = job.partition;
  block.scontrol = slurm::find_scontrol(host.files, host.processes, context.run.log(), options.scontrol);
  slurm::Conf own_conf = conf.value_or(slurm::Conf{});
  if (own_conf.path.empty()) own_conf.path = job.conf;  // topology.yaml lies beside it
  auto decision = slurm::own_block(host.files, host.processes, context.run.log(), own_conf, block.scontrol,
                                   block.question, deadline);
  if (!decision) return decision.error();
  block.decision = std::move(*decision);
  return block;
}

base::Result<Peers> find_peers(const Context& context, const ImexPrologOptions& options, const slurm::Job& job,
                               const OwnBlock& block, const host::Deadline& deadline) {
  const host::Host& host = context.host;
  if (!block.scontrol) return block.scontrol.error();
  const auto answers = slurm::node_addresses(host.processes, host.clock, context.run.log(), *block.scontrol,
                                             block.decision.nodes, deadline);
  if (!answers) return answers.error();
  Peers found;
  std::string getent;
  for (const slurm::NodeAddress& answer : *answers) {
    if (auto literal = base::canonical_address(answer.address)) {
      found.peers.push_back({answer.node, *literal});
      continue;
    }
    if (getent.empty()) {
      auto tool = find_listed_tool(context, "getent", site::getent);
      if (!tool) return tool.error();
      getent = *tool;
    }
    auto address = net::resolve(host.processes, getent, answer.node, answer.address, deadline);
    if (!address) return address.error();
    found.peers.push_back({answer.node, *address});
  }
  if (auto fit = net::check_peers(found.peers, options.max_domain_nodes); !fit) return fit.error();
  const auto own_addresses = host.network.own_addresses();
  if (!own_addresses) return own_addresses.error();
  const auto own = net::own_place(found.peers, *own_addresses);
  if (!own) return own.error();
  found.own = *own;
  if (found.peers[*own].node != job.node_name) {
    context.run.log().warn("the address " + found.peers[*own].address + " that Slurm has for node " +
                           found.peers[*own].node + " is this host's, which slurmd calls " +
                           base::printable(job.node_name, 80));
  }
  return found;
}

}  // namespace commands
