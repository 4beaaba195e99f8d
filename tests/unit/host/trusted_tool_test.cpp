#include "host/trusted_tool.h"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>

#include "fakes/fake_files.h"
#include "host/real_files.h"
#include "temporary_folder.h"

using fakes::FakeFiles;
using host::check_tool;
using host::find_tool;

TEST_CASE("a tool that only root can have put there is told with its links resolved") {
  FakeFiles files;
  files.file("/usr/bin/scontrol-24.11", "", 0755).link("/usr/bin/scontrol", "scontrol-24.11").link("/bin", "usr/bin");
  files.link("/opt/slurm/bin", "/bin").file("/a/b", "", 0700).link("/a/up", "../bin/../bin/./scontrol");
  CHECK(check_tool(files, "/usr/bin/scontrol-24.11", true).value() == "/usr/bin/scontrol-24.11");
  CHECK(check_tool(files, "/usr/bin/scontrol", true).value() == "/usr/bin/scontrol-24.11");
  CHECK(check_tool(files, "/opt/slurm/bin/scontrol", true).value() == "/usr/bin/scontrol-24.11");
  CHECK(check_tool(files, "//usr/./bin//scontrol", true).value() == "/usr/bin/scontrol-24.11");
  CHECK(check_tool(files, "/a/up", true).value() == "/usr/bin/scontrol-24.11");
  CHECK(check_tool(files, "/a/b", true).value() == "/a/b");
}

TEST_CASE("a tool that another could have put there is refused as root, naming the part that is wrong") {
  struct Case {
    std::string wrong;
    FakeFiles files;
  };
  std::vector<Case> cases;
  cases.push_back(
      {"/usr/bin/tool: others than root may write it (mode 0775)", FakeFiles().file("/usr/bin/tool", "", 0775)});
  cases.push_back(
      {"/usr/bin/tool: others than root may write it (mode 0757)", FakeFiles().file("/usr/bin/tool", "", 0757)});
  cases.push_back(
      {"/usr/bin/tool: it belongs to user 1000 and not to root", FakeFiles().file("/usr/bin/tool", "", 0755, 1000)});
  cases.push_back({"/usr/bin: others than root may write it (mode 0775)",
                   FakeFiles().directory("/usr/bin", 0775).file("/usr/bin/tool", "", 0755)});
  cases.push_back({"/usr/bin: others than root may write it (mode 1777)",
                   FakeFiles().directory("/usr/bin", 01777).file("/usr/bin/tool", "", 0755)});
  cases.push_back({"/usr: it belongs to user 7 and not to root",
                   FakeFiles().directory("/usr", 0755, 7).file("/usr/bin/tool", "", 0755)});
  cases.push_back({"/usr/bin/tool: it belongs to user 1000 and not to root",
                   FakeFiles().file("/usr/bin/real", "", 0755).link("/usr/bin/tool", "real", 1000)});
  cases.push_back(
      {"/home: it belongs to user 1000 and not to root",
       FakeFiles().directory("/home", 0755, 1000).file("/home/real", "", 0755).link("/usr/bin/tool", "/home/real")});
  cases.push_back(
      {"/srv: others than root may write it (mode 0777)", FakeFiles()
                                                              .directory("/srv", 0777)
                                                              .directory("/usr/bin")
                                                              .file("/usr/bin/real", "", 0755)
                                                              .link("/usr/bin/tool", "/srv/../usr/bin/real")});
  for (const Case& one : cases) {
    const auto checked = check_tool(one.files, "/usr/bin/tool", true);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().what == "cannot use the tool /usr/bin/tool: not trusted, since " + one.wrong);
    CHECK(checked.error().code == base::ExitCode::surroundings);
    CHECK(checked.error().os_error == EPERM);
    CHECK_FALSE(checked.error().cure.empty());
    CHECK(check_tool(one.files, "/usr/bin/tool", false));
  }
}

TEST_CASE("what is no executable file is refused, also for a user") {
  FakeFiles files;
  files.file("/bin/plain", "", 0644)
      .directory("/bin/folder")
      .link("/bin/loop", "loop")
      .link("/bin/dangling", "nowhere");
  CHECK(check_tool(files, "/bin/plain", false).error().what == "cannot use the tool /bin/plain: it is not executable");
  CHECK(check_tool(files, "/bin/folder", false).error().what ==
        "cannot use the tool /bin/folder: it is not a regular file");
  CHECK(check_tool(files, "/bin/loop", false).error().os_error == ELOOP);
  CHECK(check_tool(files, "/bin/missing", false).error().os_error == ENOENT);
  CHECK(check_tool(files, "/bin/missing", false).error().what == "cannot use the tool /bin/missing: it is not there");
  CHECK(check_tool(files, "/bin/dangling", false).error().what ==
        "cannot use the tool /bin/dangling: /bin/nowhere is not there");
  CHECK(check_tool(files.file("/bin/good", "", 0755), "/bin/good/..", false).error().what ==
        "cannot use the tool /bin/good/..: it is not a regular file");
  CHECK(check_tool(files, "bin/plain", false).error().os_error == EINVAL);
  CHECK(check_tool(files, "", false).error().os_error == EINVAL);
}

TEST_CASE("the first tool that is there is taken") {
  FakeFiles files;
  files.file("/usr/bin/tool", "", 0755).file("/usr/local/bin/tool", "", 0755);
  CHECK(find_tool(files, "tool", {"/opt/bin/tool", "/usr/local/bin/tool", "/usr/bin/tool"}, true).value() ==
        "/usr/local/bin/tool");
  const auto none = find_tool(files, "scontrol", {"/opt/bin/scontrol", "/bin/scontrol"}, true);
  REQUIRE_FALSE(none);
  CHECK(none.error().what == "scontrol is not there: looked at /opt/bin/scontrol, /bin/scontrol");
  CHECK(none.error().os_error == ENOENT);
  CHECK(none.error().code == base::ExitCode::surroundings);
}

TEST_CASE("a tool that is there but not to be trusted ends the search") {
  FakeFiles files;
  files.file("/usr/local/bin/tool", "", 0777).file("/usr/bin/tool", "", 0755);
  const auto found = find_tool(files, "tool", {"/usr/local/bin/tool", "/usr/bin/tool"}, true);
  REQUIRE_FALSE(found);
  CHECK(found.error().os_error == EPERM);
  CHECK(find_tool(files, "tool", {"/usr/local/bin/tool", "/usr/bin/tool"}, false).value() == "/usr/local/bin/tool");
}

TEST_CASE("on the real disk a system tool is trusted and one below a folder that all may write is not") {
  const host::RealFiles files{host::Root()};
  CHECK(check_tool(files, "/bin/sh", true));
  const tests::TemporaryFolder folder;  // in /tmp, mode 1777
  const auto checked = check_tool(files, folder.file("tool", "#!/bin/sh\n", 0755), true);
  REQUIRE_FALSE(checked);
  CHECK(checked.error().os_error == EPERM);
  CHECK(check_tool(files, folder / "tool", false).value() == folder / "tool");
}
