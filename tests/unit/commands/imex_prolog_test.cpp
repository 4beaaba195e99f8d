// imex-prolog as a whole: what it does in which order, what each failure exits with, and how it leaves the node.
#include "commands/imex_prolog.h"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <csignal>

#include "host/interrupt.h"
#include "imex_node.h"

using commands::BlameWho;
using commands::OnFailure;
using commands::WaitDomain;
using namespace imex_node;

namespace {

const std::string new_list = "10.0.0.1\n10.0.0.2\n";
commands::ImexPrologOptions with(WaitDomain wait_domain) {
  commands::ImexPrologOptions options;
  options.wait_domain = wait_domain;
  return options;
}

commands::ImexPrologOptions blame_all() {
  commands::ImexPrologOptions options;
  options.blame = BlameWho::all;
  return options;
}

commands::ImexPrologOptions carry_on() {
  commands::ImexPrologOptions options;
  options.on_failure = OnFailure::carry_on;
  return options;
}

// A skip: exit 0, nothing changed, no child that could disturb anything, no error in the report, the reason in the log.
void check_skipped(Node& node, const std::string& level, const std::string& why,
                   const commands::ImexPrologOptions& options = {}) {
  CHECK(node.prolog(options) == 0);
  CHECK(node.nothing_changed());
  CHECK_FALSE(node.report.error);
  CHECK(node.report.summary.starts_with("skipped: "));
  INFO(node.report.summary);
  CHECK(node.logged(level, "Skipping IMEX configuration because "));
  CHECK(node.report.summary.find(why) != std::string::npos);
}

// A failure before the old domain was touched.
void check_failed_untouched(Node& node, int code, const std::string& what,
                            const commands::ImexPrologOptions& options = {}) {
  CHECK(node.prolog(options) == code);
  INFO(node.report.summary);
  CHECK_FALSE(node.changed(stop));
  CHECK(node.tools.living.contains(700));
  CHECK(node.list() == old_list);
  REQUIRE(node.report.error);
  CHECK(node.report.error->what.find(what) != std::string::npos);
  CHECK_FALSE(node.report.error->cure.empty());
  CHECK(node.logged("ERROR", what));
}

// A failure after the stop: no daemon, a list without nodes, no state.
void check_failed_clean(Node& node, int code, const std::string& what,
                        const commands::ImexPrologOptions& options = {}) {
  CHECK(node.prolog(options) == code);
  INFO(node.report.summary);
  CHECK(node.list_has_no_nodes());
  CHECK(node.tools.main_pid == 0);
  CHECK_FALSE(node.state());
  CHECK(node.logged("INFO", "cleaned up: nvidia-imex is stopped, its node list has no nodes"));
  REQUIRE(node.report.error);
  CHECK(node.report.error->what.find(what) != std::string::npos);
}

host::Exit interrupted() {
  host::Exit exit;
  exit.ending = host::Exit::Ending::interrupted;
  return exit;
}

}  // namespace

// --- the gate ----------------------------------------------------------------------------------------------

TEST_CASE("a job that is not exclusive is skipped without a child and without the network") {
  const std::pair<const char*, const char*> rows[] = {
      {"SLURM_JOB_EXCLUSIVE", "NO"}, {"SLURM_JOB_EXCLUSIVE", "USER"},   {"SLURM_JOB_EXCLUSIVE", "MCS"},
      {"SLURM_JOB_EXCLUSIVE", ""},   {"SLURM_JOB_OVERSUBSCRIBE", "OK"}, {"SLURM_JOB_OVERSUBSCRIBE", "YES"}};
  for (const auto& [variable, value] : rows) {
    INFO(variable << "=" << value);
    Node node;
    node.environment.erase("SLURM_JOB_EXCLUSIVE");
    node.environment[variable] = value;
    check_skipped(node, "INFO", "the job is not exclusive");
    CHECK(node.tools.calls.empty());
    CHECK(node.http.calls.empty());
  }
}

TEST_CASE("SLURM_JOB_EXCLUSIVE decides where both are set") {
  Node node;
  node.environment["SLURM_JOB_EXCLUSIVE"] = "NO";
  node.environment["SLURM_JOB_OVERSUBSCRIBE"] = "NO";
  check_skipped(node, "INFO", "SLURM_JOB_EXCLUSIVE=NO");
}

TEST_CASE("a job of which nothing is known is skipped") {
  Node node;
  node.environment.erase("SLURM_JOB_EXCLUSIVE");
  check_skipped(node, "INFO", "not known to be exclusive");
}

TEST_CASE("nothing that is wrong fails a job on a node of another type") {
  Node node;
  node.is_type("p5en.48xlarge");
  node.tools.root = false;
  node.environment.erase("SLURM_JOB_ID");
  node.environment.erase("SLURM_JOB_NODELIST");
  node.without_tool("systemctl").without_tool("scontrol").without_tool("nvidia-imex-ctl");
  node.files.fail_read("/proc/devices", EIO);
  CHECK(node.prolog({}, base::Error{base::ExitCode::usage, "config file is broken", ""}) == 0);
  CHECK(node.nothing_changed());
  CHECK(node.report.summary == "skipped: instance type p5en.48xlarge (IMDS) does not support it");
  CHECK_FALSE(node.log.has("config file is broken"));
  CHECK(node.tools.calls.empty());
}

TEST_CASE("an unknown type is skipped with an ERROR, and fails only where that was asked for") {
  Node node;
  node.unknown_type();
  check_skipped(node, "ERROR", "the instance type of this node is unknown");
  Node asked;
  asked.unknown_type();
  commands::ImexPrologOptions options;
  options.gate.unknown_type_fails = true;
  check_failed_untouched(asked, 4, "the instance type of this node is unknown", options);
}

TEST_CASE("another job's live step is believed against Slurm's word, and is named") {
  Node node;
  node.foreign_job("99");
  check_skipped(node, "ERROR", "job 99, process 555");
  CHECK(node.took() >= 5s);  // it was given time to end
  CHECK(node.tools.calls.empty());
}

TEST_CASE("what another job's step has left of itself does not count once its processes are dead") {
  Node node;
  node.foreign_job("99");
  node.tools.living.erase(555);
  CHECK(node.prolog() == 0);
  CHECK(node.list() == new_list);
}

TEST_CASE("a unit that nobody enabled is skipped with a warning") {
  for (const char* word : {"disabled", "masked", "not-found", "linked"}) {
    Node node;
    node.tools.enabled = word;
    check_skipped(node, "WARN", std::string("is not enabled (") + word + ")");
  }
}

TEST_CASE("a unit that is masked or not installed is not told to be enabled only") {
  const std::pair<const char*, const char*> cures[] = {
      {"disabled", "; `systemctl enable nvidia-imex` in the AMI"},
      {"masked", "; `systemctl unmask nvidia-imex`, then `systemctl enable nvidia-imex` in the AMI"},
      {"masked-runtime", "; `systemctl unmask --runtime nvidia-imex`, then `systemctl enable nvidia-imex` in the AMI"},
      {"not-found", "; install the nvidia-imex package of the driver's version, then `systemctl enable nvidia-imex`"},
      {"bad", "; mend its unit file (`systemd-analyze verify nvidia-imex.service`), then "},
      {"transient", "; install its unit file"},
  };
  for (const auto& [word, cure] : cures) {
    Node node;
    node.tools.enabled = word;
    check_skipped(node, "WARN", cure);
  }
}

TEST_CASE("a systemd that does not answer fails this node") {
  Node node;
  node.tools.scripted["systemctl is-enabled nvidia-imex"] = fakes::timed_out();
  check_failed_untouched(node, 5, "gave no answer");
}

TEST_CASE("without systemctl the surroundings are not as needed") {
  Node node;
  node.without_tool("systemctl");
  check_failed_untouched(node, 3, "systemctl is not there");
}

TEST_CASE("a broken config file is told only where the gate says go") {
  Node node;
  CHECK(node.prolog({}, base::Error{base::ExitCode::usage, "config file is broken", "mend it"}) == 2);
  CHECK(node.nothing_changed());
  CHECK(node.logged("ERROR", "config file is broken; mend it"));
  Node skipped;
  skipped.tools.enabled = "disabled";
  CHECK(skipped.prolog({}, base::Error{base::ExitCode::usage, "config file is broken", "mend it"}) == 0);
  CHECK_FALSE(skipped.log.has("config file is broken"));
}

// --- surroundings ------------------------------------------------------------------------------------------

TEST_CASE("what slurmd would have told is missing: exit 3, nothing changed") {
  std::string what;
  Node node;
  SECTION("root") {
    node.tools.root = false;
    what = "not run as root";
  }
  SECTION("job id") {
    node.environment.erase("SLURM_JOB_ID");
    what = "SLURM_JOB_ID is not set";
  }
  SECTION("node name") {
    node.environment.erase("SLURMD_NODENAME");
    what = "SLURMD_NODENAME is not set";
  }
  SECTION("node list") {
    node.environment.erase("SLURM_JOB_NODELIST");
    what = "NODELIST";
  }
  SECTION("this node in the node list") {
    node.environment["SLURM_JOB_NODELIST"] = "ultra-[2-3]";
    what = "ultra-1";
  }
  SECTION("scontrol") {
    node.without_tool("scontrol");
    what = "scontrol is not there";
  }
  check_failed_untouched(node, 3, what);
}

TEST_CASE("by hand, beside a running job, nothing is done without force") {
  Node node;
  node.environment["SLURM_JOB_ID"] = "99";
  node.foreign_job("99");  // to a person the job's own step is one that runs here, too
  CHECK(node.prolog_by_hand({}) == 3);
  CHECK(node.nothing_changed());
  CHECK(node.log.has("run by hand while job 99, process 555"));
  commands::ImexPrologOptions forced;
  forced.force = true;
  CHECK(node.prolog_by_hand(forced) == 0);
  CHECK(node.list() == new_list);
}

// --- lock --------------------------------------------------------------------------------------------------

TEST_CASE("a lock that stays held runs out of time, naming the holder; what is left of the run was not spent") {
  Node node;
  node.locks.held_by = "imex-epilog of job 6, pid 5";
  check_failed_untouched(node, 6, "held by imex-epilog of job 6, pid 5");
  CHECK(node.locks.limits == std::vector<host::milliseconds>{60s});  // 150 s less 90 s
}

TEST_CASE("we say who holds the lock") {
  Node node;
  CHECK(node.prolog() == 0);
  CHECK(node.locks.holders == std::vector<std::string>{"imex-prolog of job 7, pid 4242"});
}

TEST_CASE("a job that came while we waited for the lock is seen: the node is looked at again under it") {
  Node node;
  node.locks.taken = [&] {
    node.files.changes.emplace_back("lock");
    node.foreign_job("99");
  };
  check_skipped(node, "ERROR", "job 99, process 555");
  CHECK(node.files.changes == Journal{"lock", "unlock"});
}

// --- before the stop: the old domain is not touched --------------------------------------------------------

TEST_CASE("no channel driver: the guide's advice, and the daemon goes on") {
  Node node;
  node.files.file("/proc/devices", "Character devices:\n195 nvidia\n");
  check_failed_untouched(node, 5, "no IMEX channel device");
  CHECK(node.report.error->cure.find("nvidia-smi") != std::string::npos);
}

TEST_CASE("a local fault before the stop fails this node, whichever it is in the list") {
  std::string what;
  Node node;
  node.is_second();
  SECTION("config.cfg") {
    node.files.file("/etc/nvidia-imex/config.cfg", "SERVER_PORT=x\n");
    what = "SERVER_PORT=x";
  }
  SECTION("the list on a network file system") {
    node.files.on_network("/etc/nvidia-imex");
    what = "network file system";
  }
  SECTION("a full disk") {
    node.files.fail_rehearsal(list_path, ENOSPC);
    what = "No space left on device";
  }
  SECTION("own address missing") {
    node.network.addresses = {"127.0.0.1", "10.9.9.9"};
    what = "none of this host's own addresses";
  }
  SECTION("a stray daemon") {
    node.files.link("/proc/815/exe", "/usr/bin/nvidia-imex")
        .link("/proc/815/ns/net", "net:[1]")
        .link("/proc/815/ns/mnt", "mnt:[2]");
    what = "a daemon outside the unit runs: process 815";
  }
  SECTION("the state cannot be noted") {
    node.files.fail_change(state_path, ENOSPC);
    what = "No space left on device";
  }
  check_failed_untouched(node, 5, what);
}

TEST_CASE("a disk that is full is found before the daemon is stopped") {
  Node node;
  node.files.fail_rehearsal(list_path, ENOSPC);
  CHECK(node.prolog() == 5);
  CHECK(node.tools.living.contains(700));
  CHECK_FALSE(node.changed("systemctl"));
  CHECK_FALSE(node.changed("replace"));
}

// --- faults that every node of the block sees alike --------------------------------------------------------

namespace {

// Each sets a fault up that both nodes see.
struct SharedFault {
  const char* name;
  int code;
  void (*set_up)(Node&);
};

const SharedFault shared_faults[] = {
    {"unknown node", 4,
     [](Node& node) {
       node.tools.node_addresses.erase("ultra-2");
       node.tools.scripted["scontrol -ao show node ultra-[1-2]"] = fakes::exited(1, "Node ultra-2 not found\n");
     }},
    {"two nodes with one address", 4,
     [](Node& node) {
       node.tools.node_addresses["ultra-1"] = "10.0.0.3";
       node.tools.node_addresses["ultra-2"] = "10.0.0.3";
     }},
    {"a loopback address", 4, [](Node& node) { node.tools.node_addresses["ultra-2"] = "127.0.0.1"; }},
    {"more nodes than a domain takes, and no block map", 5,
     [](Node& node) { node.environment["SLURM_JOB_NODELIST"] = "ultra-[1-19]"; }},
    {"a node list that cannot be read", 3, [](Node& node) { node.environment["SLURM_JOB_NODELIST"] = "ultra-[1-"; }},
};

}  // namespace

TEST_CASE("a shared fault fails on the first node only, and is an ERROR in every log") {
  for (const SharedFault& fault : shared_faults) {
    INFO(fault.name);
    Node first;
    fault.set_up(first);
    CHECK(first.prolog() == fault.code);
    CHECK(first.report.error);
    CHECK(first.tools.living.contains(700));

    Node second;
    second.is_second();
    fault.set_up(second);
    CHECK(second.prolog() == 0);
    CHECK_FALSE(second.report.error);
    CHECK(second.logged("ERROR", first.report.error->what));
    CHECK(second.logged("ERROR", "node ultra-1 fails for it, this node does not (--blame=first)"));
    CHECK(second.report.summary.starts_with("failed, told by node ultra-1: "));

    Node all;
    all.is_second();
    fault.set_up(all);
    CHECK(all.prolog(blame_all()) == fault.code);
  }
}

TEST_CASE("a node that is not blamed does not let the job meet another job's domain") {
  Node node;
  node.is_second();
  shared_faults[0].set_up(node);
  CHECK(node.prolog() == 0);
  CHECK(node.tools.main_pid == 0);
  CHECK(node.list_has_no_nodes());
  CHECK(node.logged("WARN", "holds another job's node list"));
}

// --- stop, write, start ------------------------------------------------------------------------------------

TEST_CASE("a daemon that will not die fails the node, and its list is not written while it lives") {
  Node node;
  node.tools.scripted[stop] = fakes::timed_out();
  node.tools.scripted[kill_it] = fakes::exited(0);
  CHECK(node.prolog() == 5);
  CHECK(node.list() == old_list);
  CHECK(node.tools.living.contains(700));
  REQUIRE(node.report.error);
  CHECK(node.report.error->what.find("cannot be stopped, not even by KILL") != std::string::npos);
  CHECK(node.logged("ERROR", "cleaning up: "));
  CHECK_FALSE(node.changed(start));
  CHECK(node.state()->phase == Phase::changing);  // for the next run
  CHECK(node.took() <= 150s);
}

TEST_CASE("a list that cannot be written after the stop: no daemon is started") {
  Node node;
  node.files.fail_change(list_path, ENOSPC);
  CHECK(node.prolog() == 5);
  CHECK(node.tools.main_pid == 0);
  CHECK_FALSE(node.changed(start));
  CHECK(node.logged("ERROR", "cleaning up: "));
}

TEST_CASE("a start that fails leaves no domain behind") {
  Node node;
  node.tools.scripted[start] = fakes::exited(1, "", "Job for nvidia-imex.service failed.\n");
  check_failed_clean(node, 5, "unit nvidia-imex did not start: exit 1");
}

TEST_CASE("a start that hangs runs out of time, and is cancelled") {
  Node node;
  node.tools.scripted[start] = fakes::timed_out();
  check_failed_clean(node, 6, "did not start within 60 s");
  const auto& changes = node.files.changes;
  const auto begun = std::find(changes.begin(), changes.end(), start);
  CHECK(std::find(begun, changes.end(), stop) != changes.end());
}

TEST_CASE("a start that succeeded without a daemon is no start") {
  Node node;
  node.tools.scripted[start] = fakes::exited(0);
  check_failed_clean(node, 5, "no daemon lives in the unit");
}

TEST_CASE("a daemon that does not get READY runs out of time") {
  Node node;
  node.tools.status = "INIT_GPU";
  check_failed_clean(node, 6, "is not READY after 30 s: it says INIT_GPU");
}

TEST_CASE("a daemon that dies while it gets ready is a failed change") {
  Node node;
  node.tools.status = "INIT_GPU";
  node.tools.effect = [&](const std::string& line) {
    if (line == "nvidia-imex-ctl -q" && node.took() > 2s && node.tools.main_pid != 0) node.tools.die("failed");
  };
  check_failed_clean(node, 5, "died after its start");
}

TEST_CASE("everything hangs: the run still ends in time, and slurmd's own limit is kept") {
  for (const char* conf : {"", "PrologTimeout=30\n", "PrologTimeout=90\n"}) {
    INFO(conf);
    Node node;
    node.conf(conf);
    node.tools.scripted[stop] = fakes::timed_out();
    node.tools.scripted[start] = fakes::timed_out();
    node.tools.scripted["scontrol getaddrs ultra-[1-2]"] = fakes::timed_out();
    node.tools.scripted["scontrol -ao show node ultra-[1-2]"] =
        fakes::exited(0, "NodeName=ultra-1 NodeAddr=10.0.0.1\nNodeName=ultra-2 NodeAddr=10.0.0.2\n");
    node.tools.effect = [&](const std::string& line) {
      if (line == kill_it) node.tools.die("failed");
    };
    CHECK(node.prolog() != 0);
    const host::milliseconds limit = std::string(conf).empty()                   ? 150s
                                     : std::string(conf) == "PrologTimeout=30\n" ? 25s
                                                                                 : 85s;
    CHECK(node.took() <= limit);
  }
}

// --- --on-failure=continue ---------------------------------------------------------------------------------

TEST_CASE("with continue a failure is logged alike, and the job goes on without another job's domain") {
  Node node;
  node.files.file("/proc/devices", "Character devices:\n195 nvidia\n");
  CHECK(node.prolog(carry_on()) == 0);
  CHECK_FALSE(node.report.error);
  CHECK(node.logged("ERROR", "no IMEX channel device"));
  CHECK(node.logged("WARN", "the job goes on all the same (--on-failure=continue)"));
  CHECK(node.tools.main_pid == 0);
  CHECK(node.list_has_no_nodes());
}

TEST_CASE("with continue a daemon that holds this very run's list is left") {
  Node node;
  node.noted(Phase::started);
  node.files.file("/proc/devices", "Character devices:\n195 nvidia\n");
  CHECK(node.prolog(carry_on()) == 0);
  CHECK_FALSE(node.changed(stop));
  CHECK(node.tools.living.contains(700));
}

TEST_CASE("with continue a failed start leaves no domain, and exits 0") {
  Node node;
  node.tools.scripted[start] = fakes::exited(1);
  CHECK(node.prolog(carry_on()) == 0);
  CHECK(node.list_has_no_nodes());
  CHECK(node.report.summary.starts_with("failed, the job goes on (--on-failure=continue): "));
}

// --- the domain --------------------------------------------------------------------------------------------

TEST_CASE("a domain that is not up in time is a warning that names the peers") {
  Node node;
  node.tools.dead_peers = {"10.0.0.2"};
  CHECK(node.prolog() == 0);
  CHECK_FALSE(node.report.error);
  CHECK(node.logged(
      "WARN", "the IMEX domain of 2 nodes is not up on this node (waited 60 s): ultra-2 (10.0.0.2) is UNAVAILABLE"));
  CHECK(node.list() == new_list);
  CHECK(node.tools.main_pid != 0);
  CHECK(node.state()->phase == Phase::started);
}

TEST_CASE("under require the domain fails by the blame rule") {
  Node first;
  first.tools.dead_peers = {"10.0.0.2"};
  check_failed_clean(first, 6, "ultra-2 (10.0.0.2) is UNAVAILABLE", with(WaitDomain::require));

  Node second;
  second.is_second();
  second.tools.dead_peers = {"10.0.0.1"};
  CHECK(second.prolog(with(WaitDomain::require)) == 0);
  CHECK(second.logged("ERROR", "ultra-1 (10.0.0.1) is UNAVAILABLE"));
  CHECK(second.list() == new_list);
}

TEST_CASE("a lasting mismatch under require is a failed change, not a time-out") {
  Node node;
  node.tools.dead_peers = {"10.0.0.2"};
  node.tools.dead_status = "READY";
  node.tools.link = "NODE_MAP_MISMATCH";
  check_failed_clean(node, 5, "!M!", with(WaitDomain::require));
}

TEST_CASE("with NoHold the domain wait ends before srun gives up, and the setting is named") {
  Node node;
  node.conf("PrologFlags=Alloc,NoHold\n");
  node.tools.dead_peers = {"10.0.0.2"};
  CHECK(node.prolog() == 0);
  CHECK(node.took() <= 17s);
  CHECK(node.logged("WARN", "cut short by PrologFlags=NoHold with MessageTimeout 10 s and BatchStartTimeout 10 s"));
}

TEST_CASE("a domain wait that PrologTimeout cuts short is no time-out under warn") {
  Node node;
  node.conf("PrologTimeout=45\n");
  node.tools.dead_peers = {"10.0.0.2"};
  CHECK(node.prolog() == 0);
  CHECK(node.took() <= 40s);
  CHECK(node.logged("WARN", "is not up on this node"));
}

TEST_CASE("a daemon that dies during the domain wait fails the node") {
  Node node;
  node.tools.dead_peers = {"10.0.0.2"};
  node.tools.effect = [&](const std::string& line) {
    if (line == "nvidia-imex-ctl -N -j" && node.took() > 10s && node.tools.main_pid != 0) node.tools.die("failed");
  };
  check_failed_clean(node, 5, "died after its start");
}

TEST_CASE("an epilog that ended the domain meanwhile ends the wait, and its work is not undone") {
  Node node;
  node.tools.dead_peers = {"10.0.0.2"};
  node.tools.effect = [&](const std::string& line) {
    if (line != "nvidia-imex-ctl -N -j" || node.took() < 10s) return;
    node.noted(Phase::stopped);
    node.files.file(list_path, imex::render_empty_nodes_config());
  };
  CHECK(node.prolog() == 0);
  CHECK(node.report.summary.find("the job's epilog has ended the domain") != std::string::npos);
  CHECK(node.took() < 15s);
  CHECK(node.list_has_no_nodes());
}

TEST_CASE("without the command service only the process and its port are looked at") {
  Node node;
  node.files.file("/etc/nvidia-imex/config.cfg", "IMEX_CMD_ENABLED=0\n");
  node.tools.effect = [&](const std::string& line) {
    if (line == start) node.network.ports = {50000};
  };
  CHECK(node.prolog() == 0);
  CHECK(node.logged("WARN", "cannot ask nvidia-imex-ctl (IMEX_CMD_ENABLED=0"));
  CHECK_FALSE(node.tools.called("nvidia-imex-ctl"));
  CHECK(node.list() == new_list);
}

TEST_CASE("with --wait-domain=off the domain is not looked at") {
  Node node;
  CHECK(node.prolog(with(WaitDomain::off)) == 0);
  CHECK_FALSE(node.tools.called("nvidia-imex-ctl -N"));
  CHECK_FALSE(node.tools.called("nvidia-imex-ctl -i"));
  CHECK(node.report.summary.find("was not looked at") != std::string::npos);
}

// --- signals -----------------------------------------------------------------------------------------------

TEST_CASE("a stop signal after the stop leaves no domain and is exit 143") {
  Node node;
  host::catch_stop_signals();
  node.tools.effect = [&](const std::string& line) {
    if (line != start) return;
    node.tools.scripted[start] = interrupted();
    raise(SIGTERM);
  };
  const int code = node.prolog();
  host::release_stop_signals();
  CHECK(code == 143);
  CHECK(node.list_has_no_nodes());
  CHECK(node.tools.main_pid == 0);
  CHECK(node.logged("ERROR", "stopped by signal 15 in step start"));
}

TEST_CASE("a stop signal before the stop leaves the old domain alone") {
  Node node;
  host::catch_stop_signals();
  node.tools.effect = [&](const std::string& line) {
    if (line != "scontrol getaddrs ultra-[1-2]") return;
    node.tools.scripted[line] = interrupted();
    raise(SIGTERM);
  };
  const int code = node.prolog();
  host::release_stop_signals();
  CHECK(code == 143);
  CHECK(node.list() == old_list);
  CHECK(node.tools.living.contains(700));
  CHECK_FALSE(node.changed("systemctl"));
}

// --- what a run before this one left -----------------------------------------------------------------------

TEST_CASE("a job that a killed run left in systemd's queue is cancelled before anything else is changed") {
  Node node;
  node.noted(Phase::changing, "6");
  node.tools.queued_job = 4711;
  CHECK(node.prolog() == 0);
  REQUIRE(node.files.changes.size() > 2);
  CHECK(node.files.changes[0] == "lock");
  CHECK(node.files.changes[1] == "systemctl cancel 4711");
  CHECK(node.logged("WARN", "the prolog of job 6 (pid 111) was killed half-way on this node"));
}

TEST_CASE("a damaged state is told and does not hinder") {
  Node node;
  node.files.file(state_path, "{");
  CHECK(node.prolog() == 0);
  CHECK(node.logged("WARN", "is damaged"));
  CHECK(node.state()->run.job_id == "7");
}

TEST_CASE("where our epilog stopped the last domain one look at an UP domain is enough") {
  Node node;
  node.noted(Phase::stopped, "6");
  node.tools.die("inactive");
  CHECK(node.prolog() == 0);
  CHECK(node.report.summary == "IMEX domain of 2 nodes is UP");
  CHECK(node.took() < 1s);
}

TEST_CASE("persist.dat is moved aside only after a KILL, only where that was asked for, and before the start") {
  for (const bool asked : {false, true}) {
    for (const bool killed : {false, true}) {
      Node node;
      node.files.file("/var/run/nvidia-imex/persist.dat", "x");
      if (killed) node.tools.scripted[stop] = fakes::timed_out();
      commands::ImexPrologOptions options;
      options.drop_persist = asked;
      CHECK(node.prolog(options) == 0);
      CHECK(node.files.tree.contains("/var/run/nvidia-imex/persist.dat") == !(asked && killed));
      CHECK(node.files.tree.contains("/var/run/nvidia-imex/persist.dat.dropped") == (asked && killed));
    }
  }
}

// --- when all is well --------------------------------------------------------------------------------------

TEST_CASE("the changes of a run, in their order") {
  Node node;
  CHECK(node.prolog() == 0);
  CHECK(node.files.changes == Journal{"lock", "make_directory /dev/nvidia-caps-imex-channels 0755",
                                      "make_char_device " + channel0 + " 234:0 0666",
                                      "make_directory /run/gpu-prolog 0755", "replace " + state_path, stop,
                                      "replace " + list_path, "systemctl reset-failed nvidia-imex", start,
                                      "replace " + state_path, "unlock"});
  CHECK(node.list() == new_list);
  CHECK(node.report.summary == "IMEX domain of 2 nodes is UP");
  CHECK_FALSE(node.report.error);
  const auto state = node.state();
  REQUIRE(state);
  CHECK(state->phase == Phase::started);
  CHECK(state->run.job_id == "7");
  CHECK(state->addresses == std::vector<std::string>{"10.0.0.1", "10.0.0.2"});
  CHECK(state->main_pid == node.tools.main_pid);
  CHECK(state->main_start_time == 600);
  CHECK(state->prolog_pid == 4242);
  CHECK(node.took() >= 3s);  // UP has held
  CHECK(node.took() < 5s);
}

TEST_CASE("before the stop it is on disk that a change is under way") {
  Node node;
  std::optional<imex::State> seen;
  node.tools.effect = [&](const std::string& line) {
    if (line == stop) seen = node.state();
  };
  CHECK(node.prolog() == 0);
  REQUIRE(seen);
  CHECK(seen->phase == Phase::changing);
  CHECK(seen->run.job_id == "7");
}

TEST_CASE("the list is written between the end of the old daemon and the start of the new one") {
  Node node;
  std::string at_stop;
  std::string at_start;
  node.tools.effect = [&](const std::string& line) {
    if (line == stop) at_stop = node.list();
    if (line == start) at_start = node.list();
  };
  CHECK(node.prolog() == 0);
  CHECK(at_stop == old_list);
  CHECK(at_start == new_list);
}

TEST_CASE("the domain is waited for without the lock, so that an epilog can come") {
  Node node;
  bool free_by_then = false;
  node.tools.effect = [&](const std::string& line) {
    if (line == "nvidia-imex-ctl -N -j") free_by_then = node.changed("unlock");
  };
  CHECK(node.prolog() == 0);
  CHECK(free_by_then);
}

TEST_CASE("the list is the same on every node of the job, in the node list's order") {
  Node second;
  second.is_second();
  CHECK(second.prolog() == 0);
  CHECK(second.list() == new_list);
}

TEST_CASE("a name for a NodeAddr is looked up") {
  Node node;
  node.tools.node_addresses.clear();
  node.tools.scripted["scontrol -ao show node ultra-[1-2]"] =
      fakes::exited(0, "NodeName=ultra-1 NodeAddr=10.0.0.1\nNodeName=ultra-2 NodeAddr=ultra-2.example\n");
  node.tools.scripted["getent ahosts ultra-2.example"] = fakes::exited(0, "10.0.0.2 STREAM x\n");
  CHECK(node.prolog() == 0);
  CHECK(node.list() == new_list);
}

TEST_CASE("a job over two blocks makes the list of this node's block only") {
  Node node;
  node.environment["SLURM_JOB_NODELIST"] = "ultra-[1-4]";
  node.conf("ClusterName=c\n");
  node.files.file("/run/slurm/conf/topology.yaml",
                  "- topology: ultra\n  cluster_default: true\n  block:\n    block_sizes: [2]\n    blocks:\n"
                  "      - block: b1\n        nodes: ultra-[1-2]\n      - block: b2\n        nodes: ultra-[3-4]\n");
  CHECK(node.prolog() == 0);
  CHECK(node.list() == new_list);
  CHECK(node.tools.called("scontrol getaddrs ultra-[1-2]"));
  CHECK_FALSE(node.tools.called("scontrol show topology"));
}

TEST_CASE("where Slurm makes the channels itself they are left alone") {
  Node node;
  node.conf("SwitchType=switch/nvidia_imex\n");
  CHECK(node.prolog() == 0);
  CHECK_FALSE(node.changed("make_char_device"));
  CHECK(node.list() == new_list);
}

TEST_CASE("a component of a het job is told to have its own domain") {
  Node node;
  node.environment["SLURM_HET_JOB_ID"] = "5";
  CHECK(node.prolog() == 0);
  CHECK(node.logged("WARN", "component of the het job 5"));
}

TEST_CASE("a second run of the same job makes the same domain again") {
  Node node;
  CHECK(node.prolog() == 0);
  node.files.changes.clear();
  CHECK(node.prolog() == 0);
  CHECK(node.list() == new_list);
  CHECK_FALSE(node.changed("make_"));  // channel and folders are right already
}

TEST_CASE("a configured scontrol that is not there is told once, and another one is asked") {
  Node node;
  commands::ImexPrologOptions options;
  options.scontrol = "/opt/nowhere/bin/scontrol";
  CHECK(node.prolog(options) == 0);
  CHECK(node.list() == new_list);
  CHECK(std::count_if(node.log.lines.begin(), node.log.lines.end(), [](const std::string& warning) {
          return warning.find("the configured scontrol /opt/nowhere/bin/scontrol is not there") != std::string::npos;
        }) == 1);
}

// --- dry run -----------------------------------------------------------------------------------------------

TEST_CASE("a dry run reads for real, changes nothing and says what it would change, in order") {
  Node node;
  node.dry_run = true;
  CHECK(node.prolog() == 0);
  CHECK(node.files.changes.empty());
  CHECK(node.tools.living.contains(700));
  CHECK(node.list() == old_list);
  CHECK(node.locks.holders.empty());
  const auto& planned = node.plan.sentences();
  const auto place = [&](const std::string& part) {
    const auto found = std::find_if(planned.begin(), planned.end(),
                                    [&](const std::string& line) { return line.find(part) != std::string::npos; });
    REQUIRE(found != planned.end());
    return found - planned.begin();
  };
  CHECK(place("would make the device " + channel0) < place("would stop unit nvidia-imex"));
  CHECK(place("would stop unit nvidia-imex") <
        place("would replace " + list_path + " (0644, 18 bytes): 10.0.0.1, 10.0.0.2"));
  CHECK(place("would replace " + list_path) < place("would start unit nvidia-imex"));
  for (const std::string& call : node.tools.calls) {
    INFO(call);
    CHECK((call.starts_with("systemctl is-enabled ") || call.starts_with("systemctl show ") ||
           call.starts_with("scontrol ")));
  }
}

TEST_CASE("a dry run without root works, and exits as its first failing check says") {
  Node node;
  node.dry_run = true;
  node.tools.root = false;
  CHECK(node.prolog() == 0);
  Node failing;
  failing.dry_run = true;
  failing.files.file("/proc/devices", "Character devices:\n195 nvidia\n");
  CHECK(failing.prolog() == 5);
  CHECK(failing.files.changes.empty());
  Node shared;  // a dry run tells what it sees, whoever would be blamed
  shared.is_second();
  shared.dry_run = true;
  shared_faults[0].set_up(shared);
  CHECK(shared.prolog() == 4);
}

TEST_CASE("a dry run leaves a job in systemd's queue where it is") {
  Node node;
  node.dry_run = true;
  node.tools.queued_job = 4711;
  CHECK(node.prolog() == 0);
  CHECK(node.files.changes.empty());
  CHECK(node.plan.sentences().front() == "would cancel the queued systemd job of unit nvidia-imex");
}
