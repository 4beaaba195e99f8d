// The machine as a whole: only mig-setup may start it anew.
#pragma once

#include "base/result.h"
#include "host/root.h"

namespace host {

class Machine {
 public:
  virtual ~Machine() = default;
  // Writes all disks and reboots at once, without stopping services: the last resort, when systemd did not. Comes back
  // only with an error (change).
  virtual base::Status reboot_now() = 0;
};

class RealMachine : public Machine {
 public:
  explicit RealMachine(Root root) : root_(std::move(root)) {}
  base::Status reboot_now() override;  // refused under a root

 private:
  Root root_;
};

}  // namespace host
