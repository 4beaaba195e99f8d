// nvidia-imex-ctl as a process: its exit code says little, it can hang, and older releases know no -j.
#include "imex/ctl.h"

#include <catch2/catch_test_macros.hpp>

#include "domains.h"
#include "fakes/fake_files.h"
#include "fakes/fake_processes.h"

using namespace std::chrono_literals;
using Calls = std::vector<std::string>;

namespace {

const std::string json_of_one =
    R"({"nodes":{"0":{"host":"10.0.0.1","status":"READY","connections":{"0":{"status":"CONNECTED"}}}},"status":"UP"})";

struct World {
  fakes::FakeClock clock;
  fakes::FakeProcesses processes{clock};
  imex::ToolCtl ctl{"/usr/bin/nvidia-imex-ctl", "", processes};

  World& answer(const std::string& arguments, host::Exit exit) {
    processes.answer("nvidia-imex-ctl " + arguments, std::move(exit));
    return *this;
  }
};

host::Exit not_started() {
  host::Exit exit;
  exit.ending = host::Exit::Ending::not_started;
  exit.status = 8;  // ENOEXEC
  return exit;
}

}  // namespace

TEST_CASE("error 14 is no status yet, whatever the exit code") {
  for (const int code : {0, 14, 255}) {
    World world;
    world.answer("-q", fakes::exited(code, "Query Status returned error code: 14\n"));
    const auto status = world.ctl.local_status(5s);
    CHECK(status.word.empty());
    CHECK(status.why.find("nvidia-imex-ctl -q: exit " + std::to_string(code)) == 0);
    CHECK(status.why.find("error code: 14") != std::string::npos);
    CHECK_FALSE(status.hung);
  }
}

TEST_CASE("a question that hangs costs its limit and no more") {
  World world;
  world.answer("-q", fakes::timed_out()).answer("-N -j", fakes::timed_out());
  const auto status = world.ctl.local_status(5s);
  CHECK(status.word.empty());
  CHECK(status.hung);
  const auto view = world.ctl.domain(3s);
  REQUIRE_FALSE(view);
  CHECK(view.error().code == base::ExitCode::time_out);
  CHECK(world.processes.limits == std::vector<host::milliseconds>{5s, 3s});
  CHECK(world.clock.now().time_since_epoch() == 8s);
}

TEST_CASE("a tool that cannot be started is told with the system's words") {
  World world;
  world.answer("-q", not_started()).answer("-N -j", not_started());
  CHECK(world.ctl.local_status(5s).why.find("could not be started") != std::string::npos);
  const auto view = world.ctl.domain(5s);
  REQUIRE_FALSE(view);
  CHECK(view.error().code == base::ExitCode::source);
}

TEST_CASE("the local status is the word that -q prints") {
  World world;
  world.answer("-q", fakes::exited(0, "READY\n"));
  CHECK(world.ctl.local_status(5s).word == "READY");
  CHECK(world.processes.calls == Calls{"nvidia-imex-ctl -q"});
}

TEST_CASE("a config file of another name is named to the tool") {
  World world;
  imex::ToolCtl ctl("/usr/bin/nvidia-imex-ctl", "/etc/other.cfg", world.processes);
  world.answer("-c /etc/other.cfg -q", fakes::exited(0, "READY\n"));
  CHECK(ctl.local_status(5s).word == "READY");
}

TEST_CASE("a daemon that is not there yet is no reason to give JSON up") {
  World world;
  world.answer("-N -j", fakes::exited(1, "", "Query Status returned error code: 14\n"));
  const auto view = world.ctl.domain(5s);
  REQUIRE_FALSE(view);
  CHECK(view.error().code == base::ExitCode::source);
  CHECK(view.error().what.find("error code: 14") != std::string::npos);
  CHECK(world.processes.calls == Calls{"nvidia-imex-ctl -N -j"});
}

TEST_CASE("an answer that is neither JSON nor a table is an error") {
  World world;
  world.answer("-N -j", fakes::exited(0, "hello\n")).answer("-N", fakes::exited(0, "hello\n"));
  const auto view = world.ctl.domain(5s);
  REQUIRE_FALSE(view);
  CHECK(view.error().code == base::ExitCode::source);
}

TEST_CASE("a release without -j is asked in the text form, and -j is not tried again") {
  World world;
  world.answer("-N -j", fakes::exited(1, "", "unknown option -j\n"))
      .answer("-N", fakes::exited(0, domains::sample_of_18()));
  REQUIRE(world.ctl.domain(5s));
  const auto view = world.ctl.domain(5s);
  REQUIRE(view);
  CHECK(view->nodes.size() == 18);
  CHECK(world.processes.calls == Calls{"nvidia-imex-ctl -N -j", "nvidia-imex-ctl -N", "nvidia-imex-ctl -N"});
}

TEST_CASE("JSON is enough where it is known") {
  World world;
  world.answer("-N -j", fakes::exited(0, json_of_one));
  const auto view = world.ctl.domain(5s);
  REQUIRE(view);
  CHECK(view->state == "UP");
  CHECK(world.processes.calls.size() == 1);
}

TEST_CASE("peers are asked by address and port, and answer in the addresses' order") {
  World world;
  world.answer("-i 10.0.0.2 50005 -N -j", fakes::exited(0, json_of_one))
      .answer("-i 10.0.0.3 50005 -N -j", fakes::exited(255, "", "Query Status returned error code: 14\n"))
      .answer("-i 10.0.0.4 50005 -N -j", fakes::timed_out())
      .answer("-i 10.0.0.5 50005 -N -j", fakes::exited(0, "garbage"));
  const auto views = world.ctl.peer_domains({"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"}, 50005, 2s);
  REQUIRE(views.size() == 4);
  CHECK(views[0]);
  CHECK_FALSE(views[1]);
  CHECK(views[1].error().what.find("10.0.0.3") != std::string::npos);
  CHECK_FALSE(views[2]);
  CHECK_FALSE(views[3]);
  CHECK(world.processes.limits == std::vector<host::milliseconds>(4, 2s));
}

TEST_CASE("a dry run asks nobody: it plans the questions once each and takes the planned list for up") {
  fakes::FakeFiles files;
  files.file("/etc/list", "# ours\n10.0.0.1\n10.0.0.2\n");
  host::Plan plan;
  imex::DryCtl ctl(files, "/etc/list", plan);
  CHECK(ctl.local_status(5s).word == "READY");
  CHECK(ctl.local_status(5s).word == "READY");
  const auto view = ctl.domain(5s);
  REQUIRE(view);
  REQUIRE(ctl.domain(5s));
  CHECK(view->nodes.size() == 2);
  CHECK(view->links[0][1] == imex::Link::connected);
  const auto peers = ctl.peer_domains({"10.0.0.1", "10.0.0.2"}, 50005, 2s);
  REQUIRE(peers.size() == 2);
  CHECK_FALSE(peers[0]);
  CHECK(plan.sentences() ==
        std::vector<std::string>{"would ask nvidia-imex-ctl -q until the daemon is READY",
                                 "would ask nvidia-imex-ctl -N until every pair of the list is connected"});
}
