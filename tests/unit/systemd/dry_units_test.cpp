// A dry run's unit: FakeUnits throws at every change, so that each test also shows that none reaches systemd.
#include "systemd/dry_units.h"

#include <catch2/catch_test_macros.hpp>

#include "fakes/fake_clock.h"
#include "fakes/fake_units.h"

using namespace std::chrono_literals;
using Sentences = std::vector<std::string>;

namespace {

struct World {
  fakes::FakeClock clock;
  host::Plan plan;
  fakes::FakeUnits* real = nullptr;
  std::unique_ptr<systemd::DryUnits> dry;

  World() {
    auto owned = std::make_unique<fakes::FakeUnits>();
    real = owned.get();
    dry = std::make_unique<systemd::DryUnits>(std::move(owned), plan);
  }
  host::Deadline deadline() const { return {clock, 60s}; }
};

}  // namespace

TEST_CASE("reads ask the true unit, and its errors stay errors") {
  World world;
  world.real->word = base::Error{base::ExitCode::change, "no answer", ""};
  world.real->now = base::Error{base::ExitCode::change, "no state", ""};
  CHECK_FALSE(world.dry->enabled("nvidia-imex"));
  CHECK_FALSE(world.dry->state("nvidia-imex"));
  CHECK_FALSE(world.dry->cancel_queued_job("nvidia-imex"));
  CHECK(world.plan.sentences().empty());
}

TEST_CASE("changes are planned in order, come out as intended and change nothing") {
  World world;
  world.real->now->queued_job = 4711;
  REQUIRE(world.dry->cancel_queued_job("nvidia-imex"));
  REQUIRE(world.dry->stop_and_wait("nvidia-imex", world.deadline(), 15s));
  const auto started = world.dry->start_and_confirm("nvidia-imex", world.deadline(), 60s);
  REQUIRE(started);
  CHECK(started->main_pid == 0);
  CHECK(world.plan.sentences() == Sentences{"would cancel the queued systemd job of unit nvidia-imex",
                                            "would stop unit nvidia-imex and wait until it is gone",
                                            "would start unit nvidia-imex and check that its daemon lives"});
  CHECK(world.real->changes.empty());
}

TEST_CASE("nothing queued is nothing to cancel") {
  World world;
  REQUIRE(world.dry->cancel_queued_job("nvidia-imex"));
  CHECK(world.plan.sentences().empty());
}

TEST_CASE("after the planned start the unit reads as active") {
  World world;
  world.real->now = fakes::ended_unit("inactive", "success");
  CHECK(world.dry->state("nvidia-imex")->active == "inactive");
  REQUIRE(world.dry->start_and_confirm("nvidia-imex", world.deadline(), 60s));
  CHECK(world.dry->state("nvidia-imex")->active == "active");
}
