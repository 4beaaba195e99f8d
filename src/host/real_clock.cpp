#include "host/real_clock.h"

#include <poll.h>

#include <algorithm>
#include <climits>

#include "host/interrupt.h"

namespace host {

Clock::time_point RealClock::now() const { return std::chrono::steady_clock::now(); }

std::chrono::system_clock::time_point RealClock::wall() const { return std::chrono::system_clock::now(); }

bool RealClock::sleep(milliseconds duration) {
  const time_point end = now() + duration;
  while (!stopping()) {
    const auto left = std::chrono::ceil<milliseconds>(end - now());
    if (left <= milliseconds::zero()) return true;
    pollfd watched{stop_fd(), POLLIN, 0};  // a negative descriptor is passed over
    poll(&watched, 1, static_cast<int>(std::min<long long>(left.count(), INT_MAX)));
  }
  return false;
}

}  // namespace host
