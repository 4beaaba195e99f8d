// What validate found, told as text and as JSON, and the exit code that follows from it.
#include "flow/findings.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

using flow::Findings;
using Json = nlohmann::json;

namespace {

Findings one_of_each() {
  Findings findings;
  findings.ok("imex", "driver", "570.172.08");
  findings.skip("mig", "layout", "no MIG on this GPU");
  findings.warn("imex", "reserved ports", "50000 is not reserved", "set net.ipv4.ip_local_reserved_ports");
  findings.fail("imex", "channel", "missing", "load the driver");
  findings.fail("imex", "unit", "not found", "install nvidia-imex");
  return findings;
}

}  // namespace

TEST_CASE("a fail is exit 1, a warning only where it is asked for, a skip never") {
  Findings findings;
  CHECK(findings.exit_code(false) == 0);
  CHECK(findings.exit_code(true) == 0);
  findings.ok("imex", "driver", "there");
  findings.skip("mig", "layout", "none");
  CHECK(findings.exit_code(true) == 0);
  findings.warn("imex", "ports", "not reserved", "reserve them");
  CHECK(findings.exit_code(false) == 0);
  CHECK(findings.exit_code(true) == 1);
  findings.fail("imex", "channel", "missing", "load the driver");
  CHECK(findings.exit_code(false) == 1);
}

TEST_CASE("the first cause is the one that was named, else the first fail, else the first warning") {
  Findings findings;
  CHECK(findings.first_cause().empty());
  findings.ok("imex", "driver", "there");
  CHECK(findings.first_cause().empty());
  findings.warn("imex", "ports", "not reserved", "");
  CHECK(findings.first_cause() == "imex, ports: not reserved");
  findings.fail("imex", "channel", "missing", "load the driver");
  CHECK(findings.first_cause() == "imex, channel: missing; load the driver");
  findings.set_first_cause("the driver is not loaded");
  CHECK(findings.first_cause() == "the driver is not loaded");
}

TEST_CASE("as text: the first cause on top, a line for each check with its cure below, the count at the end") {
  CHECK(flow::to_text(one_of_each(), false, false) ==
        "first cause: imex, channel: missing; load the driver\n"
        "\n"
        "ok      imex driver: 570.172.08\n"
        "skipped mig layout: no MIG on this GPU\n"
        "warn    imex reserved ports: 50000 is not reserved\n"
        "          -> set net.ipv4.ip_local_reserved_ports\n"
        "fail    imex channel: missing\n"
        "          -> load the driver\n"
        "fail    imex unit: not found\n"
        "          -> install nvidia-imex\n"
        "\n"
        "2 failed, 1 warned, 1 ok, 1 skipped\n");
}

TEST_CASE("attachments stand below the checks, and strict says so") {
  Findings findings = one_of_each();
  findings.attach("id  node\n0   a\n");
  const std::string text = flow::to_text(findings, false, true);
  CHECK(text.ends_with(
      "\nid  node\n0   a\n\n2 failed, 1 warned, 1 ok, 1 skipped (--strict: a warning counts as a fail)\n"));
}

TEST_CASE("colour is only in the words, and only where it is wanted") {
  CHECK(flow::to_text(one_of_each(), false, false).find('\x1b') == std::string::npos);
  const std::string coloured = flow::to_text(one_of_each(), true, false);
  CHECK(coloured.find("\x1b[31mfail    \x1b[0mimex channel: missing\n") != std::string::npos);
}

TEST_CASE("texts from outside can neither forge a line nor send an escape code") {
  Findings findings;
  findings.fail("imex", "channel", "x\nok      imex channel: forged\x1b[2J", "y\nz");
  const std::string text = flow::to_text(findings, false, false);
  CHECK(text.find("\nok ") == std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
  const std::string json = flow::to_json(findings, false);
  CHECK_FALSE(Json::parse(json, nullptr, false).is_discarded());
  CHECK(json.find('\x1b') == std::string::npos);
}

TEST_CASE("as JSON: every check with result, what was found and the cure, and the exit code") {
  const Json json = Json::parse(flow::to_json(one_of_each(), false));
  CHECK(json.at("schema") == 1);
  CHECK(json.at("command") == "validate");
  CHECK(json.at("exit_code") == 1);
  CHECK(json.at("first_cause") == "imex, channel: missing; load the driver");
  REQUIRE(json.at("checks").size() == 5);
  CHECK(json.at("checks")[3] == Json{{"name", "imex channel"},
                                     {"subject", "imex"},
                                     {"check", "channel"},
                                     {"result", "fail"},
                                     {"found", "missing"},
                                     {"cure", "load the driver"}});
  CHECK(json.at("checks")[0].at("cure") == "");
}

TEST_CASE("strict changes the exit code in the JSON as well") {
  Findings findings;
  findings.warn("imex", "ports", "not reserved", "reserve them");
  CHECK(Json::parse(flow::to_json(findings, false)).at("exit_code") == 0);
  CHECK(Json::parse(flow::to_json(findings, true)).at("exit_code") == 1);
}

TEST_CASE("facts that are no JSON cost the report nothing but themselves") {
  for (const char* text : {"", "{", "[1,", "\xff", "{\"a\": nan}"}) {
    CAPTURE(text);
    Findings findings;
    findings.fail("imex", "ports", "not reserved", "reserve them");
    findings.set_data("imex", text);
    const Json json = Json::parse(flow::to_json(findings, false));
    CHECK(json.at("checks").size() == 1);
    CHECK(json.at("data") == Json{{"imex", nullptr}});
  }
}

TEST_CASE("facts for machines stand under data in the JSON, and nowhere in the text") {
  Findings findings;
  CHECK(Json::parse(flow::to_json(findings, false)).at("data") == Json::object());
  findings.set_data("domain", R"({"state":"UP"})");
  CHECK(Json::parse(flow::to_json(findings, false)).at("data").at("domain").at("state") == "UP");
  CHECK(flow::to_text(findings, false, false).find("UP") == std::string::npos);
}

TEST_CASE("where validate cannot run the JSON has the same keys, no check, and why") {
  const auto json = Json::parse(flow::cannot_run_json({base::ExitCode::surroundings, "no job", "call it in one"}));
  CHECK(json["command"] == "validate");
  CHECK(json["exit_code"] == 3);
  CHECK(json["checks"].empty());
  CHECK(json["first_cause"] == "no job");
  CHECK(json["error"]["cure"] == "call it in one");
}
