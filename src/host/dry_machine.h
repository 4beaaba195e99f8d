// A dry run never reboots: it writes down that it would.
#pragma once

#include "host/machine.h"
#include "host/plan.h"

namespace host {

class DryMachine : public Machine {
 public:
  explicit DryMachine(Plan& plan) : plan_(plan) {}
  base::Status reboot_now() override {
    plan_.add("would reboot this node at once");
    return base::Error{base::ExitCode::change, "a dry run does not reboot", ""};
  }

 private:
  Plan& plan_;
};

}  // namespace host
