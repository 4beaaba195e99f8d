// Own addresses and listening ports as a test sets them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "host/network.h"

namespace fakes {

class FakeNetwork : public host::Network {
 public:
  base::Result<std::vector<std::string>> own_addresses() const override { return addresses; }
  base::Result<bool> listening(unsigned port) const override { return ports.contains(port); }

  std::vector<std::string> addresses{"127.0.0.1"};
  std::set<unsigned> ports;
};

}  // namespace fakes
