// A unit through systemctl: its words, and above all the state that is asked for after every change.
#include "systemd/systemctl.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>

#include "fakes/fake_files.h"
#include "fakes/fake_processes.h"
#include "fakes/memory_log.h"

using namespace std::chrono_literals;
using systemd::parse_is_enabled;
using systemd::UnitFile;
using Calls = std::vector<std::string>;

namespace {

const std::string is_enabled = "systemctl is-enabled nvidia-imex";
const std::string show =
    "systemctl show nvidia-imex --property=ActiveState,SubState,Result,MainPID,ControlPID,Job,ControlGroup";
const std::string stop = "systemctl stop nvidia-imex";
const std::string kill_it = "systemctl kill --signal=KILL nvidia-imex";
const std::string reset = "systemctl reset-failed nvidia-imex";
const std::string start = "systemctl start nvidia-imex";

std::string shown(const std::string& active, const std::string& main_pid, const std::string& job = "",
                  const std::string& group = "") {
  return "ActiveState=" + active + "\nSubState=x\nResult=success\nMainPID=" + main_pid + "\nControlPID=0\nJob=" + job +
         "\nControlGroup=" + group + "\n";
}

host::Exit interrupted() {
  host::Exit exit;
  exit.ending = host::Exit::Ending::interrupted;
  return exit;
}

struct World {
  fakes::FakeClock clock;
  fakes::FakeProcesses processes{clock};
  fakes::FakeFiles files;
  fakes::MemoryLog log;
  systemd::SystemctlUnits units{"/usr/bin/systemctl", processes, files, clock, log};

  World& answer(const std::string& line, host::Exit exit) {
    processes.answer(line, std::move(exit));
    return *this;
  }
  base::Result<systemd::Stopped> stop_it(host::milliseconds graceful = 15s, host::milliseconds left = 100s) {
    return units.stop_and_wait("nvidia-imex", host::Deadline(clock, left), graceful);
  }
  base::Result<systemd::Started> start_it(host::milliseconds limit = 60s, host::milliseconds left = 100s) {
    return units.start_and_confirm("nvidia-imex", host::Deadline(clock, left), limit);
  }
  host::milliseconds took() const {
    return std::chrono::duration_cast<host::milliseconds>(clock.now().time_since_epoch());
  }
  int count(const std::string& line) const {
    return static_cast<int>(std::count(processes.calls.begin(), processes.calls.end(), line));
  }
};

}  // namespace

// --- is-enabled ------------------------------------------------------------------------------------------

TEST_CASE("these words mean that nobody wants the unit") {
  for (const char* word :
       {"disabled", "linked", "linked-runtime", "masked", "masked-runtime", "not-found", "transient", "bad"}) {
    INFO(word);
    const auto parsed = parse_is_enabled(std::string(word) + "\n", "");
    CHECK(parsed.state == UnitFile::not_enabled);
    CHECK(parsed.word == word);
  }
}

TEST_CASE("a word that systemctl does not know is no answer") {
  for (const char* word : {"Enabled", "enabledd", "en", "anything"}) {
    INFO(word);
    CHECK(parse_is_enabled(std::string(word) + "\n", "").word.empty());
  }
}

TEST_CASE("these words mean enabled, whatever the exit code says") {
  for (const char* word : {"enabled", "enabled-runtime", "static", "indirect", "alias", "generated"}) {
    INFO(word);
    World world;
    world.answer(is_enabled, fakes::exited(1, std::string(word) + "\n"));
    const auto enabled = world.units.enabled("nvidia-imex");
    REQUIRE(enabled);
    CHECK(enabled->state == UnitFile::enabled);
    CHECK(enabled->word == word);
  }
}

TEST_CASE("a bus that cannot be reached is no missing unit") {
  for (const char* words :
       {"Failed to connect to bus: No such file or directory\n", "System has not been booted with systemd\n", ""}) {
    CHECK(parse_is_enabled("", words).word.empty());
  }
}

TEST_CASE("a systemd up to 253 says on stderr that a unit is not there") {
  const auto parsed =
      parse_is_enabled("", "Failed to get unit file state for nvidia-imex.service: No such file or directory\n");
  CHECK(parsed.state == UnitFile::not_enabled);
  CHECK(parsed.word == "not-found");
}

TEST_CASE("a systemctl that could not be started is no trouble of systemd") {
  World world;
  host::Exit no_descriptors;
  no_descriptors.status = EMFILE;
  world.answer(is_enabled, no_descriptors);
  const auto enabled = world.units.enabled("nvidia-imex");
  REQUIRE_FALSE(enabled);
  CHECK(enabled.error().what.find("could not be started: too many open files") != std::string::npos);
  CHECK(enabled.error().cure == "raise the limit of open files (`ulimit -n`; LimitNOFILE= of slurmd.service)");
}

TEST_CASE("no word is no answer: asked once more, then an error") {
  World world;
  world.answer(is_enabled, fakes::exited(1, "", "Failed to connect to bus: Connection refused\n"));
  const auto enabled = world.units.enabled("nvidia-imex");
  REQUIRE_FALSE(enabled);
  CHECK(enabled.error().code == base::ExitCode::change);
  CHECK(enabled.error().what.find("gave no answer: exit 1: Failed to connect to bus") != std::string::npos);
  CHECK(world.count(is_enabled) == 2);
}

TEST_CASE("a systemd that hangs costs two limits") {
  World world;
  world.answer(is_enabled, fakes::timed_out());
  REQUIRE_FALSE(world.units.enabled("nvidia-imex"));
  CHECK(world.took() == 20s);
}

TEST_CASE("the second answer counts as well as the first") {
  World world;
  world.answer(is_enabled, fakes::timed_out()).answer(is_enabled, fakes::exited(0, "enabled\n"));
  const auto enabled = world.units.enabled("nvidia-imex");
  REQUIRE(enabled);
  CHECK(enabled->state == UnitFile::enabled);
}

TEST_CASE("after a stop signal is-enabled is not asked again") {
  World world;
  world.answer(is_enabled, interrupted());
  CHECK_FALSE(world.units.enabled("nvidia-imex"));
  CHECK(world.count(is_enabled) == 1);
}

// --- show ------------------------------------------------------------------------------------------------

TEST_CASE("lines without = are passed over, a value may hold =, the last of a key counts") {
  const auto parsed = systemd::parse_show("nothing\nA=1\nB=x=y\nA=2\nC=\r\n\n");
  CHECK(parsed == std::map<std::string, std::string>{{"A", "2"}, {"B", "x=y"}, {"C", ""}});
  CHECK(systemd::parse_show("").empty());
}

TEST_CASE("a state that is not told is asked of is-active, and is an error where that is silent too") {
  World world;
  world.answer(show, fakes::exited(1, "", "Failed to connect to bus\n"));
  SECTION("is-active answers") {
    world.answer("systemctl is-active nvidia-imex", fakes::exited(3, "inactive\n"));
    const auto state = world.units.state("nvidia-imex");
    REQUIRE(state);
    CHECK(state->active == "inactive");
  }
  SECTION("nobody answers") {
    world.answer("systemctl is-active nvidia-imex", fakes::exited(1, "", "Failed to connect to bus\n"));
    const auto state = world.units.state("nvidia-imex");
    REQUIRE_FALSE(state);
    CHECK(state.error().code == base::ExitCode::change);
  }
}

TEST_CASE("pids that are none, dead or init's are no processes of the unit") {
  for (const char* pid : {"0", "1", "-5", "x", "99999999999", "79"}) {
    INFO(pid);
    World world;
    world.processes.living = {{1, 1}, {0, 1}, {80, 1}};
    world.answer(show, fakes::exited(0, shown("active", pid)));
    const auto state = world.units.state("nvidia-imex");
    REQUIRE(state);
    CHECK(state->processes.empty());
  }
}

TEST_CASE("a control group path that leads elsewhere is not read") {
  for (const char* group : {"", "/", "/../../etc", "/system.slice/../../x", "system.slice"}) {
    World world;
    world.processes.living = {{77, 1}};
    world.files.file("/sys/fs/cgroup" + std::string(group) + "/cgroup.procs", "77\n");
    world.answer(show, fakes::exited(0, shown("inactive", "0", "", group)));
    CHECK(world.units.state("nvidia-imex")->processes.empty());
  }
}

TEST_CASE("the processes of a unit are its main process and all live ones of its control group, once each") {
  for (const char* tree : {"/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"}) {
    World world;
    world.processes.living = {{77, 1}, {78, 1}, {79, 1}};
    world.files.file(std::string(tree) + "/system.slice/nvidia-imex.service/cgroup.procs", "77\n78\n80\nx\n");
    world.answer(show, fakes::exited(0, shown("active", "77", "", "/system.slice/nvidia-imex.service")));
    const auto state = world.units.state("nvidia-imex");
    REQUIRE(state);
    CHECK(state->main_pid == 77);
    CHECK(state->processes == std::vector<pid_t>{77, 78});
    CHECK(systemd::describe(*state) == "ActiveState=active SubState=x Result=success processes 77 78");
  }
}

TEST_CASE("gone means inactive or failed, no queued job and no process") {
  systemd::UnitState state;
  for (const char* active : {"active", "activating", "deactivating", "reloading", "maintenance", ""}) {
    state.active = active;
    CHECK_FALSE(state.gone());
  }
  for (const char* active : {"inactive", "failed"}) {
    state = {};
    state.active = active;
    CHECK(state.gone());
    state.queued_job = 5;
    CHECK_FALSE(state.gone());
    state.queued_job = 0;
    state.processes = {77};
    CHECK_FALSE(state.gone());
  }
}

// --- a job left queued -----------------------------------------------------------------------------------

TEST_CASE("a job that a dead run left queued is cancelled by its number, a failing cancel is only told") {
  for (const int code : {0, 1}) {
    World world;
    world.answer(show, fakes::exited(0, shown("activating", "0", "4711")))
        .answer("systemctl cancel 4711", fakes::exited(code));
    const auto before = world.units.cancel_queued_job("nvidia-imex");
    REQUIRE(before);
    CHECK(before->queued_job == 4711);
    CHECK(world.count("systemctl cancel 4711") == 1);
    CHECK(world.log.has("WARN unit nvidia-imex has a job left in systemd's queue"));
    CHECK(world.log.has("WARN systemctl cancel: exit 1") == (code != 0));
  }
}

TEST_CASE("nothing queued, nothing cancelled") {
  World world;
  world.answer(show, fakes::exited(0, shown("active", "77")));
  REQUIRE(world.units.cancel_queued_job("nvidia-imex"));
  CHECK(world.processes.calls == Calls{show});
}

// --- stop ------------------------------------------------------------------------------------------------

TEST_CASE("a unit that not even KILL ends is an error that says what is left") {
  World world;
  world.processes.living = {{77, 1}};
  world.answer(stop, fakes::timed_out())
      .answer(show, fakes::exited(0, shown("deactivating", "77")))
      .answer(kill_it, fakes::exited(0));
  const auto stopped = world.stop_it();
  REQUIRE_FALSE(stopped);
  CHECK(stopped.error().code == base::ExitCode::change);
  CHECK(stopped.error().what.find("cannot be stopped, not even by KILL: ActiveState=deactivating") !=
        std::string::npos);
  CHECK(stopped.error().what.find("processes 77") != std::string::npos);
  CHECK(world.count(kill_it) == 1);
  CHECK(world.took() == 20s);  // 15 s for the stop, 5 s after the KILL
}

TEST_CASE("where no time is left a KILL is still given a moment, and its failing is told as want of time") {
  World world;
  world.processes.living = {{77, 1}};
  world.answer(stop, fakes::timed_out())
      .answer(show, fakes::exited(0, shown("deactivating", "77")))
      .answer(kill_it, fakes::exited(0));
  const auto stopped = world.stop_it(15s, 3s);
  REQUIRE_FALSE(stopped);
  CHECK(stopped.error().code == base::ExitCode::time_out);
  CHECK(stopped.error().what.find("is not gone") != std::string::npos);
  CHECK(stopped.error().what.find("after KILL, and the run has no time to wait longer") != std::string::npos);
  CHECK(stopped.error().cure.find("reboot") == std::string::npos);
  CHECK(world.took() == 5s);  // 3 s for the stop, 2 s after the KILL
}

TEST_CASE("a stop interrupted by a signal kills nobody") {
  World world;
  world.answer(stop, interrupted());
  const auto stopped = world.stop_it();
  REQUIRE_FALSE(stopped);
  CHECK(stopped.error().code == base::ExitCode::time_out);
  CHECK(world.processes.calls == Calls{stop});
}

TEST_CASE("a systemctl that says done is not believed while a process lives") {
  World world;
  world.processes.living = {{77, 1}};
  world.files.file("/sys/fs/cgroup/system.slice/n.service/cgroup.procs", "77\n");
  world.answer(stop, fakes::exited(0)).answer(kill_it, fakes::exited(0));
  world.answer(show, fakes::exited(0, shown("inactive", "0", "", "/system.slice/n.service")));
  world.processes.effect = [&](const std::string& line) {
    if (line == kill_it) world.processes.living.clear();
  };
  const auto stopped = world.stop_it();
  REQUIRE(stopped);
  CHECK(stopped->killed);
  CHECK(world.took() >= 5s);
  CHECK(world.log.has("WARN unit nvidia-imex is not gone though systemctl stop has ended"));
  CHECK(systemd::describe(*stopped) == "unit did not stop gracefully and was killed; no process is left");
}

TEST_CASE("a stop that ran out of time may have worked all the same: the state decides") {
  World world;
  world.answer(stop, fakes::timed_out()).answer(show, fakes::exited(0, shown("inactive", "0")));
  const auto stopped = world.stop_it();
  REQUIRE(stopped);
  CHECK_FALSE(stopped->killed);
  CHECK(world.count(kill_it) == 0);
}

TEST_CASE("after a stop that failed at once the kill does not wait for the state to change by itself") {
  World world;
  world.processes.living = {{77, 1}};
  world.answer(stop, fakes::exited(1, "", "Failed to stop\n")).answer(kill_it, fakes::exited(0));
  world.answer(show, fakes::exited(0, shown("active", "77"))).answer(show, fakes::exited(0, shown("failed", "0")));
  const auto stopped = world.stop_it();
  REQUIRE(stopped);
  CHECK(stopped->killed);
  CHECK(world.took() < 1s);
}

TEST_CASE("a unit with a queued job is not gone: the start behind it would come some day") {
  World world;
  world.answer(stop, fakes::exited(0)).answer(kill_it, fakes::exited(0));
  world.answer(show, fakes::exited(0, shown("inactive", "0", "4711")));
  CHECK_FALSE(world.stop_it());
}

TEST_CASE("a daemon that needs a moment after the stop is waited for, not killed") {
  World world;
  world.processes.living = {{77, 1}};
  world.answer(stop, fakes::exited(0));
  for (int i = 0; i < 4; ++i) world.answer(show, fakes::exited(0, shown("deactivating", "77")));
  world.answer(show, fakes::exited(0, shown("inactive", "0")));
  const auto stopped = world.stop_it();
  REQUIRE(stopped);
  CHECK_FALSE(stopped->killed);
  CHECK(world.took() < 5s);
  CHECK(systemd::describe(*stopped) == "unit is stopped, no process is left");
}

TEST_CASE("the stop gets what the run has left, where that is less than its own limit") {
  World world;
  world.answer(stop, fakes::exited(0)).answer(show, fakes::exited(0, shown("inactive", "0")));
  REQUIRE(world.stop_it(15s, 4s));
  CHECK(world.processes.limits.front() == 4s);
}

// --- start -----------------------------------------------------------------------------------------------

TEST_CASE("a start that runs out of time is cancelled by a stop, so that it does not come some day") {
  World world;
  world.answer(reset, fakes::exited(0)).answer(start, fakes::timed_out()).answer(stop, fakes::exited(0));
  world.answer(show, fakes::exited(0, shown("inactive", "0")));
  const auto started = world.start_it();
  REQUIRE_FALSE(started);
  CHECK(started.error().code == base::ExitCode::time_out);
  CHECK(started.error().what.find(
            "unit nvidia-imex did not start within 60 s (start cancelled; now ActiveState=inactive") == 0);
  CHECK(world.processes.calls == Calls{reset, start, stop, show});
  CHECK(world.processes.limits[2] == 5s);  // out of the time that is kept back for cleaning up
}

TEST_CASE("a cancelled start whose stop hangs too is killed through systemd") {
  World world;
  world.processes.living = {{77, 1}};
  world.answer(reset, fakes::exited(0))
      .answer(start, fakes::timed_out())
      .answer(stop, fakes::timed_out())
      .answer(kill_it, fakes::exited(0));
  world.answer(show, fakes::exited(0, shown("activating", "77"))).answer(show, fakes::exited(0, shown("failed", "0")));
  const auto started = world.start_it();
  REQUIRE_FALSE(started);
  CHECK(started.error().code == base::ExitCode::time_out);
  CHECK(started.error().what.find("now ActiveState=failed") != std::string::npos);
  CHECK(world.count(kill_it) == 1);
}

TEST_CASE("a start interrupted by a signal is cancelled too") {
  World world;
  world.answer(reset, fakes::exited(0)).answer(start, interrupted()).answer(stop, fakes::exited(0));
  world.answer(show, fakes::exited(0, shown("inactive", "0")));
  const auto started = world.start_it();
  REQUIRE_FALSE(started);
  CHECK(started.error().code == base::ExitCode::time_out);
  CHECK(started.error().what.find("was interrupted by a signal") != std::string::npos);
  CHECK(world.count(stop) == 1);
}

TEST_CASE("a start that systemctl refuses is told with its words") {
  World world;
  world.answer(reset, fakes::exited(0)).answer(start, fakes::exited(1, "", "Job for nvidia-imex.service failed.\n"));
  world.answer(show, fakes::exited(0, shown("failed", "0")));
  const auto started = world.start_it();
  REQUIRE_FALSE(started);
  CHECK(started.error().code == base::ExitCode::change);
  CHECK(started.error().what.find("unit nvidia-imex did not start: exit 1: Job for nvidia-imex.service failed.") == 0);
  CHECK(started.error().cure.find("journalctl -u nvidia-imex -b") != std::string::npos);
}

TEST_CASE("a start that succeeded without a live daemon is no start") {
  for (const char* active : {"inactive", "failed", "active"}) {
    World world;
    world.answer(reset, fakes::exited(0))
        .answer(start, fakes::exited(0))
        .answer(show, fakes::exited(0, shown(active, "77")));
    const auto started = world.start_it();
    REQUIRE_FALSE(started);
    CHECK(started.error().code == base::ExitCode::change);
    CHECK(started.error().what.find("reported success, but no daemon lives in the unit") != std::string::npos);
  }
}

TEST_CASE("reset-failed comes before every start, and its failure hinders none") {
  for (const int code : {0, 1}) {
    World world;
    world.processes.living = {{77, 1234}};
    world.answer(reset, fakes::exited(code))
        .answer(start, fakes::exited(0))
        .answer(show, fakes::exited(0, shown("active", "77")));
    const auto started = world.start_it();
    REQUIRE(started);
    CHECK(started->main_pid == 77);
    CHECK(started->main_start_time == 1234);
    CHECK(world.processes.calls == Calls{reset, start, show});
    CHECK(systemd::describe(*started) == "unit is active, main process 77");
  }
}

TEST_CASE("without a main process the first of the control group is the daemon") {
  World world;
  world.processes.living = {{78, 5}};
  world.files.file("/sys/fs/cgroup/system.slice/n.service/cgroup.procs", "78\n");
  world.answer(reset, fakes::exited(0)).answer(start, fakes::exited(0));
  world.answer(show, fakes::exited(0, shown("active", "0", "", "/system.slice/n.service")));
  const auto started = world.start_it();
  REQUIRE(started);
  CHECK(started->main_pid == 78);
}

TEST_CASE("the start gets what the run has left, where that is less than its own limit") {
  World world;
  world.processes.living = {{77, 1}};
  world.answer(reset, fakes::exited(0))
      .answer(start, fakes::exited(0))
      .answer(show, fakes::exited(0, shown("active", "77")));
  REQUIRE(world.start_it(60s, 7s));
  CHECK(world.processes.limits[1] == 7s);
}

// --- the end of the run ----------------------------------------------------------------------------------

TEST_CASE("no call goes on after the end of the run, and one that cleans up later has a second") {
  World world;
  world.units.end_by(host::Deadline(world.clock, 4s));
  world.answer(is_enabled, fakes::timed_out());
  CHECK_FALSE(world.units.enabled("nvidia-imex"));
  CHECK(world.processes.limits == std::vector<host::milliseconds>{4s, 1s});
}

TEST_CASE("without any time left nothing is started, so that nothing has to be cancelled") {
  World world;
  const auto started = world.start_it(60s, 0s);
  REQUIRE_FALSE(started);
  CHECK(started.error().code == base::ExitCode::time_out);
  CHECK(started.error().what == "no time was left to start unit nvidia-imex");
  CHECK(world.processes.calls.empty());
}
