// Units for a dry run: reads ask the true ones, changes are written into the plan and come out as intended.
#pragma once

#include <string>

#include "host/plan.h"
#include "systemd/units.h"

namespace systemd {

class DryUnits : public Units {
 public:
  DryUnits(Units& real, host::Plan& plan) : real_(real), plan_(plan) {}

  base::Result<EnabledWord> enabled(const std::string& unit) override { return real_.enabled(unit); }
  base::Result<UnitState> state(const std::string& unit) override { return real_.state(unit); }

  base::Status cancel_queued_job(const std::string& unit) override {
    const auto now = real_.state(unit);
    if (!now) return now.error();
    if (now->queued_job != 0) plan_.add("would cancel the queued systemd job of unit " + unit);
    return base::ok();
  }
  base::Result<Stopped> stop_and_wait(const std::string& unit, const host::Deadline&, host::milliseconds) override {
    plan_.add("would stop unit " + unit + " and wait until it is gone");
    return Stopped{};
  }
  base::Result<Started> start_and_confirm(const std::string& unit, const host::Deadline&, host::milliseconds) override {
    plan_.add("would start unit " + unit + " and check that its daemon lives");
    return Started{};
  }

 private:
  Units& real_;
  host::Plan& plan_;
};

}  // namespace systemd
