// Waiting for this node's own daemon: what its words mean, and how the wait ends when it says nothing or dies.
#include "imex/ready.h"

#include <catch2/catch_test_macros.hpp>

#include "fakes/fake_ctl.h"
#include "fakes/fake_network.h"
#include "fakes/fake_processes.h"
#include "fakes/fake_units.h"
#include "fakes/memory_log.h"

using namespace std::chrono_literals;

namespace {

struct World {
  fakes::FakeClock clock;
  fakes::FakeCtl ctl{clock};
  fakes::FakeUnits units;
  fakes::FakeProcesses processes{clock};
  fakes::FakeNetwork network;
  fakes::MemoryLog log;
  imex::ReadyTask task{"nvidia-imex", {77, 1000}, 50000, ""};

  World() { processes.living[77] = 1000; }
  base::Result<imex::Ready> wait(host::milliseconds limit = 30s) {
    return imex::await_ready(ctl, units, processes, network, clock, log, task, host::Deadline(clock, limit));
  }
  host::milliseconds took() const { return ctl.now(); }
};

}  // namespace

TEST_CASE("a daemon that stays in another word than READY runs out of time, with that word") {
  for (const char* said : {"INITIALIZING", "STARTING_AUTH_SERVER", "INIT_GPU", "SHUTTING_DOWN", "UNAVAILABLE"}) {
    World world;
    world.ctl.says(0s, fakes::word(said));
    const auto ready = world.wait();
    REQUIRE_FALSE(ready);
    CHECK(ready.error().code == base::ExitCode::time_out);
    CHECK(ready.error().blame == base::Blame::local);
    CHECK(ready.error().what == "the local nvidia-imex daemon is not READY after 30 s: it says " + std::string(said));
    CHECK(world.took() == 30s);
  }
}

TEST_CASE("a daemon that never answers runs out of time, with the tool's words") {
  World world;
  world.ctl.says(0s, fakes::no_daemon_yet());
  const auto ready = world.wait();
  REQUIRE_FALSE(ready);
  CHECK(ready.error().code == base::ExitCode::time_out);
  CHECK(ready.error().what.find("error code: 14") != std::string::npos);
  CHECK(ready.error().cure.find("/var/log/nvidia-imex.log") != std::string::npos);
}

TEST_CASE("a tool that hangs is asked with what is left of the time, so that the limit holds") {
  World world;
  world.ctl.says(0s, fakes::hangs());
  const auto ready = world.wait(12s);
  REQUIRE_FALSE(ready);
  CHECK(ready.error().code == base::ExitCode::time_out);
  CHECK(world.took() <= 12s + 100ms);
  CHECK(world.ctl.asked == 3);  // 5 s, 5 s and the rest
}

TEST_CASE("a daemon that dies is told at once, with the unit's result") {
  World world;
  world.ctl.says(0s, fakes::no_daemon_yet());
  world.units.now = fakes::ended_unit("failed", "exit-code");
  world.processes.living.clear();
  const auto ready = world.wait();
  REQUIRE_FALSE(ready);
  CHECK(ready.error().code == base::ExitCode::change);
  CHECK(ready.error().what == "the daemon of unit nvidia-imex died after its start (unit is failed, Result=exit-code)");
  CHECK(world.took() == 0ms);
}

TEST_CASE("a pid that belongs to somebody else by now is no live daemon") {
  World world;
  world.ctl.says(0s, fakes::no_daemon_yet());
  world.units.now = fakes::ended_unit("inactive", "success");
  world.processes.living[77] = 2000;
  const auto ready = world.wait();
  REQUIRE_FALSE(ready);
  CHECK(ready.error().code == base::ExitCode::change);
}

TEST_CASE("a daemon that dies at the very end is dead, not late") {
  World world;
  world.ctl.says(0s, fakes::hangs());
  struct Dying : fakes::FakeCtl {
    Dying(World& world) : fakes::FakeCtl(world.clock), world_(world) {}
    imex::LocalStatus local_status(host::milliseconds limit) override {
      world_.clock.pass(limit);
      world_.processes.living.clear();
      world_.units.now = fakes::ended_unit("failed", "signal");
      return fakes::hangs();
    }
    World& world_;
  } dying(world);
  const auto ready = imex::await_ready(dying, world.units, world.processes, world.network, world.clock, world.log,
                                       world.task, host::Deadline(world.clock, 4s));
  REQUIRE_FALSE(ready);
  CHECK(ready.error().code == base::ExitCode::change);
  CHECK(ready.error().what.find("Result=signal") != std::string::npos);
}

TEST_CASE("a stop signal ends the wait") {
  World world;
  world.ctl.says(0s, fakes::word("INITIALIZING"));
  world.clock.interrupted = true;
  CHECK_FALSE(world.wait());
  CHECK(world.took() < 1s);
}

TEST_CASE("a daemon that systemd restarted meanwhile is taken over, with a warning") {
  World world;
  world.ctl.says(0s, fakes::word("READY"));
  world.processes.living = {{88, 2000}};
  world.units.now = fakes::active_unit(88);
  const auto ready = world.wait();
  REQUIRE(ready);
  CHECK(ready->daemon.main_pid == 88);
  CHECK(ready->daemon.main_start_time == 2000);
  CHECK(world.log.has("WARN the daemon of unit nvidia-imex (pid 77) has ended and systemd started another (pid 88)"));
}

TEST_CASE("a unit that is on its way down is no restarted daemon") {
  World world;
  world.ctl.says(0s, fakes::no_daemon_yet());
  world.processes.living = {{88, 2000}};
  world.units.now = fakes::active_unit(88);
  world.units.now->active = "deactivating";
  CHECK_FALSE(world.wait());
}

TEST_CASE("a systemd that does not answer fails the look at a dead daemon") {
  World world;
  world.ctl.says(0s, fakes::no_daemon_yet());
  world.processes.living.clear();
  world.units.now = base::Error{base::ExitCode::change, "systemctl does not tell", ""};
  const auto ready = world.wait();
  REQUIRE_FALSE(ready);
  CHECK(ready.error().what == "systemctl does not tell");
}

TEST_CASE("READY goes on at once") {
  World world;
  world.ctl.says(0s, fakes::word("READY"));
  const auto ready = world.wait();
  REQUIRE(ready);
  CHECK(ready->word == "READY");
  CHECK(ready->asked_ctl);
  CHECK(world.took() == 0ms);
  CHECK(imex::describe(*ready) == "local daemon is READY");
}

TEST_CASE("error 14 and then READY is a daemon that needed a moment") {
  World world;
  world.ctl.says(0s, fakes::no_daemon_yet()).says(700ms, fakes::word("INITIALIZING")).says(2s, fakes::word("READY"));
  const auto ready = world.wait();
  REQUIRE(ready);
  CHECK(ready->word == "READY");
  CHECK(world.took() >= 2s);
  CHECK(world.took() <= 2500ms);  // asked at least twice a second
}

TEST_CASE("a daemon that waits for its peers goes on to the domain, once that has held for a second") {
  for (const char* said : {"WAITING_FOR_PEERS", "WAITING_FOR_RECOVERY"}) {
    World world;
    world.ctl.says(0s, fakes::word(said));
    const auto ready = world.wait();
    REQUIRE(ready);
    CHECK(ready->word == said);
    CHECK(world.took() >= 1s);
    CHECK(world.took() < 2s);
  }
}

TEST_CASE("a daemon that only passes through WAITING_FOR_PEERS is waited for until READY") {
  World world;
  world.ctl.says(0s, fakes::word("WAITING_FOR_PEERS"))
      .says(300ms, fakes::word("INIT_GPU"))
      .says(3s, fakes::word("READY"));
  const auto ready = world.wait();
  REQUIRE(ready);
  CHECK(ready->word == "READY");
  CHECK(world.took() >= 3s);
}

TEST_CASE("a wait that ends while the daemon waits for peers goes on") {
  World world;
  world.ctl.says(0s, fakes::word("INITIALIZING")).says(4800ms, fakes::word("WAITING_FOR_RECOVERY"));
  const auto ready = world.wait(5s);
  REQUIRE(ready);
  CHECK(ready->word == "WAITING_FOR_RECOVERY");
}

TEST_CASE("a long wait is told every ten seconds") {
  World world;
  world.ctl.says(0s, fakes::word("INIT_GPU"));
  CHECK_FALSE(world.wait(25s));
  int told = 0;
  for (const std::string& line : world.log.lines)
    told += line == "INFO waiting for the local nvidia-imex: it says INIT_GPU" ? 1 : 0;
  CHECK(told == 2);
}

// --- where nvidia-imex-ctl cannot be asked: FakeCtl throws at any question ---------------------------------

TEST_CASE("without the tool a dead daemon is found all the same") {
  World world;
  world.task.no_ctl_because = "IMEX_CMD_ENABLED=0";
  world.processes.living.clear();
  world.units.now = fakes::ended_unit("failed", "exit-code");
  const auto ready = world.wait();
  REQUIRE_FALSE(ready);
  CHECK(ready.error().code == base::ExitCode::change);
}

TEST_CASE("without the tool a port that nobody listens on runs out of time") {
  World world;
  world.task.no_ctl_because = "IMEX_CMD_ENABLED=0";
  const auto ready = world.wait();
  REQUIRE_FALSE(ready);
  CHECK(ready.error().code == base::ExitCode::time_out);
  CHECK(ready.error().what.find("port 50000") != std::string::npos);
  CHECK(world.took() == 30s);
}

TEST_CASE("without the tool a live process and its port are enough, with a warning that says what is not known") {
  World world;
  world.task.no_ctl_because = "IMEX_CMD_ENABLED=0";
  world.network.ports = {50000};
  const auto ready = world.wait();
  REQUIRE(ready);
  CHECK(ready->word == "alive");
  CHECK_FALSE(ready->asked_ctl);
  CHECK(world.log.has("WARN cannot ask nvidia-imex-ctl (IMEX_CMD_ENABLED=0)"));
  CHECK(imex::describe(*ready) == "daemon is alive (pid 77); its status could not be asked");
}

TEST_CASE("a dry run's daemon, which does not exist, is not looked for") {
  World world;
  world.task.daemon = {};
  world.processes.living.clear();
  world.ctl.says(0s, fakes::word("READY"));
  CHECK(world.wait());
  world.task.no_ctl_because = "IMEX_CMD_ENABLED=0";
  CHECK(world.wait());
  CHECK(world.units.reads.empty());
}
