#include <algorithm>

#include "host/clock.h"

namespace host {

milliseconds Deadline::left() const {
  const auto left = std::chrono::duration_cast<milliseconds>(end_ - clock_->now());
  return std::max(left, milliseconds::zero());
}

milliseconds Deadline::limit(milliseconds own) const { return std::min(own, left()); }

Deadline Deadline::within(milliseconds own) const { return Deadline(clock_, std::min(end_, clock_->now() + own)); }

Deadline Deadline::less(milliseconds kept_back) const { return Deadline(clock_, end_ - kept_back); }

}  // namespace host
