// Runs the steps of a command: names, times, logs and records each, so that a step cannot forget to report
// its failure. A step decides how; the command decides whether and in what order; the runner decides how it
// is told.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "flow/report.h"
#include "host/clock.h"
#include "host/log.h"
#include "host/plan.h"

namespace flow {

// What a step that has no more to say than that it worked is told as. Other types bring a describe() of
// their own, found beside the type.
std::string describe(const base::Unit& unit);

class Runner {
 public:
  Runner(host::Log& log, const host::Clock& clock, Report& report) : log_(log), clock_(clock), report_(report) {}

  // In a dry run: a step that has put a change into the plan is told as one that would be done.
  void watch(const host::Plan& plan) { plan_ = &plan; }

  // `body` returns a Result<T>; describe(T) says in one line what was done or found.
  template <class Body>
  auto step(std::string_view name, Body&& body) -> decltype(body()) {
    const auto begin = clock_.now();
    const std::size_t planned = plan_ == nullptr ? 0 : plan_->sentences().size();
    log_.debug(std::string(name) + ": started");
    auto result = std::forward<Body>(body)();
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - begin);
    if (result) {
      const bool would = plan_ != nullptr && plan_->sentences().size() > planned;
      record_done(name, describe(*result), took, would);
    } else {
      record_failed(name, result.error(), took);
    }
    return result;
  }

  // How a run ends that fails: `error` goes into the report, and into the log unless a failed step has told it.
  void fail(const base::Error& error);

  host::Log& log() { return log_; }
  Report& report() { return report_; }

 private:
  void record_done(std::string_view name, const std::string& detail, std::chrono::milliseconds took, bool would);
  void record_failed(std::string_view name, const base::Error& error, std::chrono::milliseconds took);

  host::Log& log_;
  const host::Clock& clock_;
  Report& report_;
  const host::Plan* plan_ = nullptr;
  bool told_failure_ = false;  // the last step failed and said so
};

}  // namespace flow
