#include "base/duration.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

using namespace base;
using namespace std::chrono_literals;

TEST_CASE("what is no duration is refused with the text in the message") {
  for (const char* bad : {"",
                          " ",
                          "-1",
                          "+1",
                          "s",
                          "m",
                          "ms",
                          "1h",
                          "1.s",
                          ".5s",
                          "1.2345s",
                          "1..2s",
                          "1e3",
                          "1 000",
                          "inf",
                          "nan",
                          "86401",
                          "1441m",
                          "99999999999999999999",
                          "0x10",
                          "1s2",
                          "1.-5s",
                          "30 s5",
                          "1.5.5s"}) {
    CAPTURE(bad);
    const auto duration = parse_duration(bad);
    REQUIRE_FALSE(duration);
    CHECK(duration.error().code == ExitCode::usage);
    CHECK(duration.error().what == "'" + std::string(bad) + "' is no duration");
    CHECK_FALSE(duration.error().cure.empty());
  }
}

TEST_CASE("a hostile duration cannot forge a log line") {
  CHECK(parse_duration("1\nERROR").error().what == "'1\\x0aERROR' is no duration");
}

TEST_CASE("durations are seconds or have a unit") {
  const std::pair<const char*, milliseconds> rows[] = {
      {"0", 0ms},       {"30", 30s},     {"30s", 30s},  {"2m", 2min},      {"500ms", 500ms}, {" 5 ", 5s},
      {"1.5s", 1500ms}, {"0.25", 250ms}, {"1.5m", 90s}, {"86400", 86400s}, {"1440m", 24h},   {"007", 7s},
  };
  for (const auto& [text, expected] : rows) {
    CAPTURE(text);
    const auto duration = parse_duration(text);
    REQUIRE(duration);
    CHECK(*duration == expected);
  }
}

TEST_CASE("durations are shown as a person says them") {
  CHECK(show_duration(0ms) == "0 ms");
  CHECK(show_duration(99ms) == "99 ms");
  CHECK(show_duration(420ms) == "0.42 s");
  CHECK(show_duration(12'340ms) == "12.3 s");
  CHECK(show_duration(10s) == "10 s");
  CHECK(show_duration(150s) == "150 s");
}
