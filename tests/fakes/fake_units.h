// One unit whose state and answers a test sets. A change that nobody allowed throws, naming it.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "systemd/units.h"

namespace fakes {

inline systemd::UnitState active_unit(pid_t main_pid) {
  systemd::UnitState state;
  state.active = "active";
  state.sub = "running";
  state.result = "success";
  state.main_pid = main_pid;
  if (main_pid != 0) state.processes = {main_pid};
  return state;
}

inline systemd::UnitState ended_unit(const std::string& active, const std::string& result) {
  systemd::UnitState state;
  state.active = active;
  state.sub = active == "failed" ? "failed" : "dead";
  state.result = result;
  return state;
}

class FakeUnits : public systemd::Units {
 public:
  base::Result<systemd::EnabledWord> enabled(const std::string&) override {
    reads.emplace_back("enabled");
    return word;
  }
  base::Result<systemd::UnitState> state(const std::string&) override {
    reads.emplace_back("state");
    return now;
  }
  base::Result<systemd::UnitState> cancel_queued_job(const std::string& unit) override {
    change("cancel_queued_job " + unit);
    return now;
  }
  base::Result<systemd::Stopped> stop_and_wait(const std::string& unit, const host::Deadline&,
                                               host::milliseconds) override {
    change("stop_and_wait " + unit);
    return systemd::Stopped{};
  }
  base::Result<systemd::Started> start_and_confirm(const std::string& unit, const host::Deadline&,
                                                   host::milliseconds) override {
    change("start_and_confirm " + unit);
    return systemd::Started{};
  }

  base::Result<systemd::EnabledWord> word = systemd::EnabledWord{systemd::UnitFile::enabled, "enabled"};
  base::Result<systemd::UnitState> now = active_unit(77);
  bool changes_allowed = false;
  std::vector<std::string> reads;
  std::vector<std::string> changes;

 private:
  void change(const std::string& told) {
    if (!changes_allowed) throw std::logic_error("FakeUnits: nobody allowed this change: " + told);
    changes.push_back(told);
  }
};

}  // namespace fakes
