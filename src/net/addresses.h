// Node addresses: canonical, resolved, and fit to stand in an IMEX node list.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/clock.h"
#include "host/processes.h"

namespace net {

// Addresses here are in base::canonical_address()'s form.
bool is_unspecified(std::string_view canonical);
bool is_loopback(std::string_view canonical);  // 127.0.0.0/8, ::1

// A node of the job with its address in canonical form.
struct Peer {
  std::string node;
  std::string address;
};

// Refused: unspecified, loopback, multicast or broadcast, the same address twice, more than `most` nodes.
// Error: shared blame, naming node and address; source, but change for too many.
base::Status check_peers(const std::vector<Peer>& peers, std::size_t most);

// Which of the peers this host is. Error: change, local blame, naming both sets of addresses.
base::Result<std::size_t> own_place(const std::vector<Peer>& peers, const std::vector<std::string>& own_addresses);

// `getent ahosts NAME`, its words: distinct canonical addresses in order.
std::vector<std::string> parse_ahosts(std::string_view text);

// Loopback answers dropped, exactly one address must remain. Error: source, shared blame (every node's
// resolver is asked the same); time_out when getent met its limit.
base::Result<std::string> resolve(host::Processes& processes, const std::string& getent, const std::string& node,
                                  const std::string& name, const host::Deadline& deadline);

}  // namespace net
