#include "imex/ready.h"

#include <algorithm>

#include "base/duration.h"
#include "base/text.h"
#include "site/site.h"

namespace imex {

using base::Error;
using base::ExitCode;

namespace {

using namespace std::chrono_literals;

const std::string where_to_look = "see /var/log/nvidia-imex.log and `journalctl -u nvidia-imex -b`";

bool is_about_peers(const std::string& word) { return word == "WAITING_FOR_PEERS" || word == "WAITING_FOR_RECOVERY"; }

// The pid alone could be somebody else's by now.
bool lives(const host::Processes& processes, const systemd::Started& daemon) {
  if (!processes.alive(daemon.main_pid)) return false;
  const auto start = processes.start_time(daemon.main_pid);
  return daemon.main_start_time == 0 || !start || *start == daemon.main_start_time;
}

base::Result<Ready> await_process_and_port(systemd::Units& units, const host::Processes& processes,
                                           const host::Network& network, host::Clock& clock, host::Log& log,
                                           const ReadyTask& task, const host::Deadline& deadline) {
  log.warn("cannot ask nvidia-imex-ctl (" + task.no_ctl_because + "): only the daemon's process and port " +
           std::to_string(task.server_port) + " are looked at, the domain is not");
  Ready ready{"alive", false, task.daemon};
  for (;;) {
    if (auto alive = check_alive(units, processes, log, task.unit, ready.daemon); !alive) return alive.error();
    const auto listening = network.listening(task.server_port);
    if (ready.daemon.main_pid == 0 || (listening && *listening)) return ready;
    if (deadline.over() || !clock.sleep(deadline.limit(250ms))) break;
  }
  return Error{ExitCode::time_out,
               "nobody listens on IMEX port " + std::to_string(task.server_port) + " yet, though the daemon lives",
               where_to_look};
}

}  // namespace

base::Status check_alive(systemd::Units& units, const host::Processes& processes, host::Log& log,
                         const std::string& unit, systemd::Started& daemon) {
  if (daemon.main_pid == 0 || lives(processes, daemon)) return base::ok();
  const auto state = units.state(unit);
  if (!state) return state.error();
  if (!state->processes.empty() && (state->active == "active" || state->active == "activating")) {
    const pid_t before = daemon.main_pid;
    daemon.main_pid = state->main_pid != 0 ? state->main_pid : state->processes.front();
    daemon.main_start_time = processes.start_time(daemon.main_pid).value_or(0);
    log.warn("the daemon of unit " + unit + " (pid " + std::to_string(before) +
             ") has ended and systemd started another (pid " + std::to_string(daemon.main_pid) + ")");
    return base::ok();
  }
  return Error{ExitCode::change,
               "the daemon of unit " + unit + " died after its start (unit is " + base::printable(state->active) +
                   ", Result=" + base::printable(state->result) + ")",
               where_to_look};
}

std::string describe(const Ready& ready) {
  if (!ready.asked_ctl)
    return "daemon is alive (pid " + std::to_string(ready.daemon.main_pid) + "); its status could not be asked";
  return "local daemon is " + ready.word;
}

base::Result<Ready> await_ready(Ctl& ctl, systemd::Units& units, const host::Processes& processes,
                                const host::Network& network, host::Clock& clock, host::Log& log, const ReadyTask& task,
                                const host::Deadline& deadline) {
  if (!task.no_ctl_because.empty())
    return await_process_and_port(units, processes, network, clock, log, task, deadline);
  Ready ready{"", true, task.daemon};
  LocalStatus last;
  host::milliseconds pause = 50ms;
  host::milliseconds about_peers{0};
  const auto begin = clock.now();
  auto next_told = begin + 10s;
  for (;;) {
    if (auto alive = check_alive(units, processes, log, task.unit, ready.daemon); !alive) return alive.error();
    last = ctl.local_status(std::max(deadline.limit(site::imex_ctl_limit), host::milliseconds(100)));
    ready.word = last.word;
    if (last.word == "READY") return ready;
    if (is_about_peers(last.word) && about_peers >= 1s) return ready;
    if (deadline.over()) break;
    const host::milliseconds slept = deadline.limit(pause);
    if (!clock.sleep(slept)) break;
    about_peers = is_about_peers(last.word) ? about_peers + slept : host::milliseconds(0);
    pause = std::min(pause * 2, host::milliseconds(500));
    if (clock.now() >= next_told) {
      log.info("waiting for the local nvidia-imex: " + (last.word.empty() ? last.why : "it says " + last.word));
      next_told = clock.now() + 10s;
    }
  }
  if (auto alive = check_alive(units, processes, log, task.unit, ready.daemon); !alive) return alive.error();
  if (is_about_peers(last.word)) return ready;
  const auto waited = std::chrono::duration_cast<host::milliseconds>(clock.now() - begin);
  return Error{ExitCode::time_out,
               "the local nvidia-imex daemon is not READY after " + base::show_duration(waited) + ": " +
                   (last.word.empty() ? last.why : "it says " + last.word),
               where_to_look};
}

}  // namespace imex
