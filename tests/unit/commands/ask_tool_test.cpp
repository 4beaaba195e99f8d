#include "commands/ask_tool.h"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>

#include "mig_world.h"

using namespace commands;
using fakes::exited;
using mig_world::World;

TEST_CASE("a tool is found in its places; one that is missing or that others could have put there is told apart") {
  World world;
  CHECK(*find_listed_tool(world.context, "nvidia-smi", site::nvidia_smi) == "/usr/bin/nvidia-smi");
  const auto missing = find_listed_tool(world.context, "nvidia-imex", site::imex_daemon);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().os_error == ENOENT);
  world.files.file("/usr/bin/nvidia-imex", "", 0777);
  const auto writable = find_listed_tool(world.context, "nvidia-imex", site::imex_daemon);
  REQUIRE_FALSE(writable);
  CHECK(writable.error().os_error != ENOENT);
}

TEST_CASE("srun is the one beside scontrol, and no other") {
  World world;
  CHECK_FALSE(find_srun(world.context));
  world.files.file("/usr/bin/scontrol", "", 0755).file("/opt/slurm/bin/srun", "", 0755);
  CHECK_FALSE(find_srun(world.context));
  world.files.file("/usr/bin/srun", "", 0755);
  CHECK(*find_srun(world.context) == "/usr/bin/srun");
}

TEST_CASE("a question has the limit that was given, one to Slurm that of scontrol") {
  World world;
  world.answer("nvidia-smi -L", exited(0)).answer("scontrol show config", exited(0));
  CHECK(ask_tool(world.context, "/usr/bin/nvidia-smi", {"-L"}, std::chrono::seconds(7), short_answer).succeeded());
  CHECK(ask_slurm(world.context, "/usr/bin/scontrol", {"show", "config"}).succeeded());
  CHECK(world.processes.limits == std::vector<host::milliseconds>{std::chrono::seconds(7), site::scontrol_limit});
}
