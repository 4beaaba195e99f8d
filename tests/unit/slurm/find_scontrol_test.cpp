#include "slurm/find_scontrol.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "fakes/fake_clock.h"
#include "fakes/fake_files.h"
#include "fakes/fake_processes.h"
#include "fakes/memory_log.h"

using namespace slurm;

namespace {

struct World {
  fakes::FakeFiles files;
  fakes::FakeClock clock;
  fakes::FakeProcesses processes{clock};
  fakes::MemoryLog log;

  World() { processes.parent_pid = 50; }
  World& tool(const std::string& path, mode_t mode = 0755, uid_t uid = 0) {
    files.file(path, "", mode, uid);
    return *this;
  }
  World& parent(const std::string& program, uid_t uid = 0) {
    files.directory("/proc/50", 0555, uid).link("/proc/50/exe", program);
    return *this;
  }
  base::Result<std::string> find(const std::string& configured = "") {
    return find_scontrol(files, processes, log, configured);
  }
};

}  // namespace

TEST_CASE("no scontrol anywhere: the surroundings are not as needed") {
  World world;
  const auto found = world.find();
  REQUIRE_FALSE(found);
  CHECK(found.error().code == base::ExitCode::surroundings);
  CHECK(found.error().what.find("scontrol") != std::string::npos);
}

TEST_CASE("one that others may write ends the search") {
  World world;
  world.tool("/opt/slurm/bin/scontrol", 0777).tool("/usr/bin/scontrol");
  CHECK_FALSE(world.find());
  World foreign;
  foreign.tool("/opt/slurm/bin/scontrol", 0755, 1000).tool("/usr/bin/scontrol");
  CHECK_FALSE(foreign.find());
  World configured;
  configured.tool("/home/x/scontrol", 0755, 1000).tool("/usr/bin/scontrol");
  CHECK_FALSE(configured.find("/home/x/scontrol"));
}

TEST_CASE("the usual places have their order") {
  World world;
  world.tool("/usr/bin/scontrol");
  CHECK(*world.find() == "/usr/bin/scontrol");
  world.tool("/usr/local/bin/scontrol");
  CHECK(*world.find() == "/usr/local/bin/scontrol");
  world.tool("/opt/slurm/bin/scontrol");
  CHECK(*world.find() == "/opt/slurm/bin/scontrol");
  world.tool("/opt/aws/pcs/scheduler/slurm-24.11/bin/scontrol");
  CHECK(*world.find() == "/opt/aws/pcs/scheduler/slurm-24.11/bin/scontrol");
  world.tool("/opt/s/bin/scontrol").parent("/opt/s/sbin/slurmd");
  CHECK(*world.find() == "/opt/s/bin/scontrol");
  world.tool("/my/scontrol");
  CHECK(*world.find("/my/scontrol") == "/my/scontrol");
  CHECK(world.log.lines.empty());
}

TEST_CASE("of several PCS versions the highest number counts, not the last word") {
  World world;
  for (const char* version : {"slurm-25.5", "slurm-25.11", "slurm-9.11", "slurm-25.05", "other-99"}) {
    world.tool(std::string("/opt/aws/pcs/scheduler/") + version + "/bin/scontrol");
  }
  CHECK(*world.find() == "/opt/aws/pcs/scheduler/slurm-25.11/bin/scontrol");
  world.files.directory("/opt/aws/pcs/scheduler/slurm-26.05");  // without a scontrol in it
  CHECK(*world.find() == "/opt/aws/pcs/scheduler/slurm-25.11/bin/scontrol");
}

TEST_CASE("a configured one that is not there is told, and the search goes on") {
  World world;
  world.tool("/usr/bin/scontrol");
  CHECK(*world.find("/opt/old/bin/scontrol") == "/usr/bin/scontrol");
  CHECK(world.log.has("WARN the configured scontrol /opt/old/bin/scontrol is not there"));
}

TEST_CASE("beside slurmd means root's slurmd or slurmstepd") {
  struct Row {
    const char* program;
    uid_t uid;
    std::vector<std::string> candidates;
  };
  const Row rows[] = {
      {"/usr/bin/bash", 0, {}},
      {"/opt/s/sbin/slurmd", 1000, {}},
      {"/opt/s/sbin/slurmdx", 0, {}},
      {"/opt/s/sbin/xslurmd", 0, {}},
      {"slurmd", 0, {}},
      {"/opt/s/sbin/slurmd", 0, {"/opt/s/bin/scontrol", "/opt/s/sbin/scontrol"}},
      {"/opt/s/sbin/slurmstepd", 0, {"/opt/s/bin/scontrol", "/opt/s/sbin/scontrol"}},
      {"/opt/s/sbin/slurmd (deleted)", 0, {"/opt/s/bin/scontrol", "/opt/s/sbin/scontrol"}},
      {"/usr/sbin/slurmd-wlm", 0, {"/usr/bin/scontrol", "/usr/sbin/scontrol"}},  // Debian
      {"/usr/sbin/slurmstepd-wlm (deleted)", 0, {"/usr/bin/scontrol", "/usr/sbin/scontrol"}},
      {"/usr/sbin/bash-wlm", 0, {}},
      {"/usr/sbin/slurmd", 0, {"/usr/bin/scontrol", "/usr/sbin/scontrol"}},
      {"/opt/flat/slurmd", 0, {"/opt/bin/scontrol", "/opt/flat/scontrol"}},
  };
  for (const Row& row : rows) {
    World world;
    world.parent(row.program, row.uid);
    CAPTURE(row.program, row.uid);
    CHECK(beside_slurmd(world.files, world.processes) == row.candidates);
  }
  World none;
  CHECK(beside_slurmd(none.files, none.processes).empty());
}

TEST_CASE("what lies beside the running slurmd is trusted as that is") {
  World world;
  world.tool("/shared/slurm/bin/scontrol", 0755, 900).tool("/usr/bin/scontrol").parent("/shared/slurm/sbin/slurmd");
  CHECK(*world.find() == "/shared/slurm/bin/scontrol");
}

TEST_CASE("a slurmd without its scontrol leads on to the next place") {
  World world;
  world.tool("/usr/bin/scontrol").parent("/opt/s/sbin/slurmd");
  CHECK(*world.find() == "/usr/bin/scontrol");
}
