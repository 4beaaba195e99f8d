// Units for a dry run: reads ask the true ones, changes are written into the plan and come out as intended.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "host/plan.h"
#include "systemd/units.h"

namespace systemd {

class DryUnits : public Units {
 public:
  DryUnits(std::unique_ptr<Units> real, host::Plan& plan) : real_(std::move(real)), plan_(plan) {}

  base::Result<EnabledWord> enabled(const std::string& unit) override { return real_->enabled(unit); }
  base::Result<UnitState> state(const std::string& unit) override {
    if (!would_be_active_) return real_->state(unit);
    UnitState intended;
    intended.active = "active";
    return intended;
  }

  base::Result<UnitState> cancel_queued_job(const std::string& unit) override {
    auto now = real_->state(unit);
    if (now && now->queued_job != 0) plan_.add("would cancel the queued systemd job of unit " + unit);
    return now;
  }
  base::Result<Stopped> stop_and_wait(const std::string& unit, const host::Deadline&, host::milliseconds) override {
    plan_.add("would stop unit " + unit + " and wait until it is gone");
    return Stopped{};
  }
  base::Result<Started> start_and_confirm(const std::string& unit, const host::Deadline&, host::milliseconds) override {
    plan_.add("would start unit " + unit + " and check that its daemon lives");
    would_be_active_ = true;
    return Started{};
  }

 private:
  std::unique_ptr<Units> real_;
  bool would_be_active_ = false;
  host::Plan& plan_;
};

}  // namespace systemd
