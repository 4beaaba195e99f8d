// One systemd unit: what it is, and the changes we make to it, each with its proof in one verb.
// Only through systemctl; never by process name, never a signal of our own to a daemon.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/clock.h"

namespace systemd {

// The word that `systemctl is-enabled` prints, which decides; its exit code does not (static exits 0,
// linked exits 1, generated 0, ...).
enum class UnitFile { enabled, not_enabled };

struct UnitState {
  std::string active;            // ActiveState: active, inactive, failed, activating, deactivating, ...
  std::string sub;               // SubState
  std::string result;            // Result: success, exit-code, signal, timeout, start-limit-hit, ...
  pid_t main_pid = 0;            // 0: none
  unsigned queued_job = 0;       // 0: none
  std::string untold;            // why nothing but `active` is known: what `systemctl show` said; empty: all is known
  std::vector<pid_t> processes;  // live processes in the unit's control group, or the main pid where there is no group

  bool gone() const { return (active == "inactive" || active == "failed") && queued_job == 0 && processes.empty(); }
};

// "ActiveState=active SubState=running, processes 77 78" for messages.
std::string describe(const UnitState& state);

struct EnabledWord {
  UnitFile state = UnitFile::not_enabled;
  std::string word;  // as printed
};

struct Stopped {
  bool killed = false;  // graceful stop did not do: KILL to the unit's control group
  std::string before;   // ActiveState met
};

std::string describe(const Stopped& stopped);

struct Started {
  pid_t main_pid = 0;
  std::uint64_t main_start_time = 0;  // clock ticks since boot
};

std::string describe(const Started& started);

class Units {
 public:
  virtual ~Units() = default;

  // --- reading
  // No word or a time-out: once more, then an error (change).
  virtual base::Result<EnabledWord> enabled(const std::string& unit) = 0;
  virtual base::Result<UnitState> state(const std::string& unit) = 0;

  // --- changing
  // A job of this unit that a dead run left queued is cancelled. Nothing queued: nothing done. The value is
  // the state that was met.
  virtual base::Result<UnitState> cancel_queued_job(const std::string& unit) = 0;
  // Graceful within `graceful`, then KILL to the control group; gone() within 5 s after or an error (change).
  virtual base::Result<Stopped> stop_and_wait(const std::string& unit, const host::Deadline& deadline,
                                              host::milliseconds graceful) = 0;
  // reset-failed, start within `limit`, then is-active and a live process. On a time-out the queued start is
  // cancelled by a stop and the error is time_out; else change.
  virtual base::Result<Started> start_and_confirm(const std::string& unit, const host::Deadline& deadline,
                                                  host::milliseconds limit) = 0;
};

}  // namespace systemd
