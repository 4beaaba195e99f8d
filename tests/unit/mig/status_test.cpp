#include "mig/status.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

using namespace mig;

namespace {

Status good() {
  Status status;
  status.boot_id = "boot-1";
  status.time = "2026-05-04T06:08:10Z";
  status.result = "changed";
  status.message = "every GPU has its layout";
  GpuStatus gpu;
  gpu.bus_id = "00000000:36:00.0";
  gpu.layout = "3g.71gb:1,1g.18gb:2";
  gpu.state = "right";
  gpu.instances = {{"3g.71gb", 9}};
  status.gpus = {gpu};
  status.gres = {{"3g.71gb", 1}};
  return status;
}

}  // namespace

TEST_CASE("the gate is shut without a file, for a damaged one, for another boot, a killed run and a failed one") {
  CHECK_FALSE(gate(std::nullopt, "boot-1").open);
  for (const char* damage : {"", "{", "null", "[]", "{}", "17", "{\"command\": \"mig-setup\"}",
                             "{\"command\": \"mig-setup\", \"exit_code\": \"0\"}"}) {
    CAPTURE(damage);
    CHECK_FALSE(gate(damage, "boot-1").open);
  }
  CHECK_FALSE(gate(std::string(64, '\0'), "boot-1").open);
  CHECK_FALSE(gate(to_json(good()), "boot-2").open);
  CHECK_FALSE(gate(to_json(good()), "").open);
  Status nameless = good();
  nameless.boot_id.clear();
  CHECK_FALSE(gate(to_json(nameless), "").open);
  Status running = good();
  running.result = "running";
  CHECK_FALSE(gate(to_json(running), "boot-1").open);
  Status failed = good();
  failed.exit_code = 5;
  failed.message = "GPU 0: Insufficient Resources";
  failed.cure = "end it";
  const GateVerdict verdict = gate(to_json(failed), "boot-1");
  CHECK_FALSE(verdict.open);
  CHECK(verdict.found.find("exit code 5") != std::string::npos);
  CHECK(verdict.found.find("Insufficient Resources") != std::string::npos);
  CHECK(verdict.cure == "end it");
}

TEST_CASE("the gate is open after a run of this boot that went well") { CHECK(gate(to_json(good()), "boot-1").open); }

TEST_CASE("what was written is read back, with text from a driver made fit for JSON") {
  Status status = good();
  status.message = "bad \xff bytes\nand \x1b[31m lines";
  const std::string text = to_json(status);
  CHECK(text.find('\x1b') == std::string::npos);
  const auto back = parse_status(text);
  REQUIRE(back);
  CHECK(back->boot_id == "boot-1");
  CHECK(back->gpus.front().layout == "3g.71gb:1,1g.18gb:2");
  CHECK(gres_text(back->gres) == "gpu:3g.71gb:1");
  const auto json = nlohmann::json::parse(text);
  CHECK(json["gpus"][0]["instances"][0]["profile"] == "3g.71gb");
  CHECK(json["schema"] == 1);
}

TEST_CASE("the rules of the last run come back by bus id") {
  Status status = good();
  GpuStatus empty;
  empty.bus_id = "00000000:37:00.0";
  empty.layout = "empty";
  GpuStatus unselected;
  unselected.bus_id = "00000000:38:00.0";
  status.gpus.push_back(empty);
  status.gpus.push_back(unselected);
  const auto rules = rules_of(status);
  REQUIRE(rules);
  CHECK(show(*rules) == "00000000:36:00.0=3g.71gb:1,1g.18gb:2 00000000:37:00.0=empty");
  CHECK_FALSE(rules_of(Status{}));
}

TEST_CASE("times are UTC") {
  CHECK(utc(std::chrono::system_clock::time_point(std::chrono::seconds(1'777'874'890))) == "2026-05-04T06:08:10Z");
}
