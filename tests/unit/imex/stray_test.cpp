// A daemon outside the unit is named and not killed; one of a container is none of our business.
#include "imex/stray.h"

#include <catch2/catch_test_macros.hpp>

#include "fakes/fake_files.h"
#include "fakes/fake_network.h"
#include "fakes/fake_units.h"

namespace {

struct Node {
  fakes::FakeFiles files;  // throws on a change
  fakes::FakeNetwork network;
  imex::DaemonConfig config{"/etc/nvidia-imex/nodes_config.cfg", 50000, 50005, true, ""};
  systemd::UnitState unit = fakes::ended_unit("inactive", "success");

  Node() {
    files.link("/proc/self/ns/net", "net:[1]").link("/proc/self/ns/mnt", "mnt:[2]");
    process("1", "/usr/lib/systemd/systemd");
  }
  Node& process(const std::string& pid, const std::string& program) {
    files.link("/proc/" + pid + "/exe", program);
    files.link("/proc/" + pid + "/ns/net", "net:[1]").link("/proc/" + pid + "/ns/mnt", "mnt:[2]");
    return *this;
  }
  base::Status check() const { return imex::check_no_stray_daemon(files, network, config, unit); }
};

}  // namespace

TEST_CASE("a daemon outside the unit is named with its process") {
  Node node;
  node.process("815", "/usr/bin/nvidia-imex");
  const auto status = node.check();
  REQUIRE_FALSE(status);
  CHECK(status.error().code == base::ExitCode::change);
  CHECK(status.error().blame == base::Blame::local);
  CHECK(status.error().what == "a daemon outside the unit runs: process 815 (/usr/bin/nvidia-imex)");
  CHECK(status.error().cure.find("/proc/815/cgroup") != std::string::npos);
}

TEST_CASE("a stray daemon is found beside the unit's own, also after its package was upgraded") {
  Node node;
  node.unit = fakes::active_unit(77);
  node.process("77", "/usr/bin/nvidia-imex").process("815", "/usr/bin/nvidia-imex (deleted)");
  const auto status = node.check();
  REQUIRE_FALSE(status);
  CHECK(status.error().what.find("process 815") != std::string::npos);
}

TEST_CASE("a port in use though the unit is stopped is told before anything is stopped") {
  for (const unsigned port : {50000U, 50005U}) {
    Node node;
    node.network.ports = {port};
    const auto status = node.check();
    REQUIRE_FALSE(status);
    CHECK(status.error().code == base::ExitCode::change);
    CHECK(status.error().what ==
          "TCP port " + std::to_string(port) + " of nvidia-imex is in use though the unit is stopped");
    CHECK(status.error().cure.find("ip_local_reserved_ports") != std::string::npos);
  }
}

TEST_CASE("the command port does not matter where the command service is off") {
  Node node;
  node.config.command_enabled = false;
  node.network.ports = {50005};
  CHECK(node.check());
}

TEST_CASE("the unit's own daemon and its ports are no stray") {
  Node node;
  node.unit = fakes::active_unit(77);
  node.process("77", "/usr/bin/nvidia-imex");
  node.network.ports = {50000, 50005};
  CHECK(node.check());
}

TEST_CASE("a container's daemon has other namespaces and is let alone") {
  for (const char* kind : {"net", "mnt"}) {
    Node node;
    node.process("815", "/usr/bin/nvidia-imex");
    node.files.link(std::string("/proc/815/ns/") + kind, "other:[9]");
    CHECK(node.check());
  }
}

TEST_CASE("a program that only has a similar name is let alone") {
  Node node;
  node.process("815", "/usr/bin/nvidia-imex-ctl").process("816", "/home/user/nvidia-imex");
  CHECK(node.check());
}
