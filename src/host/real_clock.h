// The kernel's clocks; a sleep ends at once when a stop signal comes.
#pragma once

#include "host/clock.h"

namespace host {

class RealClock : public Clock {
 public:
  time_point now() const override;
  std::chrono::system_clock::time_point wall() const override;
  bool sleep(milliseconds duration) override;
};

}  // namespace host
