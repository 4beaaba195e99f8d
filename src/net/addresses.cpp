#include "net/addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <map>

#include "base/ip_literal.h"
#include "base/text.h"
#include "site/site.h"

namespace net {

using base::Blame;
using base::Error;
using base::ExitCode;

bool is_unspecified(std::string_view canonical) { return canonical == "0.0.0.0" || canonical == "::"; }

bool is_loopback(std::string_view canonical) { return canonical.starts_with("127.") || canonical == "::1"; }

namespace {

bool is_for_one_host(const std::string& canonical) {
  in_addr four{};
  if (inet_pton(AF_INET, canonical.c_str(), &four) == 1) {
    const std::uint32_t number = ntohl(four.s_addr);
    return (number >> 24U) != 0 && (number >> 28U) < 0xE;  // no 0.x "this network", multicast or reserved
  }
  in6_addr six{};
  return inet_pton(AF_INET6, canonical.c_str(), &six) == 1 && !IN6_IS_ADDR_MULTICAST(&six);
}

}  // namespace

base::Status check_peers(const std::vector<Peer>& peers, std::size_t most) {
  if (peers.size() > most) {
    return Error{ExitCode::change,
                 "the node list would have " + std::to_string(peers.size()) + " nodes, an IMEX domain takes at most " +
                     std::to_string(most),
                 "give Slurm a block map (topology.yaml with topology/block), or raise --max-domain-nodes",
                 Blame::shared};
  }
  std::map<std::string, std::string> seen;  // address -> node
  for (const Peer& peer : peers) {
    const auto refuse = [&](const std::string& why) {
      return Error{ExitCode::source,
                   "node " + peer.node + " has the address " + base::printable(peer.address) + ", " + why,
                   "correct NodeAddr of " + peer.node + " (scontrol show node " + peer.node + ")", Blame::shared};
    };
    if (is_unspecified(peer.address)) return refuse("which is no address of a host");
    if (is_loopback(peer.address)) return refuse("a loopback address that no peer can reach");
    if (!is_for_one_host(peer.address)) return refuse("which is no address of one host");
    const auto [other, is_new] = seen.emplace(peer.address, peer.node);
    if (!is_new) return refuse("as node " + other->second + " has");
  }
  return base::ok();
}

base::Result<std::size_t> own_place(const std::vector<Peer>& peers, const std::vector<std::string>& own_addresses) {
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (std::find(own_addresses.begin(), own_addresses.end(), peers[i].address) != own_addresses.end()) return i;
  }
  std::vector<std::string> listed;
  for (const Peer& peer : peers) listed.push_back(peer.address);
  return Error{ExitCode::change,
               "none of this host's own addresses (" + base::join(own_addresses, " ") + ") is in the node list (" +
                   base::join(listed, " ") + "); nvidia-imex would not start",
               "check NodeAddr of this node in Slurm (scontrol show node) against `ip addr`; a replaced instance may "
               "have a stale one",
               Blame::local};
}

std::vector<std::string> parse_ahosts(std::string_view text) {
  std::vector<std::string> found;
  for (const std::string_view line : base::each_line(text)) {
    const auto words = base::words(line);
    if (words.empty()) continue;
    const auto address = base::canonical_address(words.front());
    if (address && std::find(found.begin(), found.end(), *address) == found.end()) found.push_back(*address);
  }
  return found;
}

base::Result<std::string> resolve(host::Processes& processes, const std::string& getent, const std::string& node,
                                  const std::string& name, const host::Deadline& deadline) {
  host::Command command;
  command.program = getent;
  command.arguments = {"ahosts", name};
  command.limit = deadline.limit(site::getent_limit);
  const host::Exit exit = processes.run(command);
  const std::string subject = "the address of node " + node + " (NodeAddr " + base::printable(name) + ")";
  const std::string cure = "give " + node + " a NodeAddr that is an IP address, or make the name resolve on every node";
  if (exit.ending == host::Exit::Ending::timed_out) {
    return Error{ExitCode::time_out, "looking up " + subject + ": " + host::describe(exit), cure, Blame::shared};
  }
  // getent exits 2 for a name that is not found.
  if (!exit.succeeded()) {
    const bool is_local = exit.ending == host::Exit::Ending::not_started;  // said nothing of the name
    return Error{ExitCode::source, "cannot look up " + subject + ": " + host::describe(exit),
                 host::cure_for(exit, cure), is_local ? Blame::local : Blame::shared};
  }
  std::vector<std::string> addresses = parse_ahosts(exit.out);
  std::erase_if(addresses, [](const std::string& address) { return is_loopback(address); });
  if (addresses.size() == 1) return addresses.front();
  if (addresses.empty()) {
    return Error{ExitCode::source, subject + " resolves to no address that peers can reach", cure, Blame::shared};
  }
  return Error{ExitCode::source,
               subject + " resolves to several addresses (" + base::join(addresses, " ") + "), exactly one is needed",
               cure, Blame::shared};
}

}  // namespace net
