// The log line is the published script's, so that existing filters go on working, and user text cannot forge one.
#include "flow/run_log.h"

#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <regex>

using flow::Level;

namespace {

struct Sinks {
  std::vector<std::string> file;
  std::vector<std::pair<Level, std::string>> syslog;
  std::vector<std::pair<Level, std::string>> terminal;

  flow::LogOptions options(const std::string& job = "7", Level level = Level::info) {
    flow::LogOptions made;
    made.job = job;
    made.level = level;
    made.file = [this](std::string_view line) { file.emplace_back(line); };
    made.syslog = [this](Level of, std::string_view text) { syslog.emplace_back(of, text); };
    made.terminal = [this](Level of, std::string_view text) { terminal.emplace_back(of, text); };
    return made;
  }
};

const std::string pid = "[PID:" + std::to_string(getpid()) + "]";

bool is_script_line(const std::string& line) {
  static const std::regex form(
      R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} \[(INFO|WARN|ERROR)\] \[PID:\d+\] \[JOB:[^\]\n]*\] [^\n]*\n)");
  return std::regex_match(line, form);
}

}  // namespace

TEST_CASE("text with line feeds, escape codes or zero bytes stays one line of the script's form") {
  Sinks sinks;
  flow::RunLog log(sinks.options());
  log.info("a\n2026-05-04T06:08:10.580 [ERROR] [PID:1] [JOB:1] forged");
  log.warn("\x1b[2Jred\r");
  log.error(std::string("zero\0byte", 9));
  log.info("\xff\xfe no UTF-8");
  log.info("100%s %v %n {} {0}");
  REQUIRE(sinks.file.size() == 5);
  for (const std::string& line : sinks.file) {
    INFO(line);
    CHECK(is_script_line(line));
    CHECK(line.find('\x1b') == std::string::npos);
    CHECK(line.find('\0') == std::string::npos);
  }
  CHECK(sinks.file[0].find("[INFO] " + pid + " [JOB:7] a\\x0a2026-05-04T06:08:10.580 [ERROR]") != std::string::npos);
  CHECK(sinks.file[4].ends_with("] 100%s %v %n {} {0}\n"));
  CHECK(sinks.terminal[1].second == "\\x1b[2Jred\\x0d");
}

TEST_CASE("a job id that is none cannot forge a line or a format either") {
  Sinks sinks;
  flow::RunLog log(sinks.options("7]\n[ERROR] %v %P"));
  log.info("text");
  REQUIRE(sinks.file.size() == 1);
  CHECK(sinks.file[0].find('\n') == sinks.file[0].size() - 1);
  CHECK(sinks.file[0].find("[JOB:7]\\x0a[ERROR] %v %P] text") != std::string::npos);
}

TEST_CASE("a text of any length is cut") {
  Sinks sinks;
  flow::RunLog log(sinks.options());
  log.info(std::string(1'000'000, 'x'));
  CHECK(sinks.file[0].size() < 8200);
  CHECK(sinks.syslog[0].second.size() < 8200);
}

TEST_CASE("there are three words only: what is for debugging is an INFO that says so") {
  Sinks sinks;
  flow::RunLog log(sinks.options("7", Level::debug));
  log.debug("d");
  log.info("i");
  log.warn("w");
  log.error("e");
  REQUIRE(sinks.file.size() == 4);
  for (const std::string& line : sinks.file) CHECK(is_script_line(line));
  CHECK(sinks.file[0].find(" [INFO] " + pid + " [JOB:7] debug: d\n") != std::string::npos);
  CHECK(sinks.file[1].find(" [INFO] " + pid + " [JOB:7] i\n") != std::string::npos);
  CHECK(sinks.file[2].find(" [WARN] " + pid + " [JOB:7] w\n") != std::string::npos);
  CHECK(sinks.file[3].find(" [ERROR] " + pid + " [JOB:7] e\n") != std::string::npos);
}

TEST_CASE("each level holds itself and what is graver") {
  const std::pair<Level, std::size_t> rows[] = {
      {Level::debug, 4}, {Level::info, 3}, {Level::warn, 2}, {Level::error, 1}};
  for (const auto& [level, count] : rows) {
    Sinks sinks;
    flow::RunLog log(sinks.options("7", level));
    log.debug("d");
    log.info("i");
    log.warn("w");
    log.error("e");
    CHECK(sinks.file.size() == count);
    CHECK(sinks.syslog.size() == count);
    CHECK(sinks.terminal.size() == count);
  }
}

TEST_CASE("syslog gets the tags without the time, a person the text alone, both the level") {
  Sinks sinks;
  flow::RunLog log(sinks.options());
  log.warn("beware");
  REQUIRE(sinks.syslog.size() == 1);
  CHECK(sinks.syslog[0] == std::pair{Level::warn, "[WARN] " + pid + " [JOB:7] beware"});
  CHECK(sinks.terminal[0] == std::pair{Level::warn, std::string("beware")});
}

TEST_CASE("without sinks nothing is said and nothing fails") {
  flow::RunLog log(flow::LogOptions{});
  log.error("nobody hears");
}

TEST_CASE("warnings are kept for the report, also those that the level leaves out; other words are not") {
  Sinks sinks;
  flow::Report report;
  flow::RunLog log(sinks.options("7", Level::error));
  log.keep_warnings_in(report);
  log.warn("one\ntwo");
  log.error("e");
  log.info("i");
  CHECK(report.warnings == std::vector<std::string>{"one\\x0atwo"});
}
