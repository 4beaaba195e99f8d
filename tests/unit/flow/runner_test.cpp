// Steps cannot fail in silence: each is named, timed, logged and recorded by the runner.
#include "flow/runner.h"

#include <catch2/catch_test_macros.hpp>

#include "fakes/fake_clock.h"
#include "fakes/memory_log.h"

using namespace std::chrono_literals;
using Outcome = flow::StepRecord::Outcome;

namespace {

struct Made {
  int count = 0;
};
std::string describe(const Made& made) { return "made " + std::to_string(made.count); }

struct World {
  fakes::FakeClock clock;
  fakes::MemoryLog log;
  flow::Report report;
  flow::Runner run{log, clock, report};
};

const base::Error full_disk{base::ExitCode::change, "cannot write /etc/x: No space left on device",
                            "free some space in /etc"};

}  // namespace

TEST_CASE("a failed step is logged as an error with cause, cure and time, and comes back to the caller") {
  World world;
  const auto result = world.run.step("write", [&]() -> base::Result<Made> {
    world.clock.pass(1500ms);
    return full_disk;
  });
  REQUIRE_FALSE(result);
  CHECK(result.error().what == full_disk.what);
  CHECK(world.log.has(
      "ERROR write failed after 1.50 s: cannot write /etc/x: No space left on device; free some space in /etc"));
  REQUIRE(world.report.steps.size() == 1);
  CHECK(world.report.steps[0].name == "write");
  CHECK(world.report.steps[0].outcome == Outcome::failed);
  CHECK(world.report.steps[0].took == 1500ms);
}

TEST_CASE("a failure that a step has told is not told twice") {
  World world;
  const auto result = world.run.step("write", [&]() -> base::Result<Made> { return full_disk; });
  world.run.fail(result.error());
  int told = 0;
  for (const std::string& line : world.log.lines) told += line.starts_with("ERROR") ? 1 : 0;
  CHECK(told == 1);
  REQUIRE(world.report.error);
  CHECK(world.report.error->what == full_disk.what);
}

TEST_CASE("a failure that no step told is told by the ending") {
  World world;
  SECTION("before any step") {}
  SECTION("after a step that worked") {
    REQUIRE(world.run.step("write", [] { return base::Result<Made>(Made{1}); }));
  }
  SECTION("after a failed step that a later one made good") {
    CHECK_FALSE(world.run.step("a", [&]() -> base::Result<Made> {
      return base::Error{base::ExitCode::change, "other", ""};
    }));
    REQUIRE(world.run.step("b", [] { return base::Result<Made>(Made{1}); }));
  }
  world.run.fail(full_disk);
  CHECK(world.log.lines.back() == "ERROR cannot write /etc/x: No space left on device; free some space in /etc");
}

TEST_CASE("a step that worked is told in its value's own words, with its time") {
  World world;
  const auto result = world.run.step("make", [&] {
    world.clock.pass(12ms);
    return base::Result<Made>(Made{3});
  });
  REQUIRE(result);
  CHECK(result->count == 3);
  CHECK(world.log.lines == std::vector<std::string>{"DEBUG make: started", "INFO make: made 3 (12 ms)"});
  REQUIRE(world.report.steps.size() == 1);
  CHECK(world.report.steps[0].outcome == Outcome::done);
  CHECK(world.report.steps[0].detail == "made 3");
}

TEST_CASE("a step with nothing to say is done") {
  World world;
  REQUIRE(world.run.step("check", [] { return base::ok(); }));
  CHECK(world.report.steps[0].detail == "done");
}

TEST_CASE("steps are recorded in the order in which they ran") {
  World world;
  REQUIRE(world.run.step("a", [] { return base::ok(); }));
  CHECK_FALSE(world.run.step("b", [] { return base::Status(full_disk); }));
  REQUIRE(world.run.step("c", [] { return base::ok(); }));
  std::string names;
  for (const auto& step : world.report.steps) names += step.name;
  CHECK(names == "abc");
}

TEST_CASE("a step that only planned a change is told as one that would be done, the others as done") {
  World world;
  host::Plan plan;
  world.run.watch(plan);
  const auto looked = world.run.step("look", [&]() -> base::Result<Made> { return Made{1}; });
  const auto wrote = world.run.step("write", [&]() -> base::Result<Made> {
    plan.add("would replace /etc/x");
    return Made{2};
  });
  REQUIRE(looked);
  REQUIRE(wrote);
  CHECK(world.report.steps[0].outcome == Outcome::done);
  CHECK(world.report.steps[1].outcome == Outcome::would);
}
