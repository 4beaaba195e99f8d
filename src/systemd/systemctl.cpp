#include "systemd/systemctl.h"

#include <algorithm>
#include <array>

#include "base/duration.h"
#include "base/text.h"
#include "site/site.h"

namespace systemd {

using base::Error;
using base::ExitCode;
using Ending = host::Exit::Ending;

namespace {

using namespace std::chrono_literals;

std::string look_at(const std::string& unit) {
  return "see `systemctl status " + unit + "` and `journalctl -u " + unit + " -b`";
}

pid_t to_pid(const std::map<std::string, std::string>& shown, const std::string& key) {
  const auto found = shown.find(key);
  if (found == shown.end()) return 0;
  const auto number = base::parse_number(found->second);
  return number && *number <= 0x7fffffff ? static_cast<pid_t>(*number) : 0;
}

std::string value_of(const std::map<std::string, std::string>& shown, const std::string& key) {
  const auto found = shown.find(key);
  return found == shown.end() ? "" : found->second;
}

}  // namespace

std::string describe(const UnitState& state) {
  std::string text = "ActiveState=" + base::printable(state.active) + " SubState=" + base::printable(state.sub);
  if (!state.result.empty()) text += " Result=" + base::printable(state.result);
  if (state.queued_job != 0) text += " queued job " + std::to_string(state.queued_job);
  if (!state.processes.empty()) {
    text += " processes";
    for (const pid_t pid : state.processes) text += " " + std::to_string(pid);
  }
  return text;
}

std::string describe(const Stopped& stopped) {
  if (stopped.killed) return "unit did not stop gracefully and was killed; no process is left";
  return "unit is stopped, no process is left";
}

std::string describe(const Started& started) {
  if (started.main_pid == 0) return "unit would be started";
  return "unit is active, main process " + std::to_string(started.main_pid);
}

EnabledWord parse_is_enabled(std::string_view out, std::string_view err) {
  static constexpr std::array<std::string_view, 6> enabled{"enabled",  "enabled-runtime", "static",
                                                           "indirect", "alias",           "generated"};
  const auto words = base::words(out);
  if (words.empty()) {
    // "Failed to get unit file state for nvidia-imex.service: No such file or directory" (up to systemd 253). A bus
    // that cannot be reached is told as "no such file" too, and is no missing unit.
    const bool missing = base::contains_ignoring_case(err, "failed to get unit file state") &&
                         base::contains_ignoring_case(err, "no such file");
    return {UnitFile::not_enabled, missing ? "not-found" : ""};
  }
  // The words of systemctl(1). Anything else is no answer: taken for "not enabled" it would skip IMEX for ever.
  static constexpr std::array<std::string_view, 8> not_enabled{
      "disabled", "linked", "linked-runtime", "masked", "masked-runtime", "not-found", "transient", "bad"};
  const std::string word(words.front());
  if (std::find(enabled.begin(), enabled.end(), word) != enabled.end()) return {UnitFile::enabled, word};
  const bool is_known = std::find(not_enabled.begin(), not_enabled.end(), word) != not_enabled.end();
  return {UnitFile::not_enabled, is_known ? word : ""};
}

std::map<std::string, std::string> parse_show(std::string_view out) {
  std::map<std::string, std::string> shown;
  for (const std::string_view line : base::each_line(out)) {
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos) shown[std::string(line.substr(0, equals))] = line.substr(equals + 1);
  }
  return shown;
}

host::Exit SystemctlUnits::run(std::vector<std::string> arguments, host::milliseconds limit) {
  host::Command command;
  command.program = systemctl_;
  command.arguments = std::move(arguments);
  command.limit = whole_ ? std::min(limit, std::max(whole_->left(), site::systemctl_least)) : limit;
  host::Exit exit = processes_.run(command);
  log_.debug(host::show(command) + ": " + host::describe(exit));
  return exit;
}

base::Result<EnabledWord> SystemctlUnits::enabled(const std::string& unit) {
  host::Exit exit;
  for (int attempt = 0; attempt < 2; ++attempt) {
    exit = run({"is-enabled", unit}, site::systemctl_limit);
    if (exit.ending == Ending::interrupted) break;
    EnabledWord word = parse_is_enabled(exit.out, exit.err);
    if (!word.word.empty()) return word;
  }
  return Error{ExitCode::change, "systemctl is-enabled " + unit + " gave no answer: " + host::describe(exit),
               host::cure_for(exit, "see whether systemd answers on this node (`systemctl is-system-running`)")};
}

base::Result<UnitState> SystemctlUnits::state(const std::string& unit) {
  const host::Exit exit =
      run({"show", unit, "--property=ActiveState,SubState,Result,MainPID,ControlPID,Job,ControlGroup"},
          site::systemctl_limit);
  UnitState state;
  if (exit.succeeded()) {
    const auto shown = parse_show(exit.out);
    state.active = value_of(shown, "ActiveState");
    state.sub = value_of(shown, "SubState");
    state.result = value_of(shown, "Result");
    state.main_pid = to_pid(shown, "MainPID");
    state.queued_job = static_cast<unsigned>(to_pid(shown, "Job"));
    state.processes = processes_of(shown);
  }
  if (state.active.empty() || state.sub.empty()) state.untold = host::describe(exit);
  if (state.active.empty()) {
    const host::Exit active = run({"is-active", unit}, site::systemctl_limit);
    const auto words = base::words(active.out);
    if (words.empty()) {
      return Error{ExitCode::change, "systemctl does not tell the state of unit " + unit + ": " + host::describe(exit),
                   host::cure_for(exit, "see whether systemd answers on this node (`systemctl is-system-running`)")};
    }
    state.active = words.front();
  }
  return state;
}

std::vector<pid_t> SystemctlUnits::processes_of(const std::map<std::string, std::string>& shown) const {
  std::vector<pid_t> pids;
  const auto add = [&](pid_t pid) {
    if (pid > 1 && processes_.alive(pid) && std::find(pids.begin(), pids.end(), pid) == pids.end()) pids.push_back(pid);
  };
  add(to_pid(shown, "MainPID"));
  add(to_pid(shown, "ControlPID"));
  const std::string group = value_of(shown, "ControlGroup");
  if (group.size() < 2 || !group.starts_with('/') || group.find("..") != std::string::npos) return pids;
  // cgroup v2; v1 and hybrid keep systemd's own tree in "systemd" or "unified".
  for (const std::string_view tree : {"/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"}) {
    const auto text = files_.read(std::string(tree) + group + "/cgroup.procs", 1U << 20U);
    if (!text) continue;
    for (const std::string_view line : base::each_line(*text)) {
      if (const auto pid = base::parse_number(line); pid && *pid <= 0x7fffffff) add(static_cast<pid_t>(*pid));
    }
  }
  return pids;
}

base::Result<UnitState> SystemctlUnits::cancel_queued_job(const std::string& unit) {
  auto before = state(unit);
  if (!before || before->queued_job == 0) return before;
  log_.warn("unit " + unit + " has a job left in systemd's queue (" + describe(*before) + "): cancelling it");
  const host::Exit exit = run({"cancel", std::to_string(before->queued_job)}, site::systemctl_limit);
  if (!exit.succeeded()) log_.warn("systemctl cancel: " + host::describe(exit));  // the stop to come replaces it
  return before;
}

base::Result<UnitState> SystemctlUnits::wait_gone(const std::string& unit, const host::Deadline& deadline) {
  host::milliseconds pause = 20ms;
  for (;;) {
    auto now = state(unit);
    if (!now || now->gone() || deadline.over()) return now;
    if (!clock_.sleep(deadline.limit(pause))) return now;
    pause = std::min(pause * 2, host::milliseconds(500));
  }
}

base::Result<Stopped> SystemctlUnits::stop_and_wait(const std::string& unit, const host::Deadline& deadline,
                                                    host::milliseconds graceful) {
  Stopped stopped;
  // A client that gave up does not end the stop: systemd goes on waiting, up to TimeoutStopSec (90 s), and a
  // start would queue behind it. So the state is what counts, not this call's exit.
  const host::Exit exit = run({"stop", unit}, deadline.limit(graceful));
  if (exit.ending == Ending::interrupted) {
    return Error{ExitCode::time_out, "systemctl stop " + unit + " was interrupted by a signal", ""};
  }
  const bool accepted = exit.succeeded();
  auto now = accepted ? wait_gone(unit, deadline.within(site::gone_limit)) : state(unit);
  if (!now) return now.error();
  stopped.before = now->active;
  if (now->gone()) return stopped;

  const std::string why = accepted                           ? " is not gone though systemctl stop has ended"
                          : exit.ending == Ending::timed_out ? " did not stop within " + base::show_duration(exit.took)
                                                             : " could not be stopped, " + host::describe(exit);
  log_.warn("unit " + unit + why + " (" + describe(*now) + "): killing its processes through systemd");
  stopped.killed = true;
  const host::Exit killed = run({"kill", "--signal=KILL", unit}, site::systemctl_limit);
  if (!killed.succeeded()) log_.warn("systemctl kill " + unit + ": " + host::describe(killed));
  const host::milliseconds looked = std::min(site::gone_limit, std::max(deadline.left(), site::gone_least));
  now = wait_gone(unit, host::Deadline(clock_, looked));
  if (!now) return now.error();
  if (now->gone()) return stopped;
  if (looked < site::gone_limit) {
    return Error{ExitCode::time_out,
                 "unit " + unit + " is not gone " + base::show_duration(looked) +
                     " after KILL, and the run has no time to wait longer: " + describe(*now),
                 "see in this log what took the time; " + look_at(unit)};
  }
  return Error{ExitCode::change, "unit " + unit + " cannot be stopped, not even by KILL: " + describe(*now),
               "a daemon stuck in the kernel needs a reboot of this node; " + look_at(unit)};
}

base::Result<Started> SystemctlUnits::start_and_confirm(const std::string& unit, const host::Deadline& deadline,
                                                        host::milliseconds limit) {
  const auto too_late = [&] {
    return Error{ExitCode::time_out, "no time was left to start unit " + unit,
                 "see in this log what took the time; " + look_at(unit)};
  };
  if (deadline.over()) return too_late();  // nothing is queued that would have to be cancelled
  // Without this the 6th start within 10 s is refused (start-limit-hit): short jobs in a row do that.
  const host::Exit reset = run({"reset-failed", unit}, site::systemctl_limit);
  if (!reset.succeeded()) log_.debug("systemctl reset-failed " + unit + ": " + host::describe(reset));

  const host::milliseconds allowed = deadline.limit(limit);
  if (allowed <= host::milliseconds::zero()) return too_late();
  const host::Exit exit = run({"start", unit}, allowed);
  if (exit.ending == Ending::timed_out || exit.ending == Ending::interrupted) {
    // The start job is still in systemd's queue and would start the daemon some day: stop cancels it. This comes out of
    // the time that is kept back for cleaning up, so it is short: a daemon that has not started has nobody to part
    // from.
    const host::Exit stop = run({"stop", unit}, site::cancel_limit);
    const auto now = state(unit);
    std::string after = now ? describe(*now) : now.error().what;
    if (!stop.succeeded() && now && !now->gone()) {
      run({"kill", "--signal=KILL", unit}, site::systemctl_limit);
      const auto last = state(unit);
      after = last ? describe(*last) : last.error().what;
    }
    const std::string why = exit.ending == Ending::timed_out
                                ? "did not start within " + base::show_duration(allowed)
                                : std::string("was interrupted by a signal while it started");
    return Error{ExitCode::time_out, "unit " + unit + " " + why + " (start cancelled; now " + after + ")",
                 look_at(unit)};
  }
  const auto now = state(unit);
  const std::string told = now ? describe(*now) : now.error().what;
  if (!exit.succeeded()) {
    return Error{ExitCode::change, "unit " + unit + " did not start: " + host::describe(exit) + " (" + told + ")",
                 host::cure_for(exit, look_at(unit))};
  }
  if (!now) return now.error();
  if (now->active != "active" || now->processes.empty()) {
    return Error{ExitCode::change,
                 "systemctl start " + unit + " reported success, but no daemon lives in the unit (" + told + ")",
                 look_at(unit) + "; an empty or wrong node list makes nvidia-imex end at once"};
  }
  Started started;
  started.main_pid = now->main_pid != 0 ? now->main_pid : now->processes.front();
  started.main_start_time = processes_.start_time(started.main_pid).value_or(0);
  return started;
}

}  // namespace systemd
