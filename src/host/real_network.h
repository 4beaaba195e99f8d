// The kernel's addresses and listening ports.
#pragma once

#include <string_view>

#include "host/network.h"

namespace host {

class RealNetwork : public Network {
 public:
  base::Result<std::vector<std::string>> own_addresses() const override;
  base::Result<bool> listening(unsigned port) const override;
};

// One line of /proc/net/tcp or tcp6: is it a socket that listens on this port? Also for a heading or a torn line: no.
bool is_listening_line(std::string_view line, unsigned port);

}  // namespace host
