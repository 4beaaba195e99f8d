#include "mig/reboot.h"

#include <catch2/catch_test_macros.hpp>

using namespace mig;

namespace {

RebootFacts fit() {
  RebootFacts facts;
  facts.policy = RebootPolicy::if_pending;
  facts.instance_id = "i-1";
  facts.boot_id = "boot-1";
  return facts;
}

void refused(const RebootFacts& facts, const std::string& word) {
  const RebootVerdict verdict = decide_reboot(facts);
  CHECK_FALSE(verdict.reboot);
  CAPTURE(verdict.why, verdict.cure);
  CHECK((verdict.why + verdict.cure).find(word) != std::string::npos);
  CHECK_FALSE(verdict.cure.empty());
}

}  // namespace

TEST_CASE("no leave, no instance id, no boot id: no reboot") {
  RebootFacts facts = fit();
  facts.policy = RebootPolicy::no;
  refused(facts, "--reboot=if-pending");
  facts = fit();
  facts.instance_id.clear();
  refused(facts, "instance id");
  facts = fit();
  facts.boot_id.clear();
  refused(facts, "boot id");
}

TEST_CASE("a marker of this launch, of this boot or a damaged one: no reboot, with force neither") {
  for (RebootPolicy policy : {RebootPolicy::if_pending, RebootPolicy::force}) {
    RebootFacts facts = fit();
    facts.policy = policy;
    facts.marker_there = true;
    refused(facts, "cannot be read");
    facts.marker = RebootMarker{"i-1", "boot-0", "9,9"};
    refused(facts, "still pending");
    facts.marker->layout = "another layout";
    refused(facts, "still pending");
    facts.marker->boot_id = "boot-1";
    refused(facts, "in this boot already");
  }
}

TEST_CASE("slurmd or a finished boot: only with force") {
  RebootFacts facts = fit();
  facts.slurmd_runs = true;
  refused(facts, "--reboot=force");
  facts.policy = RebootPolicy::force;
  CHECK(decide_reboot(facts).reboot);
  facts = fit();
  facts.boot_finished = true;
  facts.why_finished = "cloud-init is done";
  refused(facts, "cloud-init is done");
  facts.policy = RebootPolicy::force;
  CHECK(decide_reboot(facts).reboot);
}

TEST_CASE("the first time on this launch, and with a marker that came with the image: reboot") {
  CHECK(decide_reboot(fit()).reboot);
  RebootFacts facts = fit();
  facts.marker_there = true;
  facts.marker = RebootMarker{"i-2", "boot-0", "9,9"};
  CHECK(decide_reboot(facts).reboot);
}

TEST_CASE("five boots of a GPU that stays pending bring one reboot") {
  std::optional<RebootMarker> marker;
  int reboots = 0;
  for (int boot = 0; boot < 5; ++boot) {
    RebootFacts facts = fit();
    facts.boot_id = "boot-" + std::to_string(boot);
    facts.marker_there = marker.has_value();
    facts.marker = marker;
    if (!decide_reboot(facts).reboot) continue;
    ++reboots;
    marker = parse_marker(to_json(RebootMarker{facts.instance_id, facts.boot_id, "9,9"}));
    REQUIRE(marker);
  }
  CHECK(reboots == 1);
}

TEST_CASE("markers that we did not write are none") {
  for (const char* text :
       {"", "{", "{}", "[]", "null", R"({"instance_id": 1, "boot_id": "b"})", R"({"instance_id": "", "boot_id": "b"})"})
    CHECK_FALSE(parse_marker(text));
  CHECK_FALSE(parse_marker(std::string(100, '\0')));
}
