// A dry run changes nothing, tells what it would change, and sees what it would have changed.
#include "host/dry_files.h"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>

#include "fakes/fake_files.h"

using fakes::FakeFiles;
using host::DryFiles;
using host::FileStatus;
using host::Plan;

// FakeFiles throws on every change, so that each test also shows that none reaches the node.

TEST_CASE("what was not changed is read from the node") {
  FakeFiles node;
  node.file("/etc/a", "content").link("/etc/link", "a").on_network("/etc").probe_answers("/etc/a", ENXIO);
  Plan plan;
  const DryFiles files(node, plan);
  CHECK(files.read("/etc/a", 100).value() == "content");
  CHECK(files.status("/etc/link").value()->kind == FileStatus::Kind::link);
  CHECK(files.read_link("/etc/link").value() == "a");
  CHECK(files.list("/etc").value() == std::vector<std::string>{"a", "link"});
  CHECK(files.on_network_file_system("/etc/a").value());
  CHECK_FALSE(files.survives_reboot("/etc/a").value());
  CHECK(files.probe_device("/etc/a") == ENXIO);
  CHECK(files.read("/etc/missing", 100).error().os_error == ENOENT);
  CHECK(plan.sentences().empty());
}

TEST_CASE("a replaced file reads as replaced and is told with mode, size and content") {
  FakeFiles node;
  node.file("/etc/nvidia-imex/nodes_config.cfg", "old\n");
  Plan plan;
  DryFiles files(node, plan);
  CHECK(files.rehearse_replace("/etc/nvidia-imex/nodes_config.cfg", "x", 0644));
  REQUIRE(files.replace("/etc/nvidia-imex/nodes_config.cfg", "10.0.0.1\n10.0.0.2\n", 0644));
  CHECK(files.read("/etc/nvidia-imex/nodes_config.cfg", 100).value() == "10.0.0.1\n10.0.0.2\n");
  CHECK(files.read("/etc/nvidia-imex/nodes_config.cfg", 3).error().os_error == EFBIG);
  const auto status = files.status("/etc/nvidia-imex/nodes_config.cfg").value();
  REQUIRE(status);
  CHECK(status->permissions == 0644);
  CHECK(status->size == 18);
  REQUIRE(files.replace("/etc/nvidia-imex/nodes_config.cfg", "10.0.0.1\n10.0.0.2\n", 0600));
  CHECK(plan.sentences() ==
        std::vector<std::string>{
            "would replace /etc/nvidia-imex/nodes_config.cfg (0644, 18 bytes): 10.0.0.1, 10.0.0.2",
            "would replace /etc/nvidia-imex/nodes_config.cfg (0600, 18 bytes, the same content): 10.0.0.1, 10.0.0.2"});
  CHECK(node.read("/etc/nvidia-imex/nodes_config.cfg", 100).value() == "old\n");
}

TEST_CASE("a folder and a device that would be made are there for the reads that follow") {
  FakeFiles node;
  node.directory("/dev");
  Plan plan;
  DryFiles files(node, plan);
  CHECK(files.make_char_device("/dev/caps/channel0", 235, 0, 0666).error().os_error == ENOENT);
  REQUIRE(files.make_directory("/dev/caps", 0755));
  REQUIRE(files.make_directory("/dev/caps", 0755));  // nothing left to do
  REQUIRE(files.make_char_device("/dev/caps/channel0", 235, 0, 0666));
  CHECK(files.status("/dev/caps").value()->kind == FileStatus::Kind::directory);
  const auto device = files.status("/dev/caps/channel0").value();
  REQUIRE(device);
  CHECK(device->kind == FileStatus::Kind::char_device);
  CHECK(device->device_major == 235);
  CHECK(device->permissions == 0666);
  CHECK(files.probe_device("/dev/caps/channel0") == 0);
  CHECK(files.list("/dev/caps").value() == std::vector<std::string>{"channel0"});
  CHECK(files.list("/dev").value() == std::vector<std::string>{"caps"});
  CHECK(files.read("/dev/caps/channel0", 10).error().os_error == EINVAL);
  CHECK(plan.sentences() ==
        std::vector<std::string>{"would make the folder /dev/caps (0755)",
                                 "would make the device /dev/caps/channel0 (character device 235:0, 0666)"});
}

TEST_CASE("permissions, renames and removals are seen and told") {
  FakeFiles node;
  node.file("/etc/a", "content", 0600).file("/etc/b", "other").directory("/etc/d", 0700);
  Plan plan;
  DryFiles files(node, plan);
  REQUIRE(files.set_permissions("/etc/a", 0600));  // already so
  REQUIRE(files.set_permissions("/etc/a", 0644));
  CHECK(files.status("/etc/a").value()->permissions == 0644);
  CHECK(files.read("/etc/a", 100).value() == "content");
  REQUIRE(files.make_directory("/etc/d", 0755));
  REQUIRE(files.rename("/etc/a", "/etc/c"));
  CHECK(files.read("/etc/c", 100).value() == "content");
  CHECK(files.read("/etc/a", 100).error().os_error == ENOENT);
  CHECK_FALSE(files.status("/etc/a").value().has_value());
  REQUIRE(files.remove("/etc/b"));
  REQUIRE(files.remove("/etc/b"));
  REQUIRE(files.remove("/etc/never"));
  CHECK(files.list("/etc").value() == std::vector<std::string>{"c", "d"});
  CHECK(files.probe_device("/etc/b") == ENOENT);
  CHECK(plan.sentences() == std::vector<std::string>{"would set the permissions of /etc/a to 0644",
                                                     "would set the permissions of /etc/d to 0755",
                                                     "would rename /etc/a to /etc/c", "would remove /etc/b"});
}

TEST_CASE("what the node would refuse is refused and not told as done") {
  FakeFiles node;
  node.file("/etc/a", "content").directory("/etc/d").link("/etc/link", "a");
  Plan plan;
  DryFiles files(node, plan);
  CHECK(files.replace("/no/folder", "x", 0644).error().os_error == ENOENT);
  CHECK(files.replace("/etc/a/x", "x", 0644).error().os_error == ENOTDIR);
  CHECK(files.replace("/etc/d", "x", 0644).error().os_error == EISDIR);
  CHECK(files.make_directory("/etc/a", 0755).error().os_error == ENOTDIR);
  CHECK(files.make_char_device("/etc", 1, 3, 0666).error().os_error == ENOTEMPTY);
  CHECK(files.set_permissions("/etc/link", 0644).error().os_error == ELOOP);
  CHECK(files.set_permissions("/etc/missing", 0644).error().os_error == ENOENT);
  CHECK(files.rename("/etc/missing", "/etc/b").error().os_error == ENOENT);
  CHECK(files.rename("/etc/a", "/no/b").error().os_error == ENOENT);
  CHECK(files.remove("/etc/d").error().os_error == EISDIR);
  CHECK(files.replace("/no/folder", "x", 0644).error().code == base::ExitCode::change);
  CHECK(plan.sentences().empty());
}

TEST_CASE("a plan's content preview cannot carry an escape code or a forged line") {
  FakeFiles node;
  node.directory("/etc");
  Plan plan;
  DryFiles files(node, plan);
  REQUIRE(files.replace("/etc/a", "x\x1b[31m\ny\r", 0644));
  CHECK(plan.sentences().front() == "would replace /etc/a (0644, 9 bytes): x\\x1b[31m, y");
}
