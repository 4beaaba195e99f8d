// Counts the reboots that were asked for, and stays up.
#pragma once

#include "host/machine.h"

namespace fakes {

class FakeMachine : public host::Machine {
 public:
  base::Status reboot_now() override {
    ++reboots;
    return base::Error{base::ExitCode::change, "cannot reboot: Operation not permitted", ""};
  }

  int reboots = 0;
};

}  // namespace fakes
