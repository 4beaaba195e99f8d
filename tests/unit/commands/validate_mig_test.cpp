#include "commands/validate_mig.h"

#include <catch2/catch_test_macros.hpp>

#include "mig_world.h"

using namespace commands;
using fakes::exited;
using flow::Judgement;
using mig_world::finding;
using mig_world::World;

namespace {

flow::Findings validated(World& world, const ValidateMigOptions& options = {}) {
  flow::Findings findings;
  const auto done = validate_mig(world.context, options, findings);
  REQUIRE(done);
  return findings;
}

World& with_slurm(World& world, const std::string& record) {
  world.files.file("/usr/bin/scontrol", "", 0755);
  return world.answer("scontrol -o show node gpu-1", exited(0, record));
}

}  // namespace

TEST_CASE("a layout that makes no sense is no finding: validate itself cannot run") {
  World world;
  flow::Findings findings;
  ValidateMigOptions options;
  options.layouts = {"nonsense"};
  const auto done = validate_mig(world.context, options, findings);
  REQUIRE_FALSE(done);
  CHECK(done.error().code == base::ExitCode::usage);
}

TEST_CASE("NVSwitches without a Fabric Manager are a warning with its cure") {
  World world;
  world.split();
  world.files.file("/sys/bus/pci/devices/0000:f1:00.0/vendor", "0x10de\n")
      .file("/sys/bus/pci/devices/0000:f1:00.0/class", "0x068000\n");
  const auto missing = finding(validated(world), "fabric manager");
  CHECK(missing.judgement == Judgement::warn);
  CHECK(missing.cure.find("nvidia-fabricmanager") != std::string::npos);
  world.files.link("/proc/77/exe", "/usr/bin/nv-fabricmanager");
  CHECK(finding(validated(world), "fabric manager").judgement == Judgement::ok);
}

TEST_CASE("a node that Slurm drained for its Gres is told how to come back") {
  World world;
  world.split();
  with_slurm(world,
             "NodeName=gpu-1 Gres=gpu:3g.71gb:2 State=IDLE+DRAIN Reason=gres/gpu count reported lower than configured "
             "(0 < 2) [root@x]\n");
  const auto drained = finding(validated(world), "slurm state");
  CHECK(drained.judgement == Judgement::fail);
  CHECK(drained.found.find("lower than configured") != std::string::npos);
  CHECK(drained.cure.find("State=RESUME") != std::string::npos);
}

TEST_CASE("the configured Gres is matched with what exists: too many, too few, none") {
  for (const char* gres : {"gpu:3g.71gb:3", "gpu:3g.71gb:1", "gpu:1g.18gb:2", "(null)"}) {
    CAPTURE(gres);
    World world;
    world.split();
    with_slurm(world, std::string("NodeName=gpu-1 Gres=") + gres + " State=IDLE\n");
    const auto wrong = finding(validated(world), "slurm gres");
    CHECK(wrong.judgement == Judgement::fail);
    CHECK(wrong.cure.find("gpu:3g.71gb:2") != std::string::npos);
  }
  World world;
  world.split();
  with_slurm(world, "NodeName=gpu-1 Gres=gpu:3g.71gb:2(S:0) State=IDLE\n");
  CHECK(finding(validated(world), "slurm gres").judgement == Judgement::ok);
}

TEST_CASE("slurmd's own view: fewer devices than there are, and that only root is answered") {
  World world;
  world.split();
  with_slurm(world, "NodeName=gpu-1 Gres=gpu:3g.71gb:2 State=IDLE\n");
  world.files.file("/usr/sbin/slurmd", "", 0755);
  world.answer("slurmd -G", exited(0, "", "slurmd: Gres Name=gpu Type=3g.71gb Count=1 Index=0\n"));
  const auto fewer = finding(validated(world), "slurmd gres");
  CHECK(fewer.judgement == Judgement::fail);
  CHECK(fewer.found.find("1 of 2") != std::string::npos);
  World user;
  user.split();
  user.processes.root = false;
  with_slurm(user, "NodeName=gpu-1 Gres=gpu:3g.71gb:2 State=IDLE\n");
  const auto skipped = finding(validated(user), "slurmd gres");
  CHECK(skipped.judgement == Judgement::skipped);
  CHECK(skipped.found.find("root") != std::string::npos);
}

TEST_CASE(
    "slurmd's own view is compared by type, and a slurmd that tells of no gpu is a fail where there are devices") {
  const std::string cap = " File=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap12\n";
  const std::vector<std::pair<std::string, Judgement>> cases{
      {"slurmd: Gres Name=gpu Type=3g.71gb Count=2" + cap, Judgement::ok},
      {"", Judgement::fail},
      {"slurmd: warning: nothing\n", Judgement::fail},
      {"slurmd: Gres Name=gpu Type=7g.141gb Count=2" + cap, Judgement::fail},
      {"slurmd: Gres Name=gpu Type=3g.71gb Count=20" + cap, Judgement::fail},
      {"slurmd: Gres Name=gpu Type=nvidia_h200 Count=2 File=/dev/nvidia0\n", Judgement::fail}};
  for (const auto& [printed, should] : cases) {
    CAPTURE(printed);
    World world;
    world.split();
    with_slurm(world, "NodeName=gpu-1 Gres=gpu:3g.71gb:2 State=IDLE\n");
    world.files.file("/usr/sbin/slurmd", "", 0755);
    world.answer("slurmd -G", exited(0, "", printed));
    const auto found = finding(validated(world), "slurmd gres");
    CHECK(found.judgement == should);
    CHECK(found.cure.empty() == (should == Judgement::ok));
  }
}

TEST_CASE("a scontrol or slurmd that hangs is a fail, one that fails a warning") {
  for (const bool hangs : {true, false}) {
    const host::Exit silent = hangs ? fakes::timed_out() : exited(1, "", "scontrol: error: Invalid node name");
    const Judgement should = hangs ? Judgement::fail : Judgement::warn;
    World world;
    world.split();
    world.files.file("/usr/bin/scontrol", "", 0755).file("/usr/sbin/slurmd", "", 0755);
    world.answer("scontrol -o show node gpu-1", silent).answer("slurmd -G", silent);
    const auto findings = validated(world);
    CHECK(finding(findings, "slurm gres").judgement == should);
    CHECK(finding(findings, "slurmd gres").judgement == should);
  }
}

TEST_CASE("a damaged status is told as damaged, with why and what to do, and not as missing") {
  World world;
  world.split();
  world.files.file("/run/gpu-prolog/mig-setup.json", "{\"command\": \"mig-setup\",");
  ValidateMigOptions options;
  options.layouts = {"3g.71gb:2"};
  for (const auto& words : {ValidateMigOptions{}, options}) {
    const auto damaged = finding(validated(world, words), "mig-setup");
    CHECK(damaged.judgement == Judgement::fail);
    CHECK(damaged.found.find("damaged: it is no valid JSON") != std::string::npos);
    CHECK(damaged.found.find("has not run") == std::string::npos);
    CHECK(damaged.cure.find("mig-setup") != std::string::npos);
  }
  World none;
  none.split();
  CHECK(finding(validated(none), "mig-setup").judgement == Judgement::warn);
}

TEST_CASE("a hanging nvidia-smi is a finding, and no further call is made") {
  World world;
  world.answer(mig_world::query, fakes::timed_out());
  CHECK(finding(validated(world), "driver").judgement == Judgement::fail);
  CHECK(world.processes.calls.size() == 1);
}

TEST_CASE("MIG on without instances, and as it was asked for") {
  World world;
  world.answer(mig_world::query, exited(0, mig_world::row("Enabled", "Enabled")))
      .answer("nvidia-smi mig -lgi", exited(6, mig_world::none));
  CHECK(finding(validated(world), "instances").judgement == Judgement::fail);
}

TEST_CASE("validate without a word looks at MIG only where MIG is about") {
  World world;
  CHECK_FALSE(mig_applies(world.context, {}));
  world.files.directory("/proc/driver/nvidia/capabilities/gpu0/mig/gi1");
  CHECK(mig_applies(world.context, {}));
  World after;
  after.files.file("/var/lib/gpu-prolog/mig-setup.json", "{}");
  CHECK(mig_applies(after.context, {}));
}

TEST_CASE("while mig-setup is at work no nvidia-smi is run beside it") {
  World world;
  world.split();
  world.locks.held_by = "mig-setup, pid 812";
  const auto findings = validated(world);
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all().front().judgement == Judgement::fail);
  CHECK(findings.all().front().found.find("mig-setup, pid 812") != std::string::npos);
  CHECK(world.processes.calls.empty());
  CHECK(world.locks.holders.empty());
}
