// The node list: byte for byte the same on every node, never on a file system that nodes share.
#include "imex/nodes_config.h"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>

#include "fakes/fake_files.h"

using Lines = std::vector<std::string>;

namespace {
const std::string path = "/etc/nvidia-imex/nodes_config.cfg";
}

TEST_CASE("a list on a network file system is refused: each node would overwrite the others'") {
  fakes::FakeFiles files;
  files.directory("/etc/nvidia-imex").on_network("/etc/nvidia-imex").allow_changes();
  const auto place = imex::check_nodes_config_place(files, path, "10.0.0.1\n");
  REQUIRE_FALSE(place);
  CHECK(place.error().code == base::ExitCode::change);
  CHECK(place.error().what.find("network file system") != std::string::npos);
  CHECK(place.error().cure.find("IMEX_NODE_CONFIG_FILE") != std::string::npos);
  CHECK(files.changes.empty());
}

TEST_CASE("a disk that is full is found by a rehearsal, which leaves the old list") {
  fakes::FakeFiles files;
  files.file(path, "old\n").fail_rehearsal(path, ENOSPC).allow_changes();
  const auto place = imex::check_nodes_config_place(files, path, "10.0.0.1\n");
  REQUIRE_FALSE(place);
  CHECK(place.error().code == base::ExitCode::change);
  CHECK(place.error().os_error == ENOSPC);
  CHECK(place.error().what.find("cannot write the IMEX node list " + path) == 0);
  CHECK(place.error().cure == "see whether /etc/nvidia-imex is writable and has space left");
  CHECK(files.read(path, 100).value() == "old\n");
}

TEST_CASE("a list that cannot be written is an error that names it") {
  fakes::FakeFiles files;
  files.file(path, "old\n").fail_change(path, EROFS).allow_changes();
  const auto written = imex::write_nodes_config(files, path, "10.0.0.1\n");
  REQUIRE_FALSE(written);
  CHECK(written.error().code == base::ExitCode::change);
  CHECK(written.error().os_error == EROFS);
  CHECK(files.read(path, 100).value() == "old\n");
}

TEST_CASE("a list that cannot be written is told once, with the cure that fits") {
  struct Row {
    int error;
    const char* cure;
  };
  for (const Row& row : {Row{EISDIR, "a folder lies in its place: remove it, or correct IMEX_NODE_CONFIG_FILE in "},
                         Row{ENOENT, "make the folder /etc/nvidia-imex, or correct IMEX_NODE_CONFIG_FILE in "},
                         Row{ENOTDIR, "make the folder /etc/nvidia-imex, or correct IMEX_NODE_CONFIG_FILE in "},
                         Row{EIO, "see whether /etc/nvidia-imex is writable and has space left"}}) {
    CAPTURE(row.error);
    fakes::FakeFiles files;
    files.file(path, "old\n").fail_replace(path, row.error).allow_changes();
    const auto written = imex::write_nodes_config(files, path, "10.0.0.1\n");
    REQUIRE_FALSE(written);
    CHECK(written.error().what.starts_with("cannot write the IMEX node list " + path + ": "));
    CHECK(written.error().what.find(path) == written.error().what.rfind(path));
    CHECK(written.error().cure.starts_with(row.cure));
  }
}

TEST_CASE("one address a line in the given order, nothing else") {
  CHECK(imex::render_nodes_config({"10.0.0.2", "10.0.0.1", "fd00::1"}) == "10.0.0.2\n10.0.0.1\nfd00::1\n");
  fakes::FakeFiles files;
  files.directory("/etc/nvidia-imex").allow_changes();
  REQUIRE(imex::check_nodes_config_place(files, path, "10.0.0.1\n"));
  REQUIRE(imex::write_nodes_config(files, path, "10.0.0.1\n"));
  CHECK(files.read(path, 100).value() == "10.0.0.1\n");
  CHECK(files.tree.at(path).status.permissions == 0644);
}

TEST_CASE("a list without nodes is a comment, which holds no address") {
  const std::string empty = imex::render_empty_nodes_config();
  CHECK(empty.starts_with("# "));
  CHECK(empty.ends_with("\n"));
  CHECK(imex::parse_nodes_config(empty).empty());
}

TEST_CASE("reading a list back passes over comments and blank lines") {
  CHECK(imex::parse_nodes_config("## nodes\n\n 10.0.0.1 \r\n#10.0.0.9\n10.0.0.2") == Lines{"10.0.0.1", "10.0.0.2"});
  CHECK(imex::parse_nodes_config(imex::render_nodes_config({"10.0.0.1", "fd00::1"})) == Lines{"10.0.0.1", "fd00::1"});
}

TEST_CASE("a device or a folder in the list's place is refused, not replaced") {
  fakes::FakeFiles files;
  files.allow_changes().device("/dev/null", 1, 3).directory("/etc/nvidia-imex/nodes_config.cfg");
  for (const char* path : {"/dev/null", "/etc/nvidia-imex/nodes_config.cfg"}) {
    const auto checked = imex::check_nodes_config_place(files, path, "10.0.0.1\n");
    REQUIRE(!checked);
    CHECK(checked.error().code == base::ExitCode::change);
    CHECK(checked.error().what == std::string("the IMEX node list ") + path + " is no regular file");
  }
  CHECK(files.changes.empty());
}
