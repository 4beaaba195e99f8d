#include "commands/mig_reboot.h"

#include <catch2/catch_test_macros.hpp>

#include "host/dry_machine.h"
#include "mig/reboot.h"
#include "mig_world.h"

using namespace commands;
using namespace std::chrono_literals;
using fakes::exited;
using mig_world::World;

namespace {

const std::string marker = "/var/lib/gpu-prolog/mig-reboot.json";

struct Node : World {
  explicit Node(int systemctl = 0) : World(std::map<std::string, std::string>{{"INSTANCE_ID", "i-0123456789abcdef0"}}) {
    files.allow_changes().file("/usr/bin/systemctl", "", 0755);
    answer("systemctl --no-block reboot", exited(systemctl));
    options.reboot = MigReboot::if_pending;
  }
  int run() {
    MigReport told(context, options);
    std::string out;
    return reboot_or_tell(context, options, "9,14,19,19", {base::ExitCode::reboot_needed, "the mode is pending", ""},
                          pending_from_the_start, told, out);
  }

  MigSetupOptions options;
  bool pending_from_the_start = false;
};

}  // namespace

TEST_CASE("where TERM does not come within 120 s the kernel is asked to reboot, and what it answers is told") {
  Node node;
  CHECK(node.run() == 7);
  CHECK(node.processes.calls == std::vector<std::string>{"systemctl --no-block reboot"});
  CHECK(node.clock.slept == 120s);
  CHECK(node.machine.reboots == 1);
  REQUIRE(node.report.error);
  CHECK(node.report.error->what.find("the node did not reboot: cannot reboot: Operation not permitted") !=
        std::string::npos);
  CHECK(node.report.error->cure == "reboot the node by hand");
  CHECK(node.files.tree.contains(marker));
}

TEST_CASE("before the 120 s are over the kernel is not asked, and TERM ends the wait") {
  Node node;
  node.clock.interrupted = true;
  CHECK(node.run() == 7);
  CHECK(node.processes.calls.size() == 1);
  CHECK(node.machine.reboots == 0);
}

TEST_CASE("without leave, without systemctl and where systemctl refuses the kernel is not asked either") {
  Node refused(1);
  CHECK(refused.run() == 7);
  CHECK(refused.report.error->what.find("systemctl reboot failed") != std::string::npos);
  Node without_tool;
  without_tool.files.tree.erase("/usr/bin/systemctl");
  CHECK(without_tool.run() == 7);
  Node without_leave;
  without_leave.options.reboot = MigReboot::no;
  CHECK(without_leave.run() == 7);
  CHECK(without_leave.processes.calls.empty());
  for (Node* node : {&refused, &without_tool, &without_leave}) {
    CHECK(node->machine.reboots == 0);
    CHECK(node->clock.slept == 0s);
  }
}

TEST_CASE(
    "where the marker would not survive the reboot, or others may remove it, there is no reboot and it is told why") {
  Node memory;
  memory.files.in_memory("/var/lib/gpu-prolog");
  memory.pending_from_the_start = true;
  Node shared;
  shared.files.on_network("/var/lib");
  shared.pending_from_the_start = true;
  Node linked;
  linked.files.directory("/run/kept").link("/var/lib/gpu-prolog", "/run/kept");
  Node theirs;
  theirs.files.directory("/var/lib/gpu-prolog", 0755, 1000);
  Node open;
  open.files.directory("/var/lib/gpu-prolog", 0777);
  Node planted;  // their marker of another launch would allow one reboot at every boot
  planted.files.directory("/var/lib/gpu-prolog")
      .file(marker, mig::to_json(mig::RebootMarker{"i-other", "boot-0", "9"}), 0644, 1000);
  for (Node* node : {&memory, &shared, &linked, &theirs, &open, &planted}) {
    CHECK(node->run() == 7);
    CHECK(node->processes.calls.empty());
    CHECK(node->machine.reboots == 0);
    REQUIRE(node->report.error);
    CAPTURE(node->report.error->what);
    CHECK(node->report.error->what.find("no reboot: ") != std::string::npos);
    CHECK_FALSE(node->report.error->cure.empty());
  }
  CHECK(memory.report.error->what.find("may not survive a reboot") != std::string::npos);
  CHECK(linked.report.error->what.find("is a symbolic link") != std::string::npos);
  CHECK(theirs.report.error->what.find("does not belong to root") != std::string::npos);
  CHECK(open.report.error->what.find("can be written by") != std::string::npos);
}

TEST_CASE("a marker in memory does for a mode that this very run made pending: at the next boot that mode tells") {
  Node memory;
  memory.files.in_memory("/var/lib/gpu-prolog");
  CHECK(memory.run() == 7);
  CHECK(memory.processes.calls == std::vector<std::string>{"systemctl --no-block reboot"});
  CHECK(memory.log.has("WARN /var/lib/gpu-prolog/mig-reboot.json would lie on a file system that may not survive"));
}

TEST_CASE("neither a dry run nor a run with --root asks for a reboot") {
  Node dry;
  host::Plan plan;
  dry.context.plan = &plan;
  CHECK(dry.run() == 7);
  Node elsewhere;
  elsewhere.context.has_root = true;
  CHECK(elsewhere.run() == 7);
  for (Node* node : {&dry, &elsewhere}) {
    CHECK(node->processes.calls.empty());
    CHECK(node->machine.reboots == 0);
    CHECK(node->clock.slept == 0s);
    CHECK_FALSE(node->files.tree.contains(marker));
    REQUIRE(node->report.error);
    CHECK(node->report.error->what.find("no reboot: ") != std::string::npos);
  }
}

TEST_CASE("a dry run's machine writes the reboot down and stays up") {
  host::Plan plan;
  host::DryMachine machine(plan);
  const auto stayed = machine.reboot_now();
  REQUIRE_FALSE(stayed);
  REQUIRE(plan.sentences().size() == 1);
  CHECK(plan.sentences().front().starts_with("would reboot"));
}

TEST_CASE("the launch id is the environment's, else what cloud-init wrote in this boot, else the board's") {
  const std::string dmi = "/sys/class/dmi/id/board_asset_tag";
  const std::string cloud = "/var/lib/cloud/data/instance-id";
  Node told;
  told.files.file(dmi, "i-2\n").file(cloud, "i-3\n");
  CHECK(instance_id(told.context.host) == "i-0123456789abcdef0");
  World fresh;
  fresh.files.file("/proc/stat", "cpu 1\nbtime 1700000000\n").file(dmi, "i-2\n").file(cloud, "i-3\n");
  fresh.files.tree[cloud].status.modified_ns = 1'700'000'009'000'000'000;
  CHECK(instance_id(fresh.context.host) == "i-3");
  fresh.files.tree[cloud].status.modified_ns = 1'600'000'000'000'000'000;  // an image's builder wrote it
  CHECK(instance_id(fresh.context.host) == "i-2");
  fresh.files.tree.erase(dmi);
  CHECK(instance_id(fresh.context.host) == "i-3");
  World board;
  board.files.file(dmi, "i-2\n");
  CHECK(instance_id(board.context.host) == "i-2");
  World elsewhere;
  elsewhere.files.file(dmi, "Default string\n").file(cloud, "i-3\n");
  CHECK(instance_id(elsewhere.context.host) == "i-3");
  World none;
  CHECK(instance_id(none.context.host).empty());
}
