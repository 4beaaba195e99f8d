// Time that passes only when somebody sleeps.
#pragma once

#include "host/clock.h"

namespace fakes {

class FakeClock : public host::Clock {
 public:
  time_point now() const override { return now_; }
  std::chrono::system_clock::time_point wall() const override {
    return std::chrono::system_clock::time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(
        std::chrono::seconds(1'777'874'890) + now_.time_since_epoch()));
  }
  bool sleep(host::milliseconds duration) override {
    now_ += duration;
    slept += duration;
    return !interrupted;
  }
  void pass(host::milliseconds duration) { now_ += duration; }

  host::milliseconds slept{0};
  bool interrupted = false;

 private:
  time_point now_{};
};

}  // namespace fakes
