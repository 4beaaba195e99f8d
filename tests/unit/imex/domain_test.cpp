// The whole domain: what one look means, how long UP must hold, and when a restart of our own daemon cures a mismatch.
#include "imex/domain.h"

#include <catch2/catch_test_macros.hpp>

#include "domains.h"
#include "fakes/fake_ctl.h"
#include "fakes/memory_log.h"

using namespace std::chrono_literals;
using domains::up;
using domains::with_dead;
using domains::with_pair;
using imex::Link;
using Ids = std::vector<std::size_t>;

namespace {

imex::Verdict judged(const imex::DomainView& view, std::size_t count, std::size_t own = 0) {
  return imex::judge(view, domains::names(count), domains::addresses(count), own);
}

// A node of a domain that waits; every restart of its daemon is counted.
struct World {
  fakes::FakeClock clock;
  fakes::FakeCtl ctl{clock};
  fakes::MemoryLog log;
  imex::DomainTask task;
  imex::DomainHands hands;
  int restarts = 0;
  std::vector<host::milliseconds> restarted_at;
  std::function<void()> after_restart = [] {};

  explicit World(std::size_t nodes, std::size_t own = 0) {
    task = {domains::names(nodes), domains::addresses(nodes), own, 50005, 3s};
    hands.restart = [this] {
      ++restarts;
      restarted_at.push_back(ctl.now());
      after_restart();
      return base::Result<bool>(true);
    };
    hands.still_ours = [] { return base::Result<bool>(true); };
  }
  base::Result<imex::DomainOutcome> wait(host::milliseconds limit = 60s) {
    return imex::await_domain(ctl, clock, log, task, hands, host::Deadline(clock, limit),
                              host::Deadline(clock, limit + task.settle));
  }
};

base::Result<imex::DomainView> no_answer() {
  return base::Error{base::ExitCode::source, "nvidia-imex-ctl -i: exit 255: error code: 14", ""};
}

base::Result<imex::DomainView> hang() {
  return base::Error{base::ExitCode::time_out, "nvidia-imex-ctl -N -j: no end after 5 s, so it was stopped", ""};
}

// What a daemon that still has the previous job's list shows.
imex::DomainView other_list() { return domains::of({"10.0.0.2", "10.0.0.9"}); }

imex::DomainView mismatch() { return with_pair(up(2), 0, 1, Link::map_mismatch); }

}  // namespace

// --- judge -----------------------------------------------------------------------------------------------

TEST_CASE("a domain of other nodes than our list is not ours, however healthy") {
  for (const auto& list :
       {domains::addresses(3), domains::addresses(1), std::vector<std::string>{"10.0.0.2", "10.0.0.1"},
        std::vector<std::string>{"10.0.0.1", "10.0.0.9"}}) {
    const auto verdict = judged(domains::of(list), 2);
    CHECK(verdict.other_list);
    CHECK_FALSE(verdict.up);
    CHECK(verdict.told.find("not this job's list of 2") != std::string::npos);
  }
}

TEST_CASE("one dead node is one finding, without its pairs") {
  const auto verdict = judged(with_dead(up(18), 6), 18);
  CHECK_FALSE(verdict.up);
  CHECK(verdict.not_ready == Ids{6});
  CHECK(verdict.unconnected.empty());
  CHECK(verdict.told == "ultra-7 (10.0.0.7) is UNAVAILABLE");
}

TEST_CASE("our own dead daemon counts like any other") {
  const auto verdict = judged(with_dead(up(2), 0), 2, 0);
  CHECK_FALSE(verdict.up);
  CHECK(verdict.not_ready == Ids{0});
}

TEST_CASE("one pair that is not connected, in one direction only, is enough") {
  auto view = up(18);
  view.links[3][4] = Link::recovering;
  const auto verdict = judged(view, 18);
  CHECK_FALSE(verdict.up);
  REQUIRE(verdict.unconnected.size() == 1);
  CHECK(verdict.unconnected[0] == std::pair<std::size_t, std::size_t>{3, 4});
  CHECK(verdict.told == "not connected: ultra-4 (10.0.0.4) to ultra-5 (10.0.0.5) R");
}

TEST_CASE("every word but connected is not connected, unknown ones included") {
  for (const Link link : {Link::never, Link::invalid, Link::recovering, Link::disconnected, Link::authenticating,
                          Link::version_mismatch, Link::map_mismatch, Link::unknown}) {
    CHECK_FALSE(judged(with_pair(up(2), 0, 1, link), 2).up);
  }
}

TEST_CASE("a status that is not READY, unknown ones included, is not READY") {
  for (const char* status : {"", "WAITING_FOR_PEERS", "ready", "READY?", "UNAVAILABLE"}) {
    auto view = up(2);
    view.nodes[1].status = status;
    CHECK_FALSE(judged(view, 2).up);
  }
}

TEST_CASE("a mismatch is our own only where our daemon holds it") {
  auto view = up(3);
  view.links[0][1] = Link::map_mismatch;
  CHECK(judged(view, 3, 0).own_mismatch == Ids{1});
  CHECK(judged(view, 3, 1).own_mismatch.empty());
  CHECK(judged(view, 3, 2).own_mismatch.empty());
}

TEST_CASE("a table without a fault whose state is not UP is not up, and says so") {
  auto view = up(2);
  view.state = "DOWN";
  const auto verdict = judged(view, 2);
  CHECK_FALSE(verdict.up);
  CHECK(verdict.told == "every pair of peers is shown as connected, but the domain state is DOWN");
}

TEST_CASE("many faults are told as six and a number") {
  auto view = up(18);
  for (std::size_t id = 1; id < 18; ++id) view = with_dead(view, id);
  const auto verdict = judged(view, 18);
  CHECK(verdict.told.find("ultra-7 (10.0.0.7) is UNAVAILABLE and 11 more") != std::string::npos);
  CHECK(verdict.told.find("ultra-8") == std::string::npos);
}

TEST_CASE("every node READY and every pair connected is up; what a node says of itself does not count") {
  auto view = up(18);
  view.links[5][5] = Link::unknown;
  CHECK(judged(view, 18).up);
  CHECK(judged(view, 18).told == "all 18 nodes READY, every pair connected");
  view.state = "";  // a release that prints none
  CHECK(judged(view, 18).up);
}

TEST_CASE("addresses in another spelling are the same; names cannot be compared and are trusted") {
  auto view = domains::of({"fd00:0::1", "ultra-2.example"});
  CHECK_FALSE(imex::judge(view, {"a", "b"}, {"fd00::1", "10.0.0.2"}, 0).other_list);
}

// --- await_peers_released --------------------------------------------------------------------------------

TEST_CASE("a peer that holds another list to the end is named in a warning, and we go on") {
  World world(3);
  world.ctl.peer_shows("10.0.0.2", 0s, other_list()).peer_shows("10.0.0.3", 0s, up(3));
  const auto released =
      imex::await_peers_released(world.ctl, world.clock, world.log, world.task, host::Deadline(world.clock, 10s));
  CHECK(released.still_held == std::vector<std::string>{"ultra-2 (10.0.0.2)"});
  CHECK(released.asked_long == released.still_held);
  CHECK(world.log.has("WARN another list is still held by ultra-2 (10.0.0.2)"));
  CHECK(world.ctl.now() == 10s);
}

TEST_CASE("peers that hang cost no more than the deadline") {
  World world(2);
  world.ctl.peer_shows("10.0.0.2", 0s, hang());
  const auto released =
      imex::await_peers_released(world.ctl, world.clock, world.log, world.task, host::Deadline(world.clock, 500ms));
  CHECK(released.still_held.empty());
  CHECK(world.ctl.now() == 500ms);
}

TEST_CASE("a stop signal ends the wait for peers") {
  World world(2);
  world.ctl.peer_shows("10.0.0.2", 0s, other_list());
  world.clock.interrupted = true;
  imex::await_peers_released(world.ctl, world.clock, world.log, world.task, host::Deadline(world.clock, 30s));
  CHECK(world.ctl.now() < 1s);
}

TEST_CASE("a peer's old daemon is waited for until its own prolog has stopped it, and only that one is asked again") {
  World world(4, 1);
  world.ctl.peer_shows("10.0.0.1", 0s, up(4))
      .peer_shows("10.0.0.3", 0s, other_list())
      .peer_shows("10.0.0.3", 3s, no_answer());
  world.ctl.peer_shows("10.0.0.4", 0s, no_answer());
  const auto released =
      imex::await_peers_released(world.ctl, world.clock, world.log, world.task, host::Deadline(world.clock, 30s));
  CHECK(released.asked_long == std::vector<std::string>{"ultra-3 (10.0.0.3)"});
  CHECK(released.still_held.empty());
  CHECK(world.ctl.now() >= 3s);
  CHECK(world.ctl.now() <= 4s);
  CHECK(world.log.has("INFO waiting until the daemons of another list are gone: ultra-3 (10.0.0.3)"));
  CHECK(world.ctl.peers_asked.front() == std::vector<std::string>{"10.0.0.1", "10.0.0.3", "10.0.0.4"});
  for (std::size_t i = 1; i < world.ctl.peers_asked.size(); ++i)
    CHECK(world.ctl.peers_asked[i] == std::vector<std::string>{"10.0.0.3"});
  CHECK(world.ctl.ports.front() == 50005);
  CHECK(imex::describe(released) == "waited for the old daemons of ultra-3 (10.0.0.3)");
}

TEST_CASE("peers that hold our list, or do not answer, hold nothing against us") {
  World world(3);
  world.ctl.peer_shows("10.0.0.2", 0s, up(3)).peer_shows("10.0.0.3", 0s, no_answer());
  const auto released =
      imex::await_peers_released(world.ctl, world.clock, world.log, world.task, host::Deadline(world.clock, 30s));
  CHECK(imex::describe(released) == "no peer's daemon holds another list");
  CHECK(world.clock.slept == 0ms);
  CHECK(world.log.lines.empty());
}

TEST_CASE("a domain of one node has no peers to ask") {
  World world(1);
  imex::await_peers_released(world.ctl, world.clock, world.log, world.task, host::Deadline(world.clock, 30s));
  CHECK(world.ctl.peers_asked.empty());
}

// --- await_domain: endings -------------------------------------------------------------------------------

TEST_CASE("time that runs out is no error here: the outcome names the peers") {
  World world(18);
  world.ctl.shows(0s, with_dead(up(18), 2));
  const auto outcome = world.wait(10s);
  REQUIRE(outcome);
  CHECK_FALSE(outcome->up);
  CHECK_FALSE(outcome->mismatch);
  CHECK(outcome->told == "ultra-3 (10.0.0.3) is UNAVAILABLE");
  CHECK(imex::describe(*outcome) == "not up: ultra-3 (10.0.0.3) is UNAVAILABLE");
  CHECK(world.ctl.now() == 10s);
  CHECK(world.restarts == 0);
}

TEST_CASE("a tool that hangs does not outlast the deadline") {
  World world(2);
  world.ctl.shows(0s, hang());
  const auto outcome = world.wait(12s);
  REQUIRE(outcome);
  CHECK_FALSE(outcome->up);
  CHECK(outcome->told.find("no end after 5 s") != std::string::npos);
  CHECK(world.ctl.now() <= 12s + 100ms);
}

TEST_CASE("a daemon that shows another list is never up and never restarted") {
  World world(2);
  world.ctl.shows(0s, other_list());
  const auto outcome = world.wait(10s);
  REQUIRE(outcome);
  CHECK_FALSE(outcome->up);
  CHECK(world.restarts == 0);
}

TEST_CASE("a domain that the job's epilog has ended is waited for no longer") {
  World world(2);
  world.ctl.shows(0s, with_dead(up(2), 1));
  world.hands.still_ours = [&] { return base::Result<bool>(world.ctl.now() < 4s); };
  const auto outcome = world.wait();
  REQUIRE(outcome);
  CHECK(outcome->ended);
  CHECK_FALSE(outcome->up);
  CHECK(outcome->told == "the job's epilog has ended the domain");
  CHECK(world.ctl.now() < 6s);
}

TEST_CASE("a daemon that died ends the wait with its error") {
  World world(2);
  world.ctl.shows(0s, with_dead(up(2), 1));
  world.hands.still_ours = [&]() -> base::Result<bool> {
    if (world.ctl.now() < 4s) return true;
    return base::Error{base::ExitCode::change, "the daemon died", ""};
  };
  const auto outcome = world.wait();
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().what == "the daemon died");
}

TEST_CASE("a stop signal ends the wait for the domain") {
  World world(2);
  world.ctl.shows(0s, with_dead(up(2), 1));
  world.clock.interrupted = true;
  const auto outcome = world.wait();
  REQUIRE(outcome);
  CHECK_FALSE(outcome->up);
  CHECK(world.ctl.now() < 1s);
}

// --- await_domain: settling ------------------------------------------------------------------------------

TEST_CASE("UP that does not hold is counted anew") {
  World world(2);
  world.ctl.shows(0s, up(2)).shows(2s, with_dead(up(2), 1)).shows(4s, up(2));
  const auto outcome = world.wait();
  REQUIRE(outcome);
  CHECK(outcome->up);
  CHECK(world.ctl.now() >= 7s);
  CHECK(world.ctl.now() <= 8500ms);
}

TEST_CASE("a look that gave no answer breaks the holding too") {
  World world(2);
  world.ctl.shows(0s, up(2)).shows(2s, no_answer()).shows(2500ms, up(2));
  REQUIRE(world.wait());
  CHECK(world.ctl.now() >= 5500ms);
}

TEST_CASE("a domain that is UP from the first look is up after it has settled") {
  World world(18);
  world.ctl.shows(0s, up(18));
  const auto outcome = world.wait();
  REQUIRE(outcome);
  CHECK(outcome->up);
  CHECK(world.ctl.now() >= 3s);
  CHECK(world.ctl.now() <= 3500ms);
  CHECK(imex::describe(*outcome) == "UP: all 18 nodes READY, every pair connected");
}

TEST_CASE("without a settling time one look is enough") {
  World world(18);
  world.task.settle = 0ms;
  world.ctl.shows(0s, up(18));
  const auto outcome = world.wait();
  REQUIRE(outcome);
  CHECK(outcome->up);
  CHECK(world.ctl.looks == 1);
  CHECK(world.clock.slept == 0ms);
}

TEST_CASE("a long wait is told every ten seconds, with who is missing") {
  World world(2);
  world.ctl.shows(0s, with_dead(up(2), 1));
  REQUIRE(world.wait(25s));
  int told = 0;
  for (const std::string& line : world.log.lines)
    told += line.find("INFO waiting for the domain since ") == 0 && line.find("ultra-2") != std::string::npos ? 1 : 0;
  CHECK(told == 2);
}

// --- await_domain: the mismatch --------------------------------------------------------------------------

TEST_CASE("a mismatch with a peer that stays as it was is not cured by restarting us") {
  World world(2);
  world.ctl.shows(0s, mismatch()).peer_shows("10.0.0.2", 0s, other_list());
  const auto outcome = world.wait(20s);
  REQUIRE(outcome);
  CHECK_FALSE(outcome->up);
  CHECK(outcome->mismatch);
  CHECK(world.restarts == 0);
  CHECK(world.log.has("WARN node map mismatch (!M!) with ultra-2 (10.0.0.2)"));
}

TEST_CASE("a peer that is gone and has not come back is no reason to restart us") {
  World world(2);
  world.ctl.shows(0s, mismatch()).shows(2s, with_pair(with_dead(up(2), 1), 0, 1, Link::map_mismatch));
  world.ctl.peer_shows("10.0.0.2", 0s, other_list());
  REQUIRE(world.wait(20s));
  CHECK(world.restarts == 0);
}

TEST_CASE("a mismatch between two other nodes is theirs to cure") {
  World world(3);
  world.ctl.shows(0s, with_pair(up(3), 1, 2, Link::map_mismatch));
  const auto outcome = world.wait(10s);
  REQUIRE(outcome);
  CHECK(outcome->mismatch);
  CHECK(world.restarts == 0);
  CHECK(world.ctl.peers_asked.empty());
}

TEST_CASE("a mismatch that no restart cures is tried twice and no more") {
  World world(2);
  world.ctl.shows(0s, mismatch()).peer_shows("10.0.0.2", 0s, up(2));
  const auto outcome = world.wait(60s);
  REQUIRE(outcome);
  CHECK(world.restarts == 2);
  CHECK(outcome->restarts == 2);
  CHECK(outcome->mismatch);
  CHECK_FALSE(outcome->up);
  CHECK(imex::describe(*outcome).find("restarted 2 times") != std::string::npos);
}

TEST_CASE("a restart that fails ends the wait with its error") {
  World world(2);
  world.ctl.shows(0s, mismatch()).peer_shows("10.0.0.2", 0s, up(2));
  world.hands.restart = [] {
    return base::Result<bool>(base::Error{base::ExitCode::change, "unit did not start", ""});
  };
  const auto outcome = world.wait();
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().what == "unit did not start");
}

TEST_CASE("what our own daemon refuses is told also of a peer that is not READY: it may be the cause") {
  const auto verdict = judged(with_dead(with_pair(up(3), 0, 2, Link::map_mismatch), 2), 3);
  // with_dead makes every cell of that node I; a daemon that refuses it goes on showing why.
  const auto refused = judged(with_pair(with_dead(up(3), 2), 0, 2, Link::map_mismatch), 3);
  CHECK(verdict.told.find("not connected") == std::string::npos);
  CHECK(refused.told.find("ultra-3 (10.0.0.3) is ") != std::string::npos);
  CHECK(refused.told.find("not connected: ultra-1 (10.0.0.1) to ultra-3 (10.0.0.3) !M!") != std::string::npos);
}

TEST_CASE("nodes of different versions are told as such, with or without their being READY") {
  for (const auto& view :
       {with_pair(up(2), 0, 1, Link::version_mismatch), with_pair(with_dead(up(2), 1), 0, 1, Link::version_mismatch)}) {
    World world(2);
    world.ctl.shows(0s, view);
    const auto outcome = world.wait(5s);
    REQUIRE(outcome);
    CHECK(outcome->versions_differ);
    CHECK_FALSE(outcome->mismatch);
    CHECK(outcome->told.find("!V!") != std::string::npos);
  }
}

TEST_CASE("a restart that is not begun for want of time is not asked for again and ends nothing") {
  World world(2);
  world.ctl.shows(0s, mismatch()).peer_shows("10.0.0.2", 0s, up(2));
  int asked = 0;
  world.hands.restart = [&] {
    ++asked;
    return base::Result<bool>(false);
  };
  const auto outcome = world.wait(20s);
  REQUIRE(outcome);
  CHECK(asked == 1);
  CHECK(outcome->restarts == 0);
  CHECK(outcome->mismatch);
  CHECK_FALSE(outcome->up);
  CHECK(world.clock.now().time_since_epoch() >= 20s);  // and the wait goes on
}

TEST_CASE("a domain that comes up less than the settle time before the limit may settle after it") {
  World world(2);
  world.ctl.shows(0s, with_dead(up(2), 1)).shows(9s, up(2));
  const auto outcome = world.wait(10s);
  REQUIRE(outcome);
  CHECK(outcome->up);
  CHECK(world.ctl.now() >= 12s);
  CHECK(world.ctl.now() <= 13s);
}

TEST_CASE("a domain that has no time to settle is told as connected since when, not as missing anybody") {
  World world(2);
  world.ctl.shows(0s, with_dead(up(2), 1)).shows(9s, up(2));
  const auto outcome = imex::await_domain(world.ctl, world.clock, world.log, world.task, world.hands,
                                          host::Deadline(world.clock, 10s), host::Deadline(world.clock, 10s));
  REQUIRE(outcome);
  CHECK_FALSE(outcome->up);
  CHECK(outcome->told.starts_with("all 2 nodes READY, every pair connected, but only for "));
  CHECK(outcome->told.find(" so far; it has to hold for 3") != std::string::npos);
}

TEST_CASE("a domain that ends while we hold back for our turn is not restarted") {
  World world(18, 17);
  world.ctl.shows(0s, with_pair(up(18), 17, 0, Link::map_mismatch)).peer_shows("10.0.0.1", 0s, up(18));
  world.hands.still_ours = [&] { return base::Result<bool>(world.ctl.now() < 1s); };
  const auto outcome = world.wait();
  REQUIRE(outcome);
  CHECK(outcome->ended);
  CHECK(world.restarts == 0);
}

TEST_CASE("a mismatch that comes after the domain was UP restarts nobody") {
  World world(2);
  world.ctl.shows(0s, up(2)).shows(3500ms, mismatch()).peer_shows("10.0.0.2", 0s, up(2));
  const auto outcome = world.wait();
  REQUIRE(outcome);
  CHECK(outcome->up);
  CHECK(world.restarts == 0);
}

TEST_CASE("a mismatch that comes after the domain was seen UP restarts nobody, settled or not") {
  World world(2);
  world.ctl.shows(0s, up(2)).shows(1s, with_dead(up(2), 1)).shows(2s, mismatch()).peer_shows("10.0.0.2", 0s, up(2));
  const auto outcome = world.wait(20s);
  REQUIRE(outcome);
  CHECK_FALSE(outcome->up);
  CHECK(outcome->mismatch);
  CHECK(world.restarts == 0);
  CHECK(world.log.has("WARN node map mismatch (!M!) with ultra-2 (10.0.0.2): it has taken another list after"));
}

TEST_CASE("a peer that has gone and come back is met anew: our restart lifts the block") {
  World world(2);
  world.ctl.shows(0s, mismatch()).shows(2s, with_dead(up(2), 1)).shows(5s, mismatch());
  world.ctl.peer_shows("10.0.0.2", 0s, no_answer());  // its command port is closed to us
  world.after_restart = [&] { world.ctl.shows(world.ctl.now(), up(2)); };
  const auto outcome = world.wait();
  REQUIRE(outcome);
  CHECK(outcome->up);
  CHECK_FALSE(outcome->mismatch);
  REQUIRE(world.restarts == 1);
  CHECK(world.restarted_at[0] >= 5s);
  CHECK(imex::describe(*outcome).find("restarted once") != std::string::npos);
}

TEST_CASE("a peer whose daemon says that it holds our list need not be seen gone") {
  World world(2);
  world.ctl.shows(0s, mismatch()).peer_shows("10.0.0.2", 0s, other_list()).peer_shows("10.0.0.2", 4s, mismatch());
  world.after_restart = [&] { world.ctl.shows(world.ctl.now(), up(2)); };
  const auto outcome = world.wait();
  REQUIRE(outcome);
  CHECK(outcome->up);
  REQUIRE(world.restarts == 1);
  CHECK(world.restarted_at[0] >= 4s);
  REQUIRE_FALSE(world.ctl.ports.empty());
  CHECK(world.ctl.ports.back() == 50005);
}

TEST_CASE("one restart for all blocked peers: it waits until the last of them has the new list") {
  World world(3);
  world.ctl.shows(0s, with_pair(with_pair(up(3), 0, 1, Link::map_mismatch), 0, 2, Link::map_mismatch));
  world.ctl.peer_shows("10.0.0.2", 0s, up(3))
      .peer_shows("10.0.0.3", 0s, other_list())
      .peer_shows("10.0.0.3", 6s, up(3));
  world.after_restart = [&] { world.ctl.shows(world.ctl.now(), up(3)); };
  const auto outcome = world.wait();
  REQUIRE(outcome);
  CHECK(outcome->up);
  REQUIRE(world.restarts == 1);
  CHECK(world.restarted_at[0] >= 6s);
}

TEST_CASE("a blocked peer that never gets the new list does not keep the others from being cured while there is time") {
  World world(3);
  world.ctl.shows(0s, with_pair(with_pair(up(3), 0, 1, Link::map_mismatch), 0, 2, Link::map_mismatch));
  world.ctl.peer_shows("10.0.0.2", 0s, up(3)).peer_shows("10.0.0.3", 0s, other_list());
  world.after_restart = [&] { world.ctl.shows(world.ctl.now(), with_pair(up(3), 0, 2, Link::map_mismatch)); };
  const auto outcome = world.wait(60s);
  REQUIRE(outcome);
  CHECK_FALSE(outcome->up);
  CHECK(outcome->mismatch);
  CHECK(world.restarts == 1);
  CHECK(world.restarted_at.at(0) >= 40s);
}

TEST_CASE("nodes that restart at once do so one after the other, by their place in the list") {
  std::vector<host::milliseconds> when;
  for (const std::size_t own : {0U, 1U, 17U}) {
    World world(18, own);
    const std::size_t peer = own == 0 ? 1 : 0;
    world.ctl.shows(0s, with_pair(up(18), own, peer, Link::map_mismatch));
    world.ctl.peer_shows(domains::addresses(18)[peer], 0s, up(18));
    world.after_restart = [&] { world.ctl.shows(world.ctl.now(), up(18)); };
    REQUIRE(world.wait());
    REQUIRE(world.restarts == 1);
    when.push_back(world.restarted_at[0]);
  }
  CHECK(when[0] < when[1]);
  CHECK(when[1] < when[2]);
  CHECK(when[2] - when[0] < 5s);
}
