// What a run tells machines: one JSON object, whatever texts came from outside.
#include "flow/report.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

using namespace std::chrono_literals;
using Json = nlohmann::json;
using Outcome = flow::StepRecord::Outcome;

TEST_CASE("an error is one line, whatever its texts hold, with the cure after the cause") {
  const base::Error error{base::ExitCode::change, "cannot write x\n[ERROR] forged", "see\x1b[31m y"};
  CHECK(flow::one_line(error) == "cannot write x\\x0a[ERROR] forged; see\\x1b[31m y");
  CHECK(flow::one_line({base::ExitCode::change, "nothing can be done", ""}) == "nothing can be done");
  const std::string longest =
      flow::one_line({base::ExitCode::change, std::string(100'000, 'x'), std::string(100'000, 'y')});
  CHECK(longest.size() < 2100);
}

TEST_CASE("a failed run's JSON tells the error with its exit code and whose fault it is") {
  flow::Report report;
  report.command = "imex-prolog";
  report.job = "7";
  report.exit_code = 4;
  report.summary = "failed: no answer";
  report.steps.push_back({"peers", Outcome::failed, "no answer", 1200ms});
  report.warnings.emplace_back("one warning");
  report.error = base::Error{base::ExitCode::source, "no answer", "ask again", base::Blame::shared};
  const Json json = Json::parse(flow::to_json(report));
  CHECK(json ==
        Json{{"schema", 1},
             {"command", "imex-prolog"},
             {"job", "7"},
             {"dry_run", false},
             {"exit_code", 4},
             {"summary", "failed: no answer"},
             {"steps", {{{"name", "peers"}, {"outcome", "failed"}, {"detail", "no answer"}, {"took_ms", 1200}}}},
             {"warnings", {"one warning"}},
             {"error", {{"code", 4}, {"what", "no answer"}, {"cure", "ask again"}, {"shared", true}}}});
}

TEST_CASE("no job and no error are null; a dry run says what is planned") {
  flow::Report report;
  report.command = "imex-prolog";
  report.dry_run = true;
  report.planned = {"would stop unit nvidia-imex"};
  const Json json = Json::parse(flow::to_json(report));
  CHECK(json.at("job").is_null());
  CHECK(json.at("error").is_null());
  CHECK(json.at("planned") == Json{"would stop unit nvidia-imex"});
  CHECK(json.at("steps") == Json::array());
}

TEST_CASE("texts from outside leave the JSON whole and hold no control characters") {
  flow::Report report;
  report.command = "imex-prolog";
  report.job = "7\"\n\x1b";
  report.summary = "\xff\xfe\"\\";
  report.steps.push_back({"a", Outcome::done, std::string("zero\0byte", 9), 0ms});
  report.warnings.emplace_back("\xc3\x28");
  const std::string text = flow::to_json(report);
  CHECK_FALSE(Json::parse(text, nullptr, false).is_discarded());
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\0') == std::string::npos);
}
