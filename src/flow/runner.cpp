#include "flow/runner.h"

#include "base/duration.h"

namespace flow {

std::string describe(const base::Unit&) { return "done"; }

void Runner::record_done(std::string_view name, const std::string& detail, std::chrono::milliseconds took, bool would) {
  const auto outcome = would ? StepRecord::Outcome::would : StepRecord::Outcome::done;
  report_.steps.push_back({std::string(name), outcome, detail, took});
  told_failure_ = false;
  log_.info(std::string(name) + ": " + detail + " (" + base::show_duration(took) + ")");
}

void Runner::record_failed(std::string_view name, const base::Error& error, std::chrono::milliseconds took) {
  report_.steps.push_back({std::string(name), StepRecord::Outcome::failed, one_line(error), took});
  told_failure_ = true;
  log_.error(std::string(name) + " failed after " + base::show_duration(took) + ": " + one_line(error));
}

void Runner::fail(const base::Error& error) {
  report_.error = error;
  if (!told_failure_) log_.error(one_line(error));
  told_failure_ = true;
}

}  // namespace flow
