// Time: one clock for waits, one for log lines. Nothing here waits without a limit.
#pragma once

#include <chrono>

namespace host {

using std::chrono::milliseconds;

class Clock {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  virtual ~Clock() = default;
  virtual time_point now() const = 0;
  virtual std::chrono::system_clock::time_point wall() const = 0;

  // Sleeps; false at once when a stop signal has come or comes meanwhile.
  virtual bool sleep(milliseconds duration) = 0;
};

// A point in time that every wait of a run is cut to.
class Deadline {
 public:
  Deadline(const Clock& clock, milliseconds from_now) : clock_(&clock), end_(clock.now() + from_now) {}

  milliseconds left() const;  // never negative
  bool over() const { return left() == milliseconds::zero(); }
  milliseconds limit(milliseconds own) const;   // the less of a step's own limit and what is left
  Deadline within(milliseconds own) const;      // a nearer deadline inside this one
  Deadline less(milliseconds kept_back) const;  // the same, ending earlier

 private:
  Deadline(const Clock* clock, Clock::time_point end) : clock_(clock), end_(end) {}

  const Clock* clock_;
  Clock::time_point end_;
};

}  // namespace host
