// The node's own addresses and listening ports: always the kernel's, also under --root.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace host {

class Network {
 public:
  virtual ~Network() = default;
  // Every IPv4 and IPv6 address of an interface that is up (lo included), canonical text (inet_ntop).
  virtual base::Result<std::vector<std::string>> own_addresses() const = 0;
  // Does somebody listen on this TCP port on any address of this node (/proc/net/tcp, tcp6)?
  virtual base::Result<bool> listening(unsigned port) const = 0;
};

}  // namespace host
