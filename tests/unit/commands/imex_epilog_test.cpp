// imex-epilog as a whole: it ends what this run's prolog began, and nothing else; it fails only for a daemon that will
// not die.
#include "commands/imex_epilog.h"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <csignal>

#include "host/interrupt.h"
#include "imex_node.h"

using commands::EpilogMode;
using namespace imex_node;

namespace {

commands::ImexEpilogOptions with(EpilogMode mode) {
  commands::ImexEpilogOptions options;
  options.mode = mode;
  return options;
}

// Exit 0 without a lock, a change or a child, and the reason in the last word.
void check_nothing_to_do(Node& node, const std::string& why, const commands::ImexEpilogOptions& options = {}) {
  CHECK(node.epilog(options) == 0);
  CHECK(node.files.changes.empty());
  CHECK(node.tools.calls.empty());
  CHECK(node.locks.holders.empty());
  CHECK(node.http.calls.empty());
  CHECK_FALSE(node.report.error);
  INFO(node.report.summary);
  CHECK(node.report.summary.find(why) != std::string::npos);
  CHECK(node.logged("INFO", why));
}

}  // namespace

// --- nothing to do -----------------------------------------------------------------------------------------

TEST_CASE("a job that was not exclusive had no domain") {
  Node node;
  node.noted(Phase::started);
  node.environment["SLURM_JOB_EXCLUSIVE"] = "NO";
  check_nothing_to_do(node, "nothing to do: the job is not exclusive");
}

TEST_CASE("without a prolog's state there is nothing to end, also for a daemon that somebody else started") {
  Node node;
  check_nothing_to_do(node, "no prolog of gpu-prolog made a domain here since the boot");
}

TEST_CASE("a state of another boot is none") {
  Node node;
  node.noted(Phase::started);
  node.files.file("/proc/sys/kernel/random/boot_id", "8a9f0c6e-0000-4000-8000-000000000002\n");
  check_nothing_to_do(node, "since the boot");
}

TEST_CASE("with a damaged state nobody knows whose daemon runs: it is left alone, and the log says so and what to do") {
  Node node;
  SECTION("no JSON") { node.files.file(state_path, "{"); }
  SECTION("of somebody else") { node.noted(Phase::started).files.tree.at(state_path).status.uid = 1000; }
  CHECK(node.epilog() == 0);
  CHECK(node.files.changes.empty());
  CHECK(node.tools.calls.empty());
  CHECK(node.locks.holders.empty());
  CHECK(node.report.summary.starts_with("nothing is stopped: the state file " + state_path + " is damaged: "));
  CHECK(node.report.summary.ends_with(", so nobody knows whose daemon runs here"));
  CHECK(node.logged("WARN", "by hand, once no job runs here: `systemctl stop nvidia-imex`"));
}

TEST_CASE("only the list that the daemon's own config names is emptied, wherever the state says that it was") {
  Node node;
  node.noted(Phase::started);
  imex::State state = *node.state();
  state.nodes_config = "/etc/passwd";
  node.files.file(state_path, imex::render_state(state)).file("/etc/passwd", "root\n");
  CHECK(node.epilog() == 0);
  CHECK(node.list_has_no_nodes());
  CHECK_FALSE(node.changed("replace /etc/passwd"));
  CHECK(node.logged("WARN", "the prolog wrote the node list /etc/passwd, but the daemon's config names " + list_path));

  Node moved;
  moved.noted(Phase::started);
  moved.files.file("/etc/nvidia-imex/config.cfg", "IMEX_NODE_CONFIG_FILE=/etc/nvidia-imex/other.cfg\n");
  CHECK(moved.epilog() == 0);
  CHECK(moved.changed("replace /etc/nvidia-imex/other.cfg"));
  CHECK(moved.list() == old_list);
}

TEST_CASE("another job's domain, or another run's of this job, is let alone") {
  Node other;
  other.noted(Phase::started, "8");
  check_nothing_to_do(other, "the domain on this node is of job 8, not of this run");

  Node rerun;
  rerun.noted(Phase::started);
  imex::State state = *rerun.state();
  state.run = {"7", "", "2", "200"};
  rerun.files.file(state_path, imex::render_state(state));
  rerun.environment["SLURM_JOB_RESTART_COUNT"] = "1";
  rerun.environment["SLURM_JOB_START_TIME"] = "100";
  check_nothing_to_do(rerun, "the domain on this node is of job 7 (restart 2), not of this run");
}

TEST_CASE("twice is harmless") {
  Node node;
  node.noted(Phase::started);
  CHECK(node.epilog() == 0);
  node.files.changes.clear();
  node.tools.calls.clear();
  node.locks.holders.clear();
  check_nothing_to_do(node, "the domain of this job is ended already");
}

TEST_CASE("with --mode=keep nothing is stopped") {
  Node node;
  node.noted(Phase::started);
  check_nothing_to_do(node, "domain kept as it is", with(EpilogMode::keep));
}

// --- not ours any more -------------------------------------------------------------------------------------

TEST_CASE("a next job's prolog that was faster is not disturbed") {
  Node node;
  node.noted(Phase::started);
  node.locks.taken = [&] { node.noted(Phase::changing, "8"); };
  CHECK(node.epilog() == 0);
  CHECK_FALSE(node.changed("systemctl"));
  CHECK(node.list() == old_list);
  CHECK(node.report.summary == "nothing to do: another run has taken over meanwhile");
}

TEST_CASE("a daemon that somebody restarted is not the prolog's") {
  for (const std::uint64_t started : {std::uint64_t{500}, std::uint64_t{501}}) {
    Node node;
    node.noted(Phase::started, "7", started == 500 ? 699 : 700, started);  // another pid, or a pid used anew
    CHECK(node.epilog() == 0);
    CHECK_FALSE(node.changed("systemctl"));
    CHECK(node.tools.living.contains(700));
    CHECK(node.list() == old_list);
    CHECK(node.logged("WARN", "runs another daemon (pid 700) than this job's prolog started"));
  }
}

// --- failures ----------------------------------------------------------------------------------------------

TEST_CASE("a daemon that will not die drains the node, and its list is not written") {
  Node node;
  node.noted(Phase::started);
  node.tools.scripted[stop] = fakes::timed_out();
  node.tools.scripted[kill_it] = fakes::exited(0);
  CHECK(node.epilog() == 5);
  CHECK(node.list() == old_list);
  CHECK(node.state()->phase == Phase::started);
  REQUIRE(node.report.error);
  CHECK(node.report.error->what.find("cannot be stopped, not even by KILL") != std::string::npos);
  CHECK(node.took() <= 60s);
}

TEST_CASE("every other failure leaves the node in service, and is in the log") {
  Node node;
  node.noted(Phase::started);
  std::string what;
  SECTION("not root") {
    node.tools.root = false;
    what = "not run as root";
  }
  SECTION("no job id") {
    node.environment.erase("SLURM_JOB_ID");
    what = "SLURM_JOB_ID is not set";
  }
  SECTION("no systemctl") {
    node.without_tool("systemctl");
    what = "systemctl is not there";
  }
  SECTION("the lock stays held") {
    node.locks.held_by = "imex-prolog of job 8, pid 5";
    what = "held by imex-prolog of job 8, pid 5";
  }
  SECTION("systemd does not tell the unit's state") {
    node.tools.scripted
        ["systemctl show nvidia-imex --property=ActiveState,SubState,Result,MainPID,ControlPID,Job,ControlGroup"] =
        fakes::timed_out();
    node.tools.scripted["systemctl is-active nvidia-imex"] = fakes::timed_out();
    what = "does not tell the state of unit nvidia-imex";
  }
  SECTION("the list cannot be emptied") {
    node.files.fail_change(list_path, EROFS);
    what = "cannot write the IMEX node list";
  }
  CHECK(node.epilog() == 0);
  CHECK_FALSE(node.report.error);
  CHECK(node.report.summary.starts_with("failed: "));
  CHECK(node.logged("ERROR", what));
  CHECK(node.logged("WARN", "the node stays in service all the same"));
}

TEST_CASE("a lock is waited for 20 s and no longer, or what the run has left") {
  Node node;
  node.noted(Phase::started);
  node.locks.held_by = "imex-prolog of job 8, pid 5";
  CHECK(node.epilog() == 0);
  CHECK(node.took() == 20s);
  Node hurried;
  hurried.noted(Phase::started).conf("EpilogTimeout=15\n");
  hurried.locks.held_by = "imex-prolog of job 8, pid 5";
  CHECK(hurried.epilog() == 0);
  CHECK(hurried.took() == 10s);
}

TEST_CASE("a daemon that is stopped though its list cannot be emptied is stopped") {
  Node node;
  node.noted(Phase::started);
  node.files.fail_change(list_path, EROFS);
  CHECK(node.epilog() == 0);
  CHECK(node.tools.main_pid == 0);
  CHECK(node.state()->phase == Phase::stopped);
}

TEST_CASE("a state that cannot be written is a warning: the next prolog does not rely on it") {
  Node node;
  node.noted(Phase::started);
  node.files.fail_change(state_path, ENOSPC);
  CHECK(node.epilog() == 0);
  CHECK(node.tools.main_pid == 0);
  CHECK(node.list_has_no_nodes());
  CHECK(node.logged("WARN", "the state file still says that the domain runs"));
}

TEST_CASE("a daemon that had to be killed is ended, and the node stays in service") {
  Node node;
  node.noted(Phase::started);
  node.tools.scripted[stop] = fakes::timed_out();
  CHECK(node.epilog() == 0);
  CHECK(node.tools.main_pid == 0);
  CHECK(node.list_has_no_nodes());
  CHECK(node.changed(kill_it));
}

TEST_CASE("a broken config file is told, and the defaults end the domain all the same") {
  Node node;
  node.noted(Phase::started);
  CHECK(node.epilog({}, base::Error{base::ExitCode::usage, "config file is broken", "mend it"}) == 0);
  CHECK(node.logged("ERROR", "config file is broken; mend it; going on with the built-in defaults"));
  CHECK(node.list_has_no_nodes());
}

TEST_CASE("a broken config file is not told where there is nothing to do") {
  Node node;
  CHECK(node.epilog({}, base::Error{base::ExitCode::usage, "config file is broken", "mend it"}) == 0);
  CHECK_FALSE(node.log.has("config file is broken"));
}

TEST_CASE("a stop signal is exit 143") {
  Node node;
  node.noted(Phase::started);
  host::catch_stop_signals();
  node.tools.effect = [&](const std::string& line) {
    if (line != stop) return;
    host::Exit exit;
    exit.ending = host::Exit::Ending::interrupted;
    node.tools.scripted[stop] = exit;
    raise(SIGTERM);
  };
  const int code = node.epilog();
  host::release_stop_signals();
  CHECK(code == 143);
  CHECK(node.list() == old_list);
  CHECK(node.logged("ERROR", "stopped by signal 15"));
}

// --- ending the domain -------------------------------------------------------------------------------------

TEST_CASE("the changes of an epilog, in their order") {
  Node node;
  node.noted(Phase::started);
  CHECK(node.epilog() == 0);
  CHECK(node.files.changes == Journal{"lock", stop, "replace " + list_path, "replace " + state_path, "unlock"});
  CHECK(node.list_has_no_nodes());
  CHECK(node.tools.main_pid == 0);
  CHECK(node.state()->phase == Phase::stopped);
  CHECK(node.report.summary == "domain ended: nvidia-imex is stopped and its node list has no nodes");
  CHECK(node.locks.holders == std::vector<std::string>{"imex-epilog of job 7, pid 4242"});
}

TEST_CASE("an epilog neither asks for the instance type nor needs a node list, scontrol or nvidia-imex-ctl") {
  Node node;
  node.noted(Phase::started);
  node.unknown_type().without_tool("scontrol").without_tool("nvidia-imex-ctl");
  node.environment.erase("SLURM_JOB_NODELIST");
  CHECK(node.epilog() == 0);
  CHECK(node.http.calls.empty());
  CHECK(node.list_has_no_nodes());
}

TEST_CASE("a prolog that was killed half-way is finished by the epilog, a queued job cancelled") {
  Node node;
  node.noted(Phase::changing, "7", 0, 0);
  node.tools.queued_job = 4711;
  CHECK(node.epilog() == 0);
  REQUIRE(node.files.changes.size() > 2);
  CHECK(node.files.changes[1] == "systemctl cancel 4711");
  CHECK(node.files.changes[2] == stop);
  CHECK(node.list_has_no_nodes());
  CHECK(node.tools.main_pid == 0);
}

TEST_CASE("a daemon that died during the job leaves a list to empty") {
  Node node;
  node.noted(Phase::started);
  node.tools.die("failed");
  CHECK(node.epilog() == 0);
  CHECK(node.list_has_no_nodes());
  CHECK(node.state()->phase == Phase::stopped);
}

TEST_CASE("a restart that Slurm has counted before the epilog came does not hide the domain from it") {
  Node node;
  node.noted(Phase::started);
  imex::State state = *node.state();
  state.run = {"7", "", "0", "100"};
  node.files.file(state_path, imex::render_state(state));
  node.environment["SLURM_JOB_RESTART_COUNT"] = "1";
  node.environment["SLURM_JOB_START_TIME"] = "100";
  CHECK(node.epilog() == 0);
  CHECK(node.list_has_no_nodes());
}

TEST_CASE("with --mode=self the daemon runs on with this node's own address") {
  Node node;
  node.is_second();
  node.noted(Phase::started);
  CHECK(node.epilog(with(EpilogMode::self)) == 0);
  CHECK(node.list() == "10.0.0.2\n");
  CHECK(node.tools.main_pid != 0);
  CHECK(node.tools.main_pid != 700);
  CHECK(node.files.changes == Journal{"lock", stop, "replace " + list_path, "replace " + state_path,
                                      "systemctl reset-failed nvidia-imex", start, "unlock"});
}

TEST_CASE("a start that fails with --mode=self is told, and the node stays in service") {
  Node node;
  node.noted(Phase::started);
  node.tools.scripted[start] = fakes::exited(1);
  CHECK(node.epilog(with(EpilogMode::self)) == 0);
  CHECK(node.logged("ERROR", "did not start"));
}

TEST_CASE("what a prolog made its epilog ends") {
  Node node;
  CHECK(node.prolog() == 0);
  CHECK(node.list() == "10.0.0.1\n10.0.0.2\n");
  CHECK(node.epilog() == 0);
  CHECK(node.list_has_no_nodes());
  CHECK(node.tools.main_pid == 0);
  // The next job's prolog needs one look only.
  node.environment["SLURM_JOB_ID"] = "8";
  node.environment["SLURM_SCRIPT_CONTEXT"] = "prolog_slurmd";
  const auto before = node.took();
  CHECK(node.prolog() == 0);
  CHECK(node.took() - before < 1s);
  CHECK(node.state()->run.job_id == "8");
}

TEST_CASE("a dry run of an epilog changes nothing and says what it would") {
  Node node;
  node.noted(Phase::started);
  node.dry_run = true;
  CHECK(node.epilog() == 0);
  CHECK(node.files.changes.empty());
  CHECK(node.tools.living.contains(700));
  CHECK(node.list() == old_list);
  CHECK(node.state()->phase == Phase::started);
  REQUIRE(node.plan.sentences().size() == 3);
  CHECK(node.plan.sentences()[0] == "would stop unit nvidia-imex and wait until it is gone");
  CHECK(node.plan.sentences()[1].starts_with("would replace " + list_path));
  CHECK(node.plan.sentences()[2].starts_with("would replace " + state_path));
}
