// Units through systemctl, and systemctl's words parsed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "host/files.h"
#include "host/log.h"
#include "host/processes.h"
#include "systemd/units.h"

namespace systemd {

// The first word that `is-enabled` printed on stdout; empty: none. enabled, enabled-runtime, static,
// indirect, alias and generated count as enabled; disabled, linked*, masked*, not-found, transient, bad do
// not. systemd up to 253 prints nothing for a missing unit and says so on stderr: that is not-found too.
EnabledWord parse_is_enabled(std::string_view out, std::string_view err);

// `show --property=...`: Key=value lines.
std::map<std::string, std::string> parse_show(std::string_view out);

class SystemctlUnits : public Units {
 public:
  // `systemctl`: absolute path of a trusted tool.
  SystemctlUnits(std::string systemctl, host::Processes& processes, const host::Files& files, host::Clock& clock,
                 host::Log& log)
      : systemctl_(std::move(systemctl)), processes_(processes), files_(files), clock_(clock), log_(log) {}

  // No call from now on goes on after the end of `whole`, whatever its own limit; one begun later, as cleaning up must,
  // has a second.
  void end_by(const host::Deadline& whole) { whole_ = whole; }

  base::Result<EnabledWord> enabled(const std::string& unit) override;
  base::Result<UnitState> state(const std::string& unit) override;
  base::Result<UnitState> cancel_queued_job(const std::string& unit) override;
  base::Result<Stopped> stop_and_wait(const std::string& unit, const host::Deadline& deadline,
                                      host::milliseconds graceful) override;
  base::Result<Started> start_and_confirm(const std::string& unit, const host::Deadline& deadline,
                                          host::milliseconds limit) override;

 private:
  host::Exit run(std::vector<std::string> arguments, host::milliseconds limit);
  std::vector<pid_t> processes_of(const std::map<std::string, std::string>& shown) const;
  base::Result<UnitState> wait_gone(const std::string& unit, const host::Deadline& deadline);

  std::string systemctl_;
  host::Processes& processes_;
  const host::Files& files_;
  host::Clock& clock_;
  host::Log& log_;
  std::optional<host::Deadline> whole_;
};

}  // namespace systemd
