#include "commands/mig_setup.h"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "mig_world.h"

using namespace commands;
using fakes::exited;
using mig_world::World;

namespace {

struct Ran {
  int code = 0;
  std::string out;
};

Ran run(World& world, const MigSetupOptions& options) {
  Ran ran;
  ran.code = mig_setup(world.context, options, ran.out);
  return ran;
}

MigSetupOptions layout(const std::string& text) {
  MigSetupOptions options;
  options.layouts = {text};
  return options;
}

}  // namespace

TEST_CASE("words that make no sense touch nothing and are in the status") {
  for (const char* words : {"board", "plan", "layout", "both"}) {
    CAPTURE(words);
    World world;
    world.files.allow_changes();
    MigSetupOptions options = layout("3g.71gb:2");
    if (std::string(words) == "board") options.board_file = "/x";
    if (std::string(words) == "plan") options.plan_from = "gpu:a:b:c:d";
    if (std::string(words) == "layout") options.layouts = {"nonsense"};
    if (std::string(words) == "both") options.layout_file = "/x";
    const Ran ran = run(world, options);
    CHECK(ran.code == 2);
    CHECK(ran.out.empty());
    CHECK(world.processes.calls.empty());
    CHECK(world.files.tree.at("/run/gpu-prolog/mig-setup.json").content.find("\"failed\"") != std::string::npos);
  }
}

TEST_CASE("an old good status does not outlive a run that cannot write its own") {
  World world;
  for (const char* path : {"/run/gpu-prolog/mig-setup.json", "/var/lib/gpu-prolog/mig-setup.json"}) {
    world.files.allow_changes().file(path, R"({"result":"unchanged","exit_code":0})").fail_replace(path, ENOSPC);
  }
  CHECK(run(world, layout("nonsense")).code == 2);
  CHECK(!world.files.tree.contains("/run/gpu-prolog/mig-setup.json"));
  CHECK(!world.files.tree.contains("/var/lib/gpu-prolog/mig-setup.json"));
}

TEST_CASE("without root nothing is written") {
  World world;
  world.processes.root = false;
  CHECK(run(world, layout("3g.71gb:2")).code == 3);
  CHECK(world.files.changes.empty());
}

TEST_CASE("a node without any NVIDIA GPU is nothing to do with --if-supported, else its missing tool is told") {
  World world;
  world.files.allow_changes().file("/sys/bus/pci/devices/0000:00:05.0/vendor", "0x1d0f\n");
  world.files.tree.erase("/usr/bin/nvidia-smi");
  MigSetupOptions options = layout("3g.71gb:2");
  CHECK(run(world, options).code == 3);
  options.if_supported = true;
  const Ran ran = run(world, options);
  CHECK(ran.code == 0);
  CHECK(ran.out == "\n");
}

TEST_CASE("another run that holds the lock is named, and no GPU is asked meanwhile") {
  World world;
  world.files.allow_changes();
  world.locks.held_by = "mig-setup, pid 77";
  CHECK(run(world, layout("3g.71gb:2")).code == 6);
  CHECK(world.report.error->what.find("pid 77") != std::string::npos);
  CHECK(world.processes.calls.empty());
}

TEST_CASE("already right: three calls, no change, the marker of a reboot is gone, the status is good") {
  World world;
  world.split();
  world.files.allow_changes().file("/var/lib/gpu-prolog/mig-reboot.json", "{}");
  const Ran ran = run(world, layout("3g.71gb:2"));
  CHECK(ran.code == 0);
  CHECK(ran.out == "gpu:3g.71gb:2\n");
  CHECK(world.processes.calls.size() == 3);
  CHECK_FALSE(world.files.tree.contains("/var/lib/gpu-prolog/mig-reboot.json"));
  const auto status = nlohmann::json::parse(world.files.tree.at("/var/lib/gpu-prolog/mig-setup.json").content);
  CHECK(status["result"] == "unchanged");
  CHECK(status["boot_id"] == "boot-1");
  CHECK(status["gpus"][0]["state"] == "right");
}

TEST_CASE("a drifted name is right as well without asking for profiles") {
  World world;
  world.split();
  world.files.allow_changes();
  CHECK(run(world, layout("3g.70gb:2")).code == 0);
  CHECK(world.processes.calls.size() == 3);
}

TEST_CASE("no status is written through a link or into a folder of somebody else, which is told with its reason") {
  using Kind = host::FileStatus::Kind;
  struct Case {
    Kind kind;
    uid_t uid;
    std::string word;
  };
  for (const Case& one : {Case{Kind::link, 0, "symbolic link"}, Case{Kind::directory, 1000, "does not belong to root"},
                          Case{Kind::fifo, 0, "a pipe"}}) {
    CAPTURE(one.word);
    World world;
    world.split();
    world.files.allow_changes().directory("/run/gpu-prolog", 0755, one.uid);
    world.files.tree.at("/run/gpu-prolog").status.kind = one.kind;
    world.files.fail_change("/run/gpu-prolog", EPERM);  // as the real make_directory() does not follow or repair these
    run(world, layout("3g.71gb:2"));
    CHECK_FALSE(world.files.tree.contains("/run/gpu-prolog/mig-setup.json"));
    CHECK(world.files.tree.contains("/var/lib/gpu-prolog/mig-setup.json"));
    std::size_t told = 0;
    for (const auto& line : world.log.lines) told += line.find(one.word) != std::string::npos ? 1U : 0U;
    CHECK(told == 1);
  }
}

TEST_CASE("a folder that others may write is made right again, which is told") {
  World world;
  world.split();
  world.files.allow_changes().directory("/run/gpu-prolog", 0777);
  CHECK(run(world, layout("3g.71gb:2")).code == 0);
  CHECK(world.files.tree.at("/run/gpu-prolog").status.permissions == 0755);
  CHECK(world.files.tree.contains("/run/gpu-prolog/mig-setup.json"));
  CHECK(world.log.has("WARN /run/gpu-prolog can be written"));
}

TEST_CASE("a deadline of nothing is refused, also for a check") {
  for (const bool check : {false, true}) {
    World world;
    world.files.allow_changes();
    MigSetupOptions options = layout("3g.71gb:2");
    options.deadline = std::chrono::milliseconds(0);
    options.check = check;
    CHECK(run(world, options).code == 2);
    CHECK(world.processes.calls.empty());
  }
}

TEST_CASE("a scontrol that gives no answer is told where a change of layout is to be explained") {
  for (const host::Exit& silent : {fakes::timed_out(), exited(1, "", "Unable to contact slurm controller")}) {
    World world;
    world.split();
    world.files.allow_changes().file("/usr/bin/scontrol", "", 0755);
    world.answer("scontrol -o show node", silent);
    MigSetupOptions options = layout("3g.71gb:2");
    options.plan_from = "gpu:7g.141gb:1";
    CHECK(run(world, options).code == 0);
    CHECK(world.log.has("WARN which nodes still advertise the old layout is not known"));
    CHECK(world.log.has("gone: 7g.141gb"));
  }
}
