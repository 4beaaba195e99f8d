#include "slurm/ask_scontrol.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "captured.h"
#include "fakes/fake_clock.h"
#include "fakes/fake_processes.h"
#include "fakes/memory_log.h"

using namespace slurm;
using namespace std::chrono_literals;
using Names = std::vector<std::string>;

namespace {

const std::string getaddrs = "scontrol getaddrs node[1-2]";
const std::string show_node = "scontrol -ao show node node[1-2]";
const std::string good =
    "NodeName=node1 NodeAddr=10.88.0.1 NodeHostName=node1\nNodeName=node2 NodeAddr=node2 NodeHostName=node2\n";

struct World {
  fakes::FakeClock clock;
  fakes::FakeProcesses processes{clock};
  fakes::MemoryLog log;
  host::milliseconds deadline = 100s;

  World& answer(const std::string& line, host::Exit exit) {
    processes.answer(line, std::move(exit));
    return *this;
  }
  base::Result<std::vector<NodeAddress>> ask(const Names& nodes = {"node1", "node2"}) {
    return node_addresses(processes, clock, log, "/usr/bin/scontrol", nodes, host::Deadline(clock, deadline));
  }
};

host::Exit interrupted() {
  host::Exit exit;
  exit.ending = host::Exit::Ending::interrupted;
  return exit;
}

host::Exit not_started() {
  host::Exit exit;
  exit.ending = host::Exit::Ending::not_started;
  exit.status = ENOEXEC;
  return exit;
}

}  // namespace

TEST_CASE("an unknown node is final, and every node sees it alike") {
  World world;
  world.answer("scontrol getaddrs node1,nosuch",
               fakes::exited(0, captured::after_command("26.05", "scontrol getaddrs node1,nosuch")));
  world.answer("scontrol -ao show node node1,nosuch",
               fakes::exited(1, captured::answer("26.05", "scontrol-ao-show-node-partly.txt")));
  const auto addresses = world.ask({"node1", "nosuch"});
  REQUIRE_FALSE(addresses);
  CHECK(addresses.error().code == base::ExitCode::source);
  CHECK(addresses.error().blame == base::Blame::shared);
  CHECK(addresses.error().what == "Slurm does not know node nosuch");
  CHECK(world.processes.calls.size() == 2);
  CHECK(world.clock.slept == 0ms);
}

TEST_CASE("a short answer is final") {
  World world;
  world.answer(getaddrs, fakes::exited(0)).answer(show_node, fakes::exited(0, "NodeName=node1 NodeAddr=10.88.0.1\n"));
  const auto addresses = world.ask();
  REQUIRE_FALSE(addresses);
  CHECK(addresses.error().code == base::ExitCode::source);
  CHECK(addresses.error().blame == base::Blame::shared);
  CHECK(world.processes.calls.size() == 2);
}

TEST_CASE("every try timed out: time ran out, for every node of the job alike") {
  World world;
  world.answer(getaddrs, fakes::timed_out()).answer(show_node, fakes::timed_out());
  const auto addresses = world.ask();
  REQUIRE_FALSE(addresses);
  CHECK(addresses.error().code == base::ExitCode::time_out);
  CHECK(addresses.error().blame == base::Blame::shared);
  CHECK(world.processes.calls == Names{getaddrs, show_node, show_node, show_node});
  CHECK(world.processes.limits == std::vector<host::milliseconds>{10s, 10s, 10s, 10s});
  CHECK(world.clock.slept == 3s);
  CHECK(world.clock.now().time_since_epoch() == 43s);
}

TEST_CASE("every try failed otherwise: scontrol's own words are told") {
  for (const std::string name : {"scontrol-ctld-down.txt", "scontrol-munge-down.txt"}) {
    World world;
    const std::string words = captured::answer("25.11", name);
    world.answer(getaddrs, fakes::exited(0)).answer(show_node, fakes::exited(1, "", words));
    const auto addresses = world.ask();
    REQUIRE_FALSE(addresses);
    CHECK(addresses.error().code == base::ExitCode::source);
    CHECK(world.processes.calls.size() == 4);
    CHECK(addresses.error().what.find(name == "scontrol-ctld-down.txt" ? "Unable to contact slurm controller"
                                                                       : "munge") != std::string::npos);
    CHECK(addresses.error().what.find('\n') == std::string::npos);
  }
}

TEST_CASE("some tries timed out and some failed: the source gave no answer") {
  World world;
  world.answer(getaddrs, fakes::timed_out());
  world.answer(show_node, fakes::timed_out())
      .answer(show_node, fakes::exited(1, "", "no"))
      .answer(show_node, fakes::timed_out());
  CHECK(world.ask().error().code == base::ExitCode::source);
}

TEST_CASE("the deadline ends it, whichever try it falls into") {
  for (const auto deadline : {0s, 1s, 9s, 10s, 11s, 20s, 21s, 32s}) {
    World world;
    world.deadline = deadline;
    world.answer(getaddrs, fakes::timed_out()).answer(show_node, fakes::timed_out());
    const auto addresses = world.ask();
    CAPTURE(deadline.count());
    REQUIRE_FALSE(addresses);
    CHECK(addresses.error().code == base::ExitCode::time_out);
    CHECK(world.clock.now().time_since_epoch() == deadline);
    for (const auto limit : world.processes.limits) CHECK(limit > 0ms);
  }
  World over;
  over.deadline = 0s;
  CHECK_FALSE(over.ask());
  CHECK(over.processes.calls.empty());
}

TEST_CASE("a signal ends it at once") {
  World first;
  first.answer(getaddrs, interrupted());
  CHECK(first.ask().error().code == base::ExitCode::time_out);
  CHECK(first.processes.calls.size() == 1);

  World second;
  second.answer(getaddrs, fakes::exited(0)).answer(show_node, interrupted());
  CHECK_FALSE(second.ask());
  CHECK(second.processes.calls.size() == 2);

  World sleeping;
  sleeping.clock.interrupted = true;
  sleeping.answer(getaddrs, fakes::exited(0)).answer(show_node, fakes::exited(1, "", "no"));
  CHECK_FALSE(sleeping.ask());
  CHECK(sleeping.processes.calls.size() == 2);
}

TEST_CASE("an answer that was cut is not read") {
  World world;
  host::Exit cut = fakes::exited(0, good);
  cut.cut = true;
  world.answer(getaddrs, fakes::exited(0)).answer(show_node, cut);
  CHECK(world.ask().error().what.find("too long") != std::string::npos);
}

TEST_CASE("a scontrol that cannot be started is an error with its cause") {
  World world;
  world.answer(getaddrs, not_started()).answer(show_node, not_started());
  CHECK(world.ask().error().code == base::ExitCode::source);
}

TEST_CASE("an ordinary run costs one scontrol") {
  World world;
  world.answer(getaddrs, fakes::exited(0, captured::after_command("26.05", getaddrs)));
  const auto addresses = world.ask();
  REQUIRE(addresses);
  CHECK(addresses->at(1).address == "10.88.0.2");
  CHECK(world.processes.calls == Names{getaddrs});
  CHECK(world.processes.limits == std::vector<host::milliseconds>{10s});
  CHECK(world.log.lines.empty());
}

TEST_CASE("getaddrs that gives nothing usable is no error") {
  const host::Exit rows[] = {
      fakes::exited(0),
      fakes::exited(1, "", "invalid keyword: getaddrs\n"),  // before 23.11
      fakes::exited(0, "node1: 10.88.0.1:6818\n"),
      fakes::exited(0, "node1: 10.88.0.1:6818\nnode2: :0\n"),
      fakes::timed_out(),
      not_started(),
  };
  for (const host::Exit& exit : rows) {
    World world;
    world.answer(getaddrs, exit).answer(show_node, fakes::exited(0, good));
    const auto addresses = world.ask();
    REQUIRE(addresses);
    CHECK(addresses->at(1).address == "node2");
    CHECK(world.processes.calls == Names{getaddrs, show_node});
    REQUIRE(world.log.lines.size() == 1);
    CHECK(world.log.lines[0].find("INFO scontrol getaddrs gave no usable answer, asking scontrol show node: ") == 0);
  }
}

TEST_CASE("show node is tried again after a pause") {
  World world;
  world.answer(getaddrs, fakes::exited(0));
  world.answer(show_node, fakes::timed_out()).answer(show_node, fakes::exited(1, "", "slurm_load_node error"));
  world.answer(show_node, fakes::exited(0, good));
  REQUIRE(world.ask());
  CHECK(world.processes.calls.size() == 4);
  CHECK(world.clock.slept == 3s);
}

TEST_CASE("an answer with exit 1 is not taken, whatever it says") {
  World world;
  world.answer(getaddrs, fakes::exited(0));
  world.answer(show_node, fakes::exited(1, good + "the rest was not found\n", "slurm_load_partitions error"));
  CHECK(world.ask().error().what.find("slurm_load_partitions error") != std::string::npos);
}

TEST_CASE("show topology: one call, and its failure says why") {
  fakes::FakeClock clock;
  fakes::FakeProcesses processes(clock);
  const host::Deadline deadline(clock, 60s);
  processes.answer("scontrol show topology", fakes::exited(0, captured::answer("26.05", "scontrol-show-topology.txt")));
  processes.answer("scontrol show topology ultra", fakes::timed_out());
  processes.answer("scontrol show topology x", fakes::exited(1, "", "down"));
  CHECK(show_topology(processes, "/usr/bin/scontrol", "", deadline)->blocks.size() == 2);
  CHECK(show_topology(processes, "/usr/bin/scontrol", "ultra", deadline).error().code == base::ExitCode::time_out);
  CHECK(show_topology(processes, "/usr/bin/scontrol", "x", deadline).error().what.find("down") != std::string::npos);
  CHECK(processes.calls.size() == 3);
  CHECK(show_topology(processes, "/usr/bin/scontrol", "", host::Deadline(clock, 0s)).error().code ==
        base::ExitCode::time_out);
  CHECK(processes.calls.size() == 3);
}
