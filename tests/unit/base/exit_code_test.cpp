#include "base/exit_code.h"

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

using namespace base;

TEST_CASE("the numbers of the exit codes never change") {
  CHECK(to_int(ExitCode::ok) == 0);
  CHECK(to_int(ExitCode::found_wrong) == 1);
  CHECK(to_int(ExitCode::usage) == 2);
  CHECK(to_int(ExitCode::surroundings) == 3);
  CHECK(to_int(ExitCode::source) == 4);
  CHECK(to_int(ExitCode::change) == 5);
  CHECK(to_int(ExitCode::time_out) == 6);
  CHECK(to_int(ExitCode::reboot_needed) == 7);
  CHECK(to_int(ExitCode::bug) == 70);
  CHECK(signal_exit_base == 128);
}

TEST_CASE("the table has each code once, in order, with a meaning") {
  int last = -1;
  std::set<std::string> meanings;
  for (const auto& [code, meaning] : exit_code_table) {
    CHECK(to_int(code) > last);
    last = to_int(code);
    CHECK_FALSE(meaning.empty());
    CHECK(meanings.insert(std::string(meaning)).second);
  }
  CHECK(last < signal_exit_base);
}
