// Files by which root decides: only root could have written them, or they are not believed.
#include "host/trusted_file.h"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>

#include "fakes/fake_files.h"

using host::file_fault;
using host::folder_fault;

TEST_CASE("what is not there has no fault") {
  const fakes::FakeFiles files;
  CHECK(file_fault(files, "/run/x/y", true).empty());
  CHECK(folder_fault(files, "/run/x", true).empty());
}

TEST_CASE("root's file in root's folder is believed") {
  fakes::FakeFiles files;
  files.directory("/run/x").file("/run/x/y", "");
  CHECK(file_fault(files, "/run/x/y", true).empty());
}

TEST_CASE("a file or folder of another kind, of another owner or writable by others is not, and its path is told") {
  fakes::FakeFiles files;
  files.directory("/run/x");
  std::string told;
  SECTION("link") { files.link("/run/x/y", "/z"), told = "/run/x/y is a symbolic link, not a file"; }
  SECTION("folder") { files.directory("/run/x/y"), told = "/run/x/y is a folder, not a file"; }
  SECTION("device") { files.device("/run/x/y", 1, 3), told = "/run/x/y is a device, not a file"; }
  SECTION("owner") { files.file("/run/x/y", "", 0644, 7), told = "/run/x/y does not belong to root"; }
  SECTION("group") { files.file("/run/x/y", "", 0664), told = "/run/x/y can be written by group or others"; }
  SECTION("others") { files.file("/run/x/y", "", 0646), told = "/run/x/y can be written by group or others"; }
  SECTION("folder's owner") {
    files.file("/run/x/y", "").directory("/run/x", 0755, 7), told = "/run/x does not belong to root";
  }
  SECTION("folder's mode") {
    files.file("/run/x/y", "").directory("/run/x", 01777), told = "/run/x can be written by group or others";
  }
  CHECK(file_fault(files, "/run/x/y", true) == told);
}

TEST_CASE("where the files may be a person's own any owner will do, and no mode that lets others write") {
  fakes::FakeFiles files;
  files.directory("/run/x", 0755, 7).file("/run/x/y", "", 0644, 7);
  CHECK(file_fault(files, "/run/x/y", false).empty());
  files.file("/run/x/y", "", 0666, 7);
  CHECK_FALSE(file_fault(files, "/run/x/y", false).empty());
}
