#include "mig/smi.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "captured.h"
#include "fakes/fake_clock.h"
#include "fakes/fake_processes.h"
#include "fakes/memory_log.h"
#include "site/site.h"

using namespace mig;
using namespace std::chrono_literals;
using fakes::exited;

namespace {

const std::string query = "nvidia-smi --query-gpu=" + std::string(gpu_query) + " --format=csv,noheader";
const std::string bus = "00000000:36:00.0";

std::string row(const std::string& current, const std::string& pending) {
  return "0, " + bus + ", 0x233510DE, GPU-1, " + current + ", " + pending + ", Enabled, 580.159.04, NVIDIA H200\n";
}

struct World {
  fakes::FakeClock clock;
  fakes::FakeProcesses processes{clock};
  fakes::MemoryLog log;
  Smi smi{processes, "/usr/bin/nvidia-smi", host::Deadline(clock, 600s)};
  RealMigChanges changes{smi, processes, clock, log, "/usr/sbin/modprobe", 10s, 5s};

  World& answer(const std::string& line, host::Exit exit) {
    processes.answer(line, std::move(exit));
    return *this;
  }
  // The GPU is emptied: compute instances first, then GPU instances, then a look.
  World& answer_roll_back(const std::string& of, const host::Exit& compute, const host::Exit& rest) {
    return answer("nvidia-smi mig -i " + of + " -dci", compute)
        .answer("nvidia-smi mig -i " + of + " -dgi", rest)
        .answer("nvidia-smi mig -i " + of + " -lgi", rest);
  }
  long count(const std::string& part) const {
    return std::count_if(processes.calls.begin(), processes.calls.end(),
                         [&](const std::string& call) { return call.find(part) != std::string::npos; });
  }
};

Gpu gpu() {
  Gpu made;
  made.bus_id = bus;
  return made;
}

GpuPlan building() {
  GpuPlan plan;
  plan.gpu = gpu();
  plan.wanted = {{{"3g.71gb", 9}, 1, false, "9"}, {{"1g.18gb", 19}, 1, false, "19"}};
  plan.placements = {{{"3g.71gb", 9}, 4, 4}, {{"1g.18gb", 19}, 0, 1}};
  plan.build = true;
  return plan;
}

const std::string create = "nvidia-smi mig -i " + bus + " -cgi 9:4,19:0 -C";
const std::string created =
    "Successfully created GPU instance ID  2 on GPU  0 using profile MIG 3g.71gb (ID  9)\n"
    "Successfully created compute instance ID  0 on GPU  0 GPU instance ID  2 using profile MIG 3g.71gb (ID  2)\n";
const std::string lgi_both =
    "|   0  MIG 3g.71gb       9        2          4:4     |\n|   0  MIG 1g.18gb      19        7          0:1     |\n";
const std::string l_both =
    "GPU 0: NVIDIA H200 (UUID: GPU-1)\n  MIG 3g.71gb     Device  0: (UUID: MIG-a)\n  MIG 1g.18gb     Device  1: (UUID: "
    "MIG-b)\n";
const std::string second_bus = "00000000:37:00.0";
const std::string create_both = "nvidia-smi mig -i " + bus + "," + second_bus + " -cgi 9:4,19:0 -C";
const std::string create_second = "nvidia-smi mig -i " + second_bus + " -cgi 9:4,19:0 -C";
const std::string lgi_second =
    "|   1  MIG 3g.71gb       9        2          4:4     |\n|   1  MIG 1g.18gb      19        7          0:1     |\n";
const std::string l_second =
    "GPU 1: NVIDIA H200 (UUID: GPU-2)\n  MIG 3g.71gb     Device  0: (UUID: MIG-c)\n  MIG 1g.18gb     Device  1: (UUID: "
    "MIG-d)\n";

GpuPlan second_building() {
  GpuPlan plan = building();
  plan.gpu.bus_id = second_bus;
  plan.gpu.index = 1;
  return plan;
}

const host::Exit empty = exited(6, "No GPU instances found: Not Found\n");

}  // namespace

// ------------------------------------------------------------------ waiting for the driver
TEST_CASE("a driver that never answers ends with surroundings at the limit, having been loaded once") {
  World world;
  world.answer(query, exited(9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."))
      .answer("modprobe nvidia", exited(0));
  const auto gpus =
      wait_for_gpus(world.smi, world.changes, {}, std::nullopt, host::Deadline(world.clock, 20s), world.clock);
  REQUIRE_FALSE(gpus);
  CHECK(gpus.error().code == base::ExitCode::surroundings);
  CHECK(world.count("modprobe") == 1);
  CHECK(world.clock.slept <= 20s);
}

TEST_CASE("a kernel without the module ends at once") {
  World world;
  world.answer(query, exited(9, ""))
      .answer("modprobe nvidia",
              exited(1, "", "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.1.0\n"));
  const auto gpus =
      wait_for_gpus(world.smi, world.changes, {}, std::nullopt, host::Deadline(world.clock, 120s), world.clock);
  REQUIRE_FALSE(gpus);
  CHECK(gpus.error().code == base::ExitCode::surroundings);
  CHECK(gpus.error().what.find("not found in directory") != std::string::npos);
  CHECK(world.clock.slept == 0s);
}

TEST_CASE("calls that hang end with time out; one that cannot be killed ends the wait at once") {
  World world;
  world.answer(query, fakes::timed_out());
  const auto gpus =
      wait_for_gpus(world.smi, world.changes, {}, std::nullopt, host::Deadline(world.clock, 120s), world.clock);
  REQUIRE_FALSE(gpus);
  CHECK(gpus.error().code == base::ExitCode::time_out);
  World stuck;
  host::Exit unkillable = fakes::timed_out();
  unkillable.unkillable = true;
  stuck.answer(query, unkillable);
  const auto none =
      wait_for_gpus(stuck.smi, stuck.changes, {}, std::nullopt, host::Deadline(stuck.clock, 120s), stuck.clock);
  REQUIRE_FALSE(none);
  CHECK(none.error().cure.find("cannot be killed") != std::string::npos);
  CHECK(stuck.processes.calls.size() == 1);
}

TEST_CASE("no permission and no MIG library words are not waited for") {
  World world;
  world.answer(query, exited(4, "Insufficient Permissions"));
  const auto gpus =
      wait_for_gpus(world.smi, world.changes, {}, std::nullopt, host::Deadline(world.clock, 120s), world.clock);
  REQUIRE_FALSE(gpus);
  CHECK(gpus.error().code == base::ExitCode::surroundings);
  CHECK(world.processes.calls.size() == 1);
}

TEST_CASE("a GPU that the bus has and the driver has not is named") {
  World world;
  world.answer(query, exited(0, row("Disabled", "Disabled")));
  const auto gpus = wait_for_gpus(world.smi, world.changes, {"0000:36:00.0", "0000:37:00.0"}, std::nullopt,
                                  host::Deadline(world.clock, 10s), world.clock);
  REQUIRE_FALSE(gpus);
  CHECK(gpus.error().code == base::ExitCode::surroundings);
  CHECK(gpus.error().what.find("0000:37:00.0") != std::string::npos);
  CHECK(gpus.error().what.find("0000:36:00.0") == std::string::npos);
  CHECK(wait_for_gpus(world.smi, world.changes, {"0000:36:00.0", "0000:37:00.0"}, 1, host::Deadline(world.clock, 10s),
                      world.clock));
}

TEST_CASE("a driver that lists no GPU is waited for, and what the PCI bus has is named at the end") {
  for (const host::Exit& said : {exited(0, ""), exited(0, "\n"), exited(0, "No devices were found\n"),
                                 exited(6, "No devices were found\n"), exited(0, "WARNING: infoROM is corrupted\n")}) {
    CAPTURE(said.status, said.out);
    World late;
    late.answer(query, said).answer(query, exited(0, row("Disabled", "Disabled"))).answer("modprobe nvidia", exited(0));
    CHECK(wait_for_gpus(late.smi, late.changes, {"0000:36:00.0"}, std::nullopt, host::Deadline(late.clock, 20s),
                        late.clock));
    World never;
    never.answer(query, said).answer("modprobe nvidia", exited(0));
    const auto gpus = wait_for_gpus(never.smi, never.changes, {"0000:36:00.0"}, std::nullopt,
                                    host::Deadline(never.clock, 20s), never.clock);
    REQUIRE_FALSE(gpus);
    CHECK(gpus.error().code == base::ExitCode::surroundings);
    CHECK(gpus.error().what.find("0000:36:00.0") != std::string::npos);
    CHECK(never.count("--query-gpu") > 3);
    CHECK(never.count("modprobe") == 1);
    World expected;
    expected.answer(query, said).answer("modprobe nvidia", exited(0));
    const auto none =
        wait_for_gpus(expected.smi, expected.changes, {}, 8, host::Deadline(expected.clock, 20s), expected.clock);
    REQUIRE_FALSE(none);
    CHECK(none.error().what.find("8 GPUs") != std::string::npos);
  }
}

TEST_CASE("a driver that comes up late is waited for") {
  World world;
  world.answer(query, exited(9, ""))
      .answer(query, exited(12, ""))
      .answer(query, exited(6, "No devices were found\n"))
      .answer(query, exited(0, row("Disabled", "Disabled")))
      .answer("modprobe nvidia", exited(0));
  CHECK(wait_for_gpus(world.smi, world.changes, {"0000:36:00.0"}, std::nullopt, host::Deadline(world.clock, 120s),
                      world.clock));
}

// ------------------------------------------------------------------ mode
TEST_CASE("'All done.' is no verdict: a mode that did not take is asked for once more and then told as it is") {
  World world;
  world.answer("nvidia-smi -i " + bus + " -mig 1", exited(0, "All done.\n"))
      .answer(query, exited(0, row("Disabled", "Disabled")));
  const auto change = world.changes.set_mode({gpu()}, true);
  REQUIRE(change);
  CHECK_FALSE(change->gpus.front().on());
  CHECK(world.count("-mig 1") == 2);
}

TEST_CASE("a pending mode is told by the query, after one call") {
  World world;
  world.answer("nvidia-smi -i " + bus + " -mig 1", exited(0, "Enabled MIG Mode for GPU 00000000:36:00.0\nAll done.\n"))
      .answer(query, exited(0, row("Disabled", "Enabled")));
  const auto change = world.changes.set_mode({gpu()}, true);
  REQUIRE(change);
  CHECK(change->gpus.front().pending == Mode::enabled);
  CHECK_FALSE(change->gpus.front().on());
  CHECK(world.count("-mig 1") == 1);
}

TEST_CASE("a GPU that shows Enabled after a disable that reported success is not taken for off") {
  World world;
  world.answer("nvidia-smi -i " + bus + " -mig 0", exited(0, "Disabled MIG Mode for GPU 00000000:36:00.0\nAll done.\n"))
      .answer(query, exited(0, row("Enabled", "Enabled")));
  const auto change = world.changes.set_mode({gpu()}, false);
  REQUIRE(change);
  CHECK_FALSE(change->gpus.front().off());
  CHECK(world.count("-mig 0") == 2);
}

TEST_CASE("a mode call that hangs ends the run after one query, with what the modes are") {
  World world;
  world.answer("nvidia-smi -i " + bus + " -mig 1", fakes::timed_out())
      .answer(query, exited(0, row("Disabled", "Enabled")));
  const auto change = world.changes.set_mode({gpu()}, true);
  REQUIRE_FALSE(change);
  CHECK(change.error().code == base::ExitCode::time_out);
  CHECK(change.error().what.find("Disabled, Enabled") != std::string::npos);
  CHECK(world.processes.calls.size() == 2);
  CHECK(world.processes.limits.front() == site::mig_mode_limit + site::mig_mode_limit_per_gpu);
}

TEST_CASE("a GPU that is refused or lost by the mode call is an error, not tried again") {
  World lost;
  lost.answer("nvidia-smi -i " + bus + " -mig 1", exited(15, "GPU is lost"))
      .answer(query, exited(0, row("Disabled", "Disabled")));
  const auto change = lost.changes.set_mode({gpu()}, true);
  REQUIRE_FALSE(change);
  CHECK(change.error().code == base::ExitCode::change);
  CHECK(lost.count("-mig 1") == 1);
  World denied;
  denied.answer("nvidia-smi -i " + bus + " -mig 1", exited(4, "Insufficient Permissions"));
  const auto none = denied.changes.set_mode({gpu()}, true);
  REQUIRE_FALSE(none);
  CHECK(none.error().code == base::ExitCode::surroundings);
}

// ------------------------------------------------------------------ instances
TEST_CASE("a creation that fails half-way is rolled back, and the GPU named as empty") {
  World world;
  world
      .answer(create, exited(23,
                             "Unable to create a GPU instance on GPU  0 using profile 19: Insufficient "
                             "Resources\nFailed to create GPU instances: Insufficient Resources\n"))
      .answer("nvidia-smi mig -i " + bus + " -dci", exited(0))
      .answer("nvidia-smi mig -i " + bus + " -dgi", exited(0))
      .answer("nvidia-smi mig -i " + bus + " -lgi", empty)
      .answer("nvidia-smi mig -lgi", empty)
      .answer("nvidia-smi -L", exited(0, "GPU 0: X (UUID: GPU-1)\n"));
  const auto built = world.changes.build({building()});
  REQUIRE(built);
  CHECK_FALSE(built->outcomes.front().done);
  CHECK(built->outcomes.front().emptied);
  CHECK(built->outcomes.front().error.find("Insufficient Resources") != std::string::npos);
}

TEST_CASE("a creation that says success and did nothing is found by reading back") {
  World world;
  world.answer(create, exited(0, created))
      .answer("nvidia-smi mig -lgi", empty)
      .answer("nvidia-smi -L", exited(0, "GPU 0: X (UUID: GPU-1)\n"))
      .answer("nvidia-smi mig -i " + bus + " -dci", exited(6, "No compute instances found: Not Found\n"))
      .answer("nvidia-smi mig -i " + bus + " -dgi", empty)
      .answer("nvidia-smi mig -i " + bus + " -lgi", empty);
  const auto built = world.changes.build({building()});
  REQUIRE(built);
  CHECK_FALSE(built->outcomes.front().done);
  CHECK(built->outcomes.front().error.find("read back") != std::string::npos);
}

TEST_CASE("a GPU instance that got no compute instance is found by reading back") {
  World world;
  world.answer(create, exited(0, created))
      .answer("nvidia-smi mig -lgi", exited(0, lgi_both))
      .answer("nvidia-smi -L", exited(0, "GPU 0: X (UUID: GPU-1)\n  MIG 3g.71gb     Device  0: (UUID: MIG-a)\n"))
      .answer("nvidia-smi mig -lci",
              exited(0, "|   0      2       MIG 3g.71gb           2         0          0:3     |\n"))
      .answer("nvidia-smi mig -i " + bus + " -dci", exited(0))
      .answer("nvidia-smi mig -i " + bus + " -dgi", exited(0))
      .answer("nvidia-smi mig -i " + bus + " -lgi", empty);
  const auto built = world.changes.build({building()});
  REQUIRE(built);
  CHECK_FALSE(built->outcomes.front().done);
  CHECK(built->gpu_instances.empty());
}

TEST_CASE("a good creation costs one call and two reads") {
  World world;
  world.answer(create, exited(0, created))
      .answer("nvidia-smi mig -lgi", exited(0, lgi_both))
      .answer("nvidia-smi -L", exited(0, l_both));
  const auto built = world.changes.build({building()});
  REQUIRE(built);
  CHECK(built->outcomes.front().done);
  CHECK(world.processes.calls.size() == 3);
  CHECK(built->gpu_instances.size() == 2);
}

TEST_CASE("instances in use are tried three times and then left as they are") {
  World world;
  world
      .answer(
          "nvidia-smi mig -i " + bus + " -dci",
          exited(19,
                 "Unable to destroy compute instance ID  0 from GPU  0 GPU instance ID  2: In use by another client\n"))
      .answer("nvidia-smi mig -lgi", exited(0, lgi_both))
      .answer("nvidia-smi -L", exited(0, l_both));
  GpuPlan plan = building();
  plan.clear = true;
  const auto built = world.changes.build({plan});
  REQUIRE(built);
  CHECK_FALSE(built->outcomes.front().done);
  CHECK_FALSE(built->outcomes.front().emptied);
  CHECK(built->outcomes.front().error.find("In use by another client") != std::string::npos);
  CHECK(world.count("-dci") == 3);
  CHECK(world.count("-dgi") == 0);
  CHECK(world.count("-cgi") == 0);
}

TEST_CASE("a creation that hangs ends the run: the next GPU is not touched") {
  World world;
  world.answer(create, fakes::timed_out()).answer(query, exited(0, row("Enabled", "Enabled")));
  GpuPlan second = second_building();
  second.placements.front().start = 0;  // other places: a call of its own
  const auto built = world.changes.build({building(), second});
  REQUIRE_FALSE(built);
  CHECK(built.error().code == base::ExitCode::time_out);
  CHECK(world.processes.calls.size() == 2);
  CHECK(world.processes.limits.front() == site::mig_mode_limit);
}

TEST_CASE("GPUs that get the same places are made by one call, whose limit grows with their number") {
  World world;
  world.answer(create_both, exited(0, created))
      .answer("nvidia-smi mig -lgi", exited(0, lgi_both + lgi_second))
      .answer("nvidia-smi -L", exited(0, l_both + l_second));
  const auto built = world.changes.build({building(), second_building()});
  REQUIRE(built);
  REQUIRE(built->outcomes.size() == 2);
  CHECK(built->outcomes[0].done);
  CHECK(built->outcomes[1].done);
  CHECK(world.processes.calls.size() == 3);
  CHECK(world.processes.limits.front() == site::mig_mode_limit + site::mig_mode_limit_per_gpu);
}

TEST_CASE("a common creation that hangs ends the run after one query") {
  World world;
  world.answer(create_both, fakes::timed_out()).answer(query, exited(0, row("Enabled", "Enabled")));
  const auto built = world.changes.build({building(), second_building()});
  REQUIRE_FALSE(built);
  CHECK(built.error().code == base::ExitCode::time_out);
  CHECK(world.processes.calls.size() == 2);
}

TEST_CASE("what a common creation left half-way on one GPU is cleared and made again there only") {
  const auto half = GENERATE(true, false);  // else nothing at all is there
  World world;
  world
      .answer(create_both, exited(23,
                                  "Unable to create a GPU instance on GPU  1 using profile 19: Insufficient "
                                  "Resources\nFailed to create GPU instances: Insufficient Resources\n"))
      .answer("nvidia-smi mig -lgi",
              exited(0, lgi_both + (half ? "|   1  MIG 3g.71gb       9        2          4:4     |\n" : "")))
      .answer("nvidia-smi mig -lgi", exited(0, lgi_both + lgi_second))
      .answer("nvidia-smi -L", exited(0, l_both))
      .answer("nvidia-smi -L", exited(0, l_both + l_second))
      .answer("nvidia-smi mig -lci", exited(6, "No compute instances found: Not Found\n"))
      .answer("nvidia-smi mig -i " + second_bus + " -dci", exited(0))
      .answer("nvidia-smi mig -i " + second_bus + " -dgi", exited(0))
      .answer("nvidia-smi mig -i " + second_bus + " -lgi", empty)
      .answer(create_second, exited(0, created));
  const auto built = world.changes.build({building(), second_building()});
  REQUIRE(built);
  CHECK(built->outcomes[0].done);
  CHECK(built->outcomes[1].done);
  CHECK(built->gpu_instances.size() == 4);
  CHECK(world.count("-cgi") == 2);
  CHECK(world.count("-dgi") == (half ? 1 : 0));
  CHECK(world.log.has("WARN GPU 1 (" + second_bus + ")"));
}

TEST_CASE("a GPU that fails in the common call and by itself is rolled back, the other is done") {
  World world;
  const host::Exit refused = exited(23, "Failed to create GPU instances: Insufficient Resources\n");
  world.answer(create_both, refused)
      .answer("nvidia-smi mig -lgi", exited(0, lgi_both))
      .answer("nvidia-smi -L", exited(0, l_both))
      .answer(create_second, refused)
      .answer_roll_back(second_bus, exited(6, "No compute instances found: Not Found\n"), empty);
  const auto built = world.changes.build({building(), second_building()});
  REQUIRE(built);
  CHECK(built->outcomes[0].done);
  CHECK_FALSE(built->outcomes[1].done);
  CHECK(built->outcomes[1].emptied);
  CHECK(built->outcomes[1].error.find("Insufficient Resources") != std::string::npos);
}

TEST_CASE("a GPU that is made again after a common call and still is not right is rolled back") {
  World world;
  world.answer(create_both, exited(0, created))
      .answer("nvidia-smi mig -lgi", exited(0, lgi_both))
      .answer("nvidia-smi -L", exited(0, l_both))
      .answer(create_second, exited(0, created))
      .answer_roll_back(second_bus, exited(6, "No compute instances found: Not Found\n"), empty);
  const auto built = world.changes.build({building(), second_building()});
  REQUIRE(built);
  CHECK(built->outcomes[0].done);
  CHECK_FALSE(built->outcomes[1].done);
  CHECK(built->outcomes[1].error.find("read back") != std::string::npos);
  CHECK(world.count("-cgi") == 2);
}

TEST_CASE("a GPU with instances to clear and one that needs compute instances only stay out of the common call") {
  World world;
  GpuPlan clearing = building();
  clearing.clear = true;
  GpuPlan completing = second_building();
  completing.build = false;
  completing.without_ci = {2};
  world.answer("nvidia-smi mig -i " + bus + " -dci", exited(0))
      .answer("nvidia-smi mig -i " + bus + " -dgi", exited(0))
      .answer("nvidia-smi mig -i " + bus + " -lgi", empty)
      .answer(create, exited(0, created))
      .answer("nvidia-smi mig -i " + second_bus + " -gi 2 -cci", exited(0))
      .answer("nvidia-smi mig -lgi", exited(0, lgi_both + lgi_second))
      .answer("nvidia-smi -L", exited(0, l_both + l_second));
  const auto built = world.changes.build({clearing, completing});
  REQUIRE(built);
  CHECK(built->outcomes[0].done);
  CHECK(built->outcomes[1].done);
}

TEST_CASE("only the missing compute instances are made where the GPU instances are right") {
  World world;
  GpuPlan plan = building();
  plan.build = false;
  plan.without_ci = {2, 7};
  world.answer("nvidia-smi mig -i " + bus + " -gi 2,7 -cci", exited(0))
      .answer("nvidia-smi mig -lgi", exited(0, lgi_both))
      .answer("nvidia-smi -L", exited(0, l_both));
  const auto built = world.changes.build({plan});
  REQUIRE(built);
  CHECK(built->outcomes.front().done);
}

TEST_CASE("a change is not begun with less time than it needs, which is told as a time-out") {
  World world;
  world.answer(query, exited(0, row("Disabled", "Disabled")));
  Smi smi(world.processes, "/usr/bin/nvidia-smi", host::Deadline(world.clock, 14s));  // 4 s before the 10 s kept back
  RealMigChanges late(smi, world.processes, world.clock, world.log, "/usr/sbin/modprobe", 10s, 5s);
  const auto mode = late.set_mode({gpu()}, true);
  REQUIRE_FALSE(mode);
  CHECK(mode.error().code == base::ExitCode::time_out);
  CHECK(mode.error().what.find("not started") != std::string::npos);
  CHECK(mode.error().what.find("Disabled, Disabled") != std::string::npos);
  const auto cleared = late.clear(gpu());
  REQUIRE_FALSE(cleared);
  CHECK(cleared.error().code == base::ExitCode::time_out);
  CHECK_FALSE(late.build({building()}));
  CHECK(world.count("-mig") + world.count("-dci") + world.count("-cgi") == 0);
  RealMigChanges in_time(smi, world.processes, world.clock, world.log, "/usr/sbin/modprobe", 9s, 5s);
  world.answer("nvidia-smi -i " + bus + " -mig 1", exited(0, "All done.\n"));
  CHECK(in_time.set_mode({gpu()}, true));
}

TEST_CASE("no call is made once time is over") {
  World world;
  Smi late(world.processes, "/usr/bin/nvidia-smi", host::Deadline(world.clock, 0s));
  CHECK(late.gpus(60s).answer == Answer::timed_out);
  CHECK(world.processes.calls.empty());
}

TEST_CASE("listings: none, no permission and nonsense are three things") {
  World world;
  world.answer("nvidia-smi mig -lgi", exited(0, captured::h200("lgi")));
  CHECK(world.smi.seen()->gpu_instances.empty());
  CHECK(world.processes.calls.size() == 1);  // -lci is not asked where there is no GPU instance
  World denied;
  denied.answer("nvidia-smi mig -lgi", exited(0, lgi_both))
      .answer("nvidia-smi mig -lci", exited(0, "Failed to display compute instances: Insufficient Permissions\n"));
  const auto seen = denied.smi.seen();
  REQUIRE_FALSE(seen);
  CHECK(seen.error().code == base::ExitCode::surroundings);
  World nonsense;
  nonsense.answer("nvidia-smi mig -lgi", exited(0, "?\n"));
  CHECK_FALSE(nonsense.smi.seen());
}

// ------------------------------------------------------------------ dry run
TEST_CASE("a dry run writes down the calls and answers as if they had worked, without any child") {
  host::Plan plan;
  DryMigChanges dry(plan);
  dry.start_from({gpu()}, {});
  REQUIRE(dry.load_driver(1s));
  const auto mode = dry.set_mode({gpu()}, true);
  REQUIRE(mode);
  CHECK(mode->gpus.front().on());
  const auto built = dry.build({building(), second_building()});
  REQUIRE(built);
  REQUIRE(built->outcomes.size() == 2);
  CHECK(built->outcomes.front().done);
  CHECK(built->gpu_instances.size() == 4);
  REQUIRE(plan.sentences().size() == 3);
  CHECK(plan.sentences()[1].find("-i " + bus + " -mig 1") != std::string::npos);
  CHECK(plan.sentences()[2].find(create_both) != std::string::npos);
}
