#include "commands/imex_epilog.h"

#include <algorithm>

#include "base/duration.h"
#include "base/text.h"
#include "commands/imex_domain_end.h"
#include "commands/imex_gate.h"
#include "commands/imex_run.h"
#include "commands/imex_times.h"
#include "commands/imex_tools.h"
#include "host/interrupt.h"
#include "imex/config.h"
#include "imex/nodes_config.h"
#include "imex/state.h"

namespace commands {

using base::Error;
using base::ExitCode;

namespace {

int end_done(Context& context, const std::string& why) {
  context.run.report().summary = why;
  context.run.log().info(why);
  return 0;
}

// A daemon of which nobody knows whose it is stays: it may be the next job's by now.
int end_unknown(Context& context, const std::string& damage) {
  context.run.report().summary = "nothing is stopped: " + damage + ", so nobody knows whose daemon runs here";
  context.run.log().warn(
      context.run.report().summary +
      "; find out who made it so and remove the file (a folder: make it root's, mode 0755); the "
      "next exclusive job's prolog stops the daemon; by hand, once no job runs here: `systemctl stop " +
      std::string(site::imex_unit) + "`");
  return 0;
}

// An epilog that fails drains the node: only a daemon that will not die is worth that.
int end_failed(Context& context, const Error& error, bool drain) {
  context.run.fail(error);
  context.run.report().summary = "failed: " + error.what;
  if (const int signal = host::stop_signal(); signal != 0) {
    context.run.log().error("stopped by signal " + std::to_string(signal));
    return base::signal_exit_base + signal;
  }
  if (drain || context.dry_run()) return base::to_int(error.code);
  context.run.log().warn("the node stays in service all the same: the next job's prolog starts from the beginning");
  context.run.report().error.reset();
  return 0;
}

// Is the daemon that lives now the one that the prolog started? Pid and start time together are a process' identity.
bool is_jobs_daemon(const Context& context, const systemd::UnitState& unit, const imex::State& state) {
  if (unit.gone() || unit.main_pid == 0 || state.phase == imex::Phase::changing) return true;
  return unit.main_pid == state.main_pid &&
         context.host.processes.start_time(unit.main_pid).value_or(0) == state.main_start_time;
}

std::string own_address_only(const Context& context, const imex::State& state) {
  const auto own = context.host.network.own_addresses();
  for (const std::string& address : state.addresses) {
    if (own && std::find(own->begin(), own->end(), address) != own->end()) return imex::render_nodes_config({address});
  }
  return imex::render_empty_nodes_config();
}

}  // namespace

int imex_epilog(Context& context, const ImexEpilogOptions& options, const std::optional<Error>& config_error) {
  const host::Host& host = context.host;
  flow::Runner& run = context.run;
  const auto conf = find_conf(context);
  const TimeLimit time = epilog_time(options.deadline, conf);
  const host::Deadline deadline(host.clock, time.limit);

  if (is_by_hand(host.environment) && !options.force && !context.dry_run()) {
    const auto alone = run.step("by hand", [&] { return check_by_hand(context, conf); });
    if (!alone) return end_failed(context, alone.error(), true);
  }

  // --- is there anything of ours? Neither a child nor the network is needed to know ----------------------
  const GateAnswer claim = gate_exclusive_claim(context, conf);
  if (!claim.go()) return end_done(context, "nothing to do: " + claim.why);
  const auto job = slurm::read_job(host.environment);
  if (!job) return end_failed(context, job.error(), is_by_hand(host.environment));
  const imex::RunIdentity self = identity_of(*job);
  std::string damage;
  auto state = imex::read_state(host.files, damage);
  if (!damage.empty()) return end_unknown(context, damage);
  if (!state) return end_done(context, "nothing to do: no prolog of gpu-prolog made a domain here since the boot");
  if (!imex::is_epilog_of(state->run, self)) {
    return end_done(context,
                    "nothing to do: the domain on this node is of " + show_run(state->run) + ", not of this run");
  }
  if (state->phase == imex::Phase::stopped)
    return end_done(context, "nothing to do: the domain of this job is ended already");
  if (config_error) run.log().error(flow::one_line(*config_error) + "; going on with the built-in defaults");
  if (options.mode == EpilogMode::keep) return end_done(context, "domain kept as it is (--mode=keep)");
  if (!host.processes.is_root() && !context.dry_run()) {
    return end_failed(
        context,
        {ExitCode::surroundings, "not run as root", "slurmd runs an Epilog as root; by hand use sudo, or --dry-run"},
        is_by_hand(host.environment));
  }
  auto units = open_units(context, deadline);
  if (!units) return end_failed(context, units.error(), false);

  // --- under the lock, the same questions again: a next job's prolog may have been faster ----------------
  const std::string holder =
      "imex-epilog of job " + base::printable(job->id, 40) + ", pid " + std::to_string(host.processes.self());
  auto lock = run.step("lock", [&] {
    return host.locks.acquire(std::string(site::imex_lock), holder, deadline.limit(options.lock_timeout));
  });
  if (!lock) return end_failed(context, lock.error(), false);
  state = imex::read_state(host.files, damage);
  if (!damage.empty()) return end_unknown(context, damage);
  if (!state || !imex::is_epilog_of(state->run, self) || state->phase == imex::Phase::stopped) {
    return end_done(context, "nothing to do: another run has taken over meanwhile");
  }
  const auto unit = run.step("unit before", [&] { return (*units)->cancel_queued_job(state->unit); });
  if (!unit) return end_failed(context, unit.error(), false);
  if (!is_jobs_daemon(context, *unit, *state)) {
    run.log().warn("unit " + state->unit + " runs another daemon (pid " + std::to_string(unit->main_pid) +
                   ") than this job's prolog started (pid " + std::to_string(state->main_pid) +
                   "): whoever restarted it decides about it; the next job's prolog stops it in any case");
    return end_done(context, "nothing to do: the daemon is not the one that this job's prolog started");
  }

  // --- stop, empty ---------------------------------------------------------------------------------------
  // The list that the daemon would read is emptied, wherever the state says that it was.
  const std::string nodes_config = imex::find_nodes_config(host.files);
  if (state->nodes_config != nodes_config) {
    run.log().warn("the prolog wrote the node list " + base::printable(state->nodes_config) +
                   ", but the daemon's config names " + nodes_config + " now: only that one is emptied");
  }
  const std::string list =
      options.mode == EpilogMode::self ? own_address_only(context, *state) : imex::render_empty_nodes_config();
  const auto ended = run.step("stop", [&] {
    return end_domain(context, **units, state->unit, nodes_config, list, deadline, options.stop_timeout);
  });
  if (!ended) return end_failed(context, ended.error(), true);
  state->phase = imex::Phase::stopped;
  const auto noted = run.step("state", [&] { return imex::write_state(host.files, *state); });
  if (!noted) run.log().warn("the state file still says that the domain runs; the next prolog does not rely on it");
  if (!ended->emptied) return end_failed(context, ended->emptied.error(), false);
  if (options.mode == EpilogMode::self) {
    const auto started =
        run.step("start", [&] { return (*units)->start_and_confirm(state->unit, deadline, site::start_limit); });
    if (!started) return end_failed(context, started.error(), false);
    return end_done(context, "domain ended; the daemon runs with this node's own address only");
  }
  return end_done(context, "domain ended: " + state->unit + " is stopped and its node list has no nodes");
}

}  // namespace commands
