#include "commands/imex_prolog.h"

#include <algorithm>
#include <cstring>

#include "base/duration.h"
#include "base/text.h"
#include "commands/imex_blame.h"
#include "commands/imex_domain_end.h"
#include "commands/imex_gate.h"
#include "commands/imex_peers.h"
#include "commands/imex_run.h"
#include "commands/imex_times.h"
#include "commands/imex_tools.h"
#include "host/interrupt.h"
#include "imex/channel.h"
#include "imex/config.h"
#include "imex/domain.h"
#include "imex/nodes_config.h"
#include "imex/ready.h"
#include "imex/state.h"
#include "imex/stray.h"

namespace commands {

using base::Error;
using base::ExitCode;
using base::Status;

namespace {

using namespace std::chrono_literals;

// What a run has found and done so far: what an ending needs to leave the node as it must be left.
struct Progress {
  slurm::Job job;
  std::vector<std::string> block_nodes;  // once they are known
  std::unique_ptr<systemd::Units> units;
  std::optional<imex::DaemonConfig> daemon_config;  // once it is read
  std::optional<host::Deadline> whole;              // of the run, cleaning up included
  bool stopped = false;                             // the daemon was stopped: the old domain is over
  bool ours_runs = false;                           // this job's daemon runs, READY, with this job's list
  site::milliseconds restart_cost{0};               // what stop, start and READY took in this run
};

constexpr site::milliseconds least_cleanup = 1s;   // also where no time is left: KILL and an empty list need no more
constexpr site::milliseconds restart_margin = 2s;  // for what a restart takes longer than the first start did
constexpr int share_of_release_wait = 3;  // of the time left, a third: the start and READY must fit into the rest

// The list that an ending empties, also of a run that failed before it had read where it is.
std::string nodes_config_of(const Context& context, const Progress& progress) {
  if (progress.daemon_config) return progress.daemon_config->nodes_config;
  return imex::find_nodes_config(context.host.files);
}

site::milliseconds since(const Context& context, host::Clock::time_point begin) {
  return std::chrono::duration_cast<site::milliseconds>(context.host.clock.now() - begin);
}

int end_skipped(Context& context, const GateAnswer& answer) {
  host::Log& log = context.run.log();
  const std::string text = "Skipping IMEX configuration because " + answer.why;  // the published script's words
  switch (answer.say) {
    case GateAnswer::Say::skip_error: log.error(text); break;
    case GateAnswer::Say::skip_warn: log.warn(text); break;
    case GateAnswer::Say::skip_info:
    case GateAnswer::Say::go: log.info(text); break;
  }
  context.run.report().summary = "skipped: " + answer.why;
  return 0;
}

// A run that fails after the stop leaves no daemon and a list without nodes, so that no stale domain meets the
// next job or the next boot.
void leave_no_domain(Context& context, Progress& progress, const ImexPrologOptions& options) {
  host::Log& log = context.run.log();
  const site::milliseconds left = progress.whole ? progress.whole->limit(site::cleanup_reserve) : site::cleanup_reserve;
  const host::Deadline cleanup(context.host.clock, std::max(left, least_cleanup));
  const auto ended = end_domain(context, *progress.units, options.gate.unit, nodes_config_of(context, progress),
                                imex::render_empty_nodes_config(), cleanup, options.stop_timeout);
  if (!ended || !ended->emptied) {
    log.error("cleaning up: " + flow::one_line(ended ? ended->emptied.error() : ended.error()));
    return;
  }
  if (auto forgotten = context.host.files.remove(std::string(site::imex_state)); !forgotten) {
    log.warn("cleaning up: " + forgotten.error().what);
  }
  log.info("cleaned up: " + options.gate.unit + " is stopped, its node list has no nodes");
}

// --on-failure=continue lets the job run; it must then not meet the domain of another job.
void stop_foreign_domain(Context& context, Progress& progress, const ImexPrologOptions& options) {
  if (!progress.units) return;
  host::Log& log = context.run.log();
  const auto state = progress.units->state(options.gate.unit);
  if (!state || state->gone()) return;
  std::string damage;
  const auto before = imex::read_state(context.host.files, damage);
  if (before && before->phase == imex::Phase::started && imex::same_run(before->run, identity_of(progress.job))) return;
  log.warn("the live " + options.gate.unit +
           " daemon holds another job's node list: stopping it before this job goes on");
  leave_no_domain(context, progress, options);
}

int end_failed(Context& context, Progress& progress, const ImexPrologOptions& options, const Error& error) {
  host::Log& log = context.run.log();
  flow::Report& report = context.run.report();
  context.run.fail(error);
  const int signal = host::stop_signal();
  if (signal != 0) {
    const std::string step = report.steps.empty() ? "start" : report.steps.back().name;
    log.error("stopped by signal " + std::to_string(signal) + " in step " + step);
    report.summary = "stopped by signal " + std::to_string(signal);
    host::acknowledge_stop_signal();
    if (progress.stopped) leave_no_domain(context, progress, options);
    return base::signal_exit_base + signal;
  }
  if (context.dry_run()) {
    report.summary = "failed: " + error.what;
    return base::to_int(error.code);
  }
  if (error.blame == base::Blame::shared && options.blame == BlameWho::first &&
      !is_blamed(progress.job.node_name, progress.block_nodes, progress.job.node_list)) {
    const std::string blamed =
        progress.block_nodes.empty() ? first_name(progress.job.node_list) : progress.block_nodes.front();
    log.error("every node of the block sees this fault: node " + base::printable(blamed, 80) +
              " fails for it, this node does not (--blame=first)");
    if (!progress.stopped) stop_foreign_domain(context, progress, options);
    report.summary = "failed, told by node " + base::printable(blamed, 80) + ": " + error.what;
    report.error.reset();
    return 0;
  }
  if (options.on_failure == OnFailure::carry_on) {
    // The job that goes on is better off with this node's own daemon than with none.
    if (progress.stopped && !progress.ours_runs) leave_no_domain(context, progress, options);
    if (!progress.stopped) stop_foreign_domain(context, progress, options);
    log.warn("the job goes on all the same (--on-failure=continue)");
    report.summary = "failed, the job goes on (--on-failure=continue): " + error.what;
    report.error.reset();
    return 0;
  }
  if (progress.stopped) leave_no_domain(context, progress, options);
  report.summary = "failed: " + error.what;
  return base::to_int(error.code);
}

// Waits only as long as the rest of the run can spare.
base::Result<std::unique_ptr<host::Lock>> lock_node(Context& context, const slurm::Job& job, site::milliseconds limit) {
  const std::string holder =
      "imex-prolog of job " + base::printable(job.id, 40) + ", pid " + std::to_string(context.host.processes.self());
  return context.host.locks.acquire(std::string(site::imex_lock), holder, limit);
}

// What a run before this one left: its queued systemd job is cancelled. The value is the unit as it was met.
base::Result<systemd::UnitState> finish_dead_run(Context& context, systemd::Units& units, const std::string& unit,
                                                 bool& epilog_stopped_it) {
  std::string damage;
  const auto before = imex::read_state(context.host.files, damage);
  if (!damage.empty()) context.run.log().warn(damage + "; going on without it");
  epilog_stopped_it = before && before->phase == imex::Phase::stopped;
  if (before && before->phase == imex::Phase::changing) {
    context.run.log().warn("the prolog of job " + base::printable(before->run.job_id, 40) + " (pid " +
                           std::to_string(before->prolog_pid) +
                           ") was killed half-way on this node; this run starts from the beginning");
  }
  return units.cancel_queued_job(unit);
}

Status drop_persist(Context& context, const systemd::Stopped& stopped) {
  if (!stopped.killed) return base::ok();
  const std::string path(site::imex_persist);
  const auto there = context.host.files.status(path);
  if (!there || !*there) return base::ok();
  return context.host.files.rename(path, path + ".dropped");
}

struct DomainLimit {
  host::Deadline deadline;
  std::string cut_by;  // empty, or what cut it short
};

// The least of `budget` (what is left of --domain-timeout), what the run has left and, with NoHold, the time after
// which srun gives up.
DomainLimit domain_limit(const Context& context, site::milliseconds budget, const std::optional<slurm::Conf>& conf,
                         host::Clock::time_point begin, const host::Deadline& deadline) {
  const site::milliseconds own = deadline.limit(budget);
  const auto nohold = nohold_time(conf);
  if (!nohold) return {deadline.within(own), ""};
  const site::milliseconds left = std::max(nohold->limit - since(context, begin), site::milliseconds(0));
  if (left >= own) return {deadline.within(own), ""};
  return {deadline.within(left), nohold->because};
}

base::Result<bool> is_still_ours(Context& context, const Progress& progress, const imex::State& state) {
  std::string damage;
  const auto now = imex::read_state(context.host.files, damage);
  if (!now || now->phase == imex::Phase::stopped || !imex::same_run(now->run, state.run)) return false;
  systemd::Started daemon{state.main_pid, state.main_start_time};
  if (auto alive = imex::check_alive(*progress.units, context.host.processes, context.run.log(), state.unit, daemon);
      !alive) {
    return alive.error();
  }
  return true;
}

// The cure of a node map mismatch; under the lock, since an epilog may be about to end the domain. False: not begun.
// A daemon that is READY is not given up for a restart that the time left would cut short: that would turn a warning
// into a drained node.
base::Result<bool> restart_own_daemon(Context& context, Progress& progress, const ImexPrologOptions& options,
                                      imex::State& state, imex::Ctl& ctl, imex::ReadyTask task,
                                      const host::Deadline& deadline) {
  host::Log& log = context.run.log();
  const site::milliseconds needed = progress.restart_cost * 2 + restart_margin;
  const auto lock = lock_node(context, progress.job, deadline.less(needed).left());
  if (!lock && lock.error().code != ExitCode::time_out) return lock.error();
  if (!lock) {
    log.warn("not restarting our own daemon to lift the block: " + flow::one_line(lock.error()));
    return false;
  }
  const auto ours = is_still_ours(context, progress, state);
  if (!ours) return ours.error();
  if (!*ours) return true;  // the next look tells it
  if (deadline.left() < needed) {
    log.warn("not restarting our own daemon to lift the block: " + base::show_duration(deadline.left()) +
             " are left, and stop, start and READY took " + base::show_duration(progress.restart_cost) +
             " in this run; Slurm's PrologTimeout or --deadline gives more");
    return false;
  }
  log.warn(
      "restarting our own daemon: a blocked peer holds this job's list now, and only a restart of this side lifts the "
      "block");
  progress.ours_runs = false;
  const auto stopped = progress.units->stop_and_wait(options.gate.unit, deadline, options.stop_timeout);
  if (!stopped) return stopped.error();
  const auto started = progress.units->start_and_confirm(options.gate.unit, deadline, options.start_timeout);
  if (!started) return started.error();
  task.daemon = *started;
  const auto ready =
      imex::await_ready(ctl, *progress.units, context.host.processes, context.host.network, context.host.clock,
                        context.run.log(), task, deadline.within(options.ready_timeout));
  if (!ready) return ready.error();
  state.main_pid = ready->daemon.main_pid;
  state.main_start_time = ready->daemon.main_start_time;
  if (auto kept = imex::write_state(context.host.files, state); !kept) return kept.error();
  progress.ours_runs = true;
  return true;
}

}  // namespace

int imex_prolog(Context& context, const ImexPrologOptions& options, const std::optional<Error>& config_error) {
  const host::Host& host = context.host;
  flow::Runner& run = context.run;
  Progress progress;
  const auto failed = [&](const Error& error) { return end_failed(context, progress, options, error); };

  const auto begin = host.clock.now();
  const auto conf = find_conf(context);
  const TimeLimit time = prolog_time(options.deadline, conf);
  const host::Deadline whole(host.clock, time.limit);
  const host::Deadline deadline = whole.less(std::min(site::cleanup_reserve, time.limit / 3));
  progress.whole = whole;

  if (is_by_hand(host.environment) && !options.force && !context.dry_run()) {
    const auto alone = run.step("by hand", [&] { return check_by_hand(context, conf); });
    if (!alone) return failed(alone.error());
  }

  // --- the gate: nothing that is wrong may fail a job on a node that is not ours -------------------------
  const GateAnswer claim = gate_exclusive_claim(context, conf);
  if (!claim.go()) return end_skipped(context, claim);
  const auto type = run.step("instance type", [&] { return gate_instance_type(context, options.gate, deadline); });
  if (!type) return failed(type.error());
  if (!type->go()) return end_skipped(context, *type);
  // A missing job id is told further down: what is read of the job here only says who the others are.
  const auto job = slurm::read_job(host.environment);
  if (job) progress.job = *job;
  progress.job.node_name = host.environment.get_or("SLURMD_NODENAME", "");
  const GateAnswer alone = gate_exclusive_look(context, conf, progress.job, deadline);
  if (!alone.go()) return end_skipped(context, alone);
  run.log().info("Job is exclusive, proceeding with IMEX configuration (" + claim.why + ")");
  auto units = open_units(context, whole);
  if (!units) return failed(units.error());
  progress.units = std::move(*units);
  const auto unit = run.step("unit", [&] { return gate_unit(*progress.units, options.gate.unit); });
  if (!unit) return failed(unit.error());
  if (!unit->go()) return end_skipped(context, *unit);
  if (config_error) return failed(*config_error);

  // --- surroundings --------------------------------------------------------------------------------------
  if (!host.processes.is_root() && !context.dry_run()) {
    return failed(
        {ExitCode::surroundings, "not run as root", "slurmd runs a Prolog as root; by hand use sudo, or --dry-run"});
  }
  if (!job) return failed(job.error());
  run.log().debug("time limit " + base::show_duration(time.limit) + " (" + time.because + ")");
  if (!job->het_job_id.empty()) {
    run.log().warn("job " + job->id + " is a component of the het job " + base::printable(job->het_job_id, 40) +
                   ": its domain holds this component's nodes only");
  }

  // --- lock ----------------------------------------------------------------------------------------------
  auto lock = run.step("lock", [&] { return lock_node(context, *job, whole.less(site::lock_reserve).left()); });
  if (!lock) return failed(lock.error());
  const GateAnswer still_alone = gate_exclusive_look(context, conf, *job, deadline);
  if (!still_alone.go()) return end_skipped(context, still_alone);
  bool epilog_stopped_it = false;
  const auto met = run.step(
      "unit before", [&] { return finish_dead_run(context, *progress.units, options.gate.unit, epilog_stopped_it); });
  if (!met) return failed(met.error());

  // --- channel, peers ------------------------------------------------------------------------------------
  const auto channel = run.step("channel", [&]() -> base::Result<imex::Channel> {
    if (conf && slurm::switch_makes_channels(*conf)) return imex::Channel{imex::Channel::Outcome::left_to_slurm, 0, ""};
    return imex::ensure_channel(host.files, run.log());
  });
  if (!channel) return failed(channel.error());
  const auto daemon_config =
      run.step("daemon config", [&] { return imex::read_daemon_config(host.files, std::string(site::imex_config)); });
  if (!daemon_config) return failed(daemon_config.error());
  progress.daemon_config = *daemon_config;
  auto ctl = open_ctl(context, *daemon_config);
  if (!ctl) return failed(ctl.error());
  const auto block = run.step("block", [&] { return find_block(context, options, *job, conf, deadline); });
  if (!block) return failed(block.error());
  progress.block_nodes = block->decision.nodes;
  const auto peers = run.step("peers", [&] { return find_peers(context, options, *job, *block, deadline); });
  if (!peers) return failed(peers.error());
  const std::string list = imex::render_nodes_config(peers->addresses());
  run.log().info("Node Names: " + base::printable(base::join(peers->nodes(), " "), 4000));
  run.log().info("Node IPs: " + base::join(peers->addresses(), " "));
  run.log().info("IMEX Nodes Config: " + daemon_config->nodes_config);
  const auto place = run.step(
      "list place", [&] { return imex::check_nodes_config_place(host.files, daemon_config->nodes_config, list); });
  if (!place) return failed(place.error());

  const auto stray = run.step(
      "stray daemon", [&] { return imex::check_no_stray_daemon(host.files, host.network, *daemon_config, *met); });
  if (!stray) return failed(stray.error());

  // --- stop, write, start --------------------------------------------------------------------------------
  imex::State state;
  state.run = identity_of(*job);
  state.boot_id = imex::read_boot_id(host.files);
  state.unit = options.gate.unit;
  state.nodes_config = daemon_config->nodes_config;
  state.addresses = peers->addresses();
  state.prolog_pid = host.processes.self();
  const auto noted = run.step("state", [&] { return imex::write_state(host.files, state); });
  if (!noted) return failed(noted.error());
  if (host::stopping()) return failed({ExitCode::time_out, "interrupted by a signal", ""});
  const auto stop_begin = host.clock.now();
  const auto stopped = run.step(
      "stop", [&] { return progress.units->stop_and_wait(options.gate.unit, deadline, options.stop_timeout); });
  progress.stopped = true;
  if (!stopped) return failed(stopped.error());
  progress.restart_cost = since(context, stop_begin);
  if (options.drop_persist) {
    const auto dropped = run.step("persist.dat", [&] { return drop_persist(context, *stopped); });
    if (!dropped) return failed(dropped.error());
  }
  const auto written =
      run.step("write", [&] { return imex::write_nodes_config(host.files, daemon_config->nodes_config, list); });
  if (!written) return failed(written.error());
  const bool look_at_domain = options.wait_domain != WaitDomain::off && ctl->unusable_because.empty();
  const imex::DomainTask domain_task{peers->nodes(), peers->addresses(), peers->own, daemon_config->command_port,
                                     // A dry run imagines the domain: nothing has to settle.
                                     epilog_stopped_it || context.dry_run() ? site::milliseconds(0) : options.settle};
  site::milliseconds waited_for_peers{0};
  if (look_at_domain && peers->peers.size() > 1) {
    const auto asked_at = host.clock.now();
    // The domain wait gives way to the start: what is waited here must never be what the start lacks.
    const site::milliseconds budget = std::min(options.domain_timeout / 2, deadline.left() / share_of_release_wait);
    const auto released = run.step("peers' daemons", [&]() -> base::Result<imex::Released> {
      return imex::await_peers_released(*ctl->ctl, host.clock, run.log(), domain_task,
                                        domain_limit(context, budget, conf, begin, deadline).deadline);
    });
    if (!released) return failed(released.error());
    waited_for_peers = since(context, asked_at);
  }
  if (host::stopping()) return failed({ExitCode::time_out, "interrupted by a signal", ""});
  const auto start_begin = host.clock.now();
  const auto started = run.step(
      "start", [&] { return progress.units->start_and_confirm(options.gate.unit, deadline, options.start_timeout); });
  if (!started) return failed(started.error());

  // --- ready ---------------------------------------------------------------------------------------------
  imex::ReadyTask ready_task{options.gate.unit, *started, daemon_config->server_port, ctl->unusable_because};
  const auto ready = run.step("ready", [&] {
    return imex::await_ready(*ctl->ctl, *progress.units, host.processes, host.network, host.clock, run.log(),
                             ready_task, deadline.within(options.ready_timeout));
  });
  if (!ready) return failed(ready.error());
  progress.restart_cost += since(context, start_begin);
  state.phase = imex::Phase::started;
  state.main_pid = ready->daemon.main_pid;
  state.main_start_time = ready->daemon.main_start_time;
  const auto kept = run.step("state", [&] { return imex::write_state(host.files, state); });
  if (!kept) return failed(kept.error());
  progress.ours_runs = true;
  lock->reset();

  // --- domain: Slurm gives no barrier between nodes, this wait keeps a job off a half-built domain ---------
  const std::string nodes = base::counted(peers->peers.size(), "node");
  if (!look_at_domain) {
    run.report().summary = "IMEX is started on this node with a list of " + nodes + "; the domain was not looked at";
    return 0;
  }
  const auto domain_begin = host.clock.now();
  const site::milliseconds budget = options.domain_timeout - std::min(options.domain_timeout, waited_for_peers);
  const DomainLimit limit = domain_limit(context, budget, conf, begin, deadline);
  const DomainLimit last = domain_limit(context, budget + domain_task.settle, conf, begin, deadline);
  const imex::DomainHands hands{
      [&] { return restart_own_daemon(context, progress, options, state, *ctl->ctl, ready_task, deadline); },
      [&] { return is_still_ours(context, progress, state); }};
  const auto domain = run.step("domain", [&] {
    return imex::await_domain(*ctl->ctl, host.clock, run.log(), domain_task, hands, limit.deadline, last.deadline);
  });
  if (!domain) return failed(domain.error());
  if (host::stopping()) return failed({ExitCode::time_out, "interrupted by a signal", ""});
  if (domain->up) {
    run.report().summary = "IMEX domain of " + nodes + " is UP";
    return 0;
  }
  if (domain->ended) {
    run.report().summary = "the job has ended meanwhile: " + domain->told;
    return 0;
  }
  const std::string waited = "waited " + base::show_duration(waited_for_peers + since(context, domain_begin)) +
                             (limit.cut_by.empty() ? "" : " only, cut short by " + limit.cut_by);
  Error not_up{domain->mismatch ? ExitCode::change : ExitCode::time_out,
               "the IMEX domain of " + nodes + " is not up on this node (" + waited + "): " + domain->told,
               domain->mismatch
                   ? "a node map mismatch lasts until both sides restart with one list: `gpu-prolog validate imex` on "
                     "the nodes named"
               : domain->versions_differ
                   ? "nodes of one domain need the same nvidia-imex (and driver): install one version on all of them, "
                     "in the AMI; `gpu-prolog validate imex` shows which node has which"
                   : "run `gpu-prolog validate imex` on the nodes named; see their /var/log/nvidia-imex-prolog.log",
               base::Blame::shared};
  if (options.wait_domain == WaitDomain::require) return failed(not_up);
  run.log().warn(flow::one_line(not_up));
  run.report().summary = "IMEX is ready on this node with a list of " + nodes + ", but " + not_up.what;
  return 0;
}

}  // namespace commands
