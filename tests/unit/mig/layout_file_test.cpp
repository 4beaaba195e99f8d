#include <catch2/catch_test_macros.hpp>

#include "mig/layout.h"

using namespace mig;

namespace {

const std::string parted = R"(version: v1
mig-configs:
  all-3g.71gb:
    - devices: all
      mig-enabled: true
      mig-devices:
        "3g.71gb": 2
  mixed:
    - devices: [0, 1]
      mig-enabled: true
      mig-devices: {"7g.141gb": 1}
    - devices: [2]
      mig-enabled: false
  filtered:
    - device-filter: ["0x233510DE", "0x233010DE"]
      devices: all
      mig-enabled: true
      mig-devices: {"2g.35gb": 3}
    - device-filter: "0x20B710DE"
      devices: all
      mig-enabled: true
      mig-devices: {"2g.12gb": 2}
  empty:
    - devices: all
      mig-enabled: true
      mig-devices: {}
)";

std::string with(std::string from, const std::string& old, const std::string& now) {
  const std::size_t at = from.find(old);
  REQUIRE(at != std::string::npos);
  return from.replace(at, old.size(), now);
}

void refused(const std::string& text, const std::string& label, const std::string& word = "") {
  CAPTURE(text, label);
  const auto rules = parse_layout_file(text, label);
  REQUIRE_FALSE(rules);
  CHECK(rules.error().code == base::ExitCode::usage);
  CAPTURE(rules.error().what);
  CHECK(rules.error().what.find(word) != std::string::npos);
}

std::string shown(const std::string& text, const std::string& label = "") {
  const auto rules = parse_layout_file(text, label);
  if (!rules) FAIL(rules.error().what);
  return show(*rules);
}

}  // namespace

TEST_CASE("empty and damaged files are refused") {
  for (const std::string& text :
       {std::string(), std::string("  \n"), std::string("{"), std::string("[]"), std::string("null"), std::string("17"),
        std::string("{}"), std::string("\x00\x01\x02", 3), std::string("a: [b"), std::string("- x"),
        std::string("text")}) {
    refused(text, "");
  }
}

TEST_CASE("our JSON: unknown, missing and repeated keys are refused") {
  refused(R"({"gpus": 3})", "", "unknown key 'gpus'");
  refused(R"({"layout": "9", "layouts": {"0": "9"}})", "", "either");
  refused(R"({"layouts": {}})", "", "empty");
  refused(R"({"layouts": []})", "", "empty");
  refused(R"({"layouts": {"0": "9", "0": "19"}})", "", "twice");
  refused(R"({"layouts": [{"gpus": "0"}]})", "", "no 'layout'");
  refused(R"({"layouts": [{"gpus": "0", "layout": "9", "mode": 1}]})", "", "unknown key 'mode'");
  refused(R"({"layout": {"3g.71gb": "two"}})", "", "no number");
  refused(R"({"layout": {"3g.71gb": -2}})", "", "no number");
  refused(R"({"layout": {"3g.71gb": 0}})", "");
  refused(R"({"layout": [1.5]})", "");
  refused(R"({"layout": null})", "");
  refused(R"({"layout": "9"} trailing)", "");
  refused(R"({"layout": "9"})", "some-label", "--layout-name");
}

TEST_CASE("our JSON: one layout for all, by selection, as text, list or map") {
  CHECK(shown(R"({"layout": "3g.71gb:1,1g.18gb:2"})") == "3g.71gb:1,1g.18gb:2");
  CHECK(shown(R"({"layout": {"3g.71gb": 1, "1g.18gb": 2}})") == "3g.71gb:1,1g.18gb:2");
  CHECK(shown(R"({"layout": [9, 14, 19, 19]})") == "9,14,19,19");
  CHECK(shown(R"({"layouts": {"0-1": "7g.141gb:1", "model:A30": "none"}})") == "0,1=7g.141gb:1 model:A30=none");
  CHECK(shown(R"({"layouts": [{"gpus": 0, "layout": "9,9"}, {"gpus": "1", "layout": ["1g.18gb"]}]})") ==
        "0=9,9 1=1g.18gb:1");
}

TEST_CASE("mig-parted: what it refuses is refused") {
  refused(parted, "", "--layout-name");
  refused(parted, "all-9g", "no mig-config 'all-9g'");
  refused(with(parted, "version: v1", "version: v2"), "empty", "v1");
  refused(with(parted, "version: v1\n", ""), "empty", "v1");
  refused(parted + "more: 1\n", "empty", "unexpected field 'more'");
  refused(with(parted, "mig-enabled: false", "mig-enabled: false\n      mig-placements: 3"), "mixed",
          "unexpected field 'mig-placements'");
  refused(with(parted, "    - devices: [2]\n      mig-enabled: false", "    - mig-enabled: false"), "mixed",
          "missing required field 'devices'");
  refused(with(parted, "      mig-enabled: true\n      mig-devices:\n        \"3g.71gb\": 2",
               "      mig-devices:\n        \"3g.71gb\": 2"),
          "all-3g.71gb", "missing required field 'mig-enabled'");
  refused(with(parted, "\"3g.71gb\": 2", "\"3g.71gb\": many"), "all-3g.71gb");
  refused(with(parted, "\"3g.71gb\": 2", "\"3g.71gb\": -2"), "all-3g.71gb");
  refused(with(parted, "\"3g.71gb\": 2", "\"big\": 2"), "all-3g.71gb", "no profile name");
  refused(with(parted, "devices: [2]", "devices: [-2]"), "mixed", "no index");
  refused(with(parted, "devices: [2]", "devices: some"), "mixed", "neither 'all'");
  refused(with(parted, "devices: [2]", "devices: []"), "mixed");
  refused(with(parted, "mig-enabled: false", "mig-enabled: maybe"), "mixed", "neither true nor false");
  refused(with(parted, "mig-enabled: false", "mig-enabled: false\n      mig-devices: {\"1g.18gb\": 1}"), "mixed");
  refused(with(parted, "\"0x20B710DE\"", "\"H200\""), "filtered", "device-filter");
}

TEST_CASE("mig-parted: a key twice in any map, or a second document, is refused with its line") {
  refused(parted + "  empty:\n    - devices: all\n      mig-enabled: false\n", "empty",
          "'empty' stands twice in one map (line 27)");
  refused(parted + "  empty:\n    - devices: all\n      mig-enabled: false\n", "mixed", "'empty' stands twice");
  refused(parted + "version: v1\n", "mixed", "'version' stands twice in one map (line 27)");
  refused(parted + "mig-configs: {}\n", "mixed", "'mig-configs' stands twice");
  refused(with(parted, "\"3g.71gb\": 2", "\"3g.71gb\": 2\n        3g.71gb: 1"), "all-3g.71gb",
          "'3g.71gb' stands twice in one map (line 8)");
  refused(with(parted, "mig-enabled: false", "mig-enabled: false\n      mig-enabled: true"), "mixed", "(line 14)");
  refused(with(parted, "  mixed:", "  &m mixed:") + "  *m :\n    - devices: all\n      mig-enabled: false\n", "empty",
          "'mixed' stands twice");
  refused(parted + "---\nversion: v1\nmig-configs: {}\n", "empty", "a second document begins (line 27)");
  refused(parted + "---\n" + parted, "empty", "a second document begins");
}

TEST_CASE("mig-parted: the same key in two maps, one document with its marks, anchors and aliases are fine") {
  CHECK(shown("---\n" + parted + "...\n", "all-3g.71gb") == "3g.71gb:2");
  CHECK(shown(with(parted, "    - devices: all\n      mig-enabled: true\n      mig-devices:\n",
                   "    - &rule\n      devices: "
                   "all\n      mig-enabled: true\n      mig-devices:\n") +
                  "  same:\n    - *rule\n",
              "same") == "3g.71gb:2");
}

TEST_CASE("a byte order mark before either form does no harm, that of UTF-16 is named") {
  CHECK(shown("\xEF\xBB\xBF{\"layout\": \"9\"}") == "9");
  CHECK(shown("\xEF\xBB\xBF" + parted, "all-3g.71gb") == "3g.71gb:2");
  refused(std::string("\xFF\xFE{\0\"\0", 6), "", "UTF-16");
  refused("\xEF\xBB\xBF", "", "empty");
}

TEST_CASE("mig-parted: devices, filters, off and empty") {
  CHECK(shown(parted, "all-3g.71gb") == "3g.71gb:2");
  const auto mixed = parse_layout_file(parted, "mixed");
  REQUIRE(mixed);
  CHECK(mixed->at(0).selection.indexes == std::vector<unsigned>{0, 1});
  CHECK(mixed->at(1).layout.kind == Layout::Kind::off);
  CHECK(parse_layout_file(parted, "empty")->front().layout.kind == Layout::Kind::empty);
}

TEST_CASE("mig-parted: a rule whose filter fits no GPU here is passed over, but not all of them") {
  Gpu h200;
  h200.bus_id = "00000000:36:00.0";
  h200.device_id = "0x233510de";
  const auto rules = parse_layout_file(parted, "filtered");
  REQUIRE(rules);
  const auto wanted = select(*rules, {h200});
  REQUIRE(wanted);
  REQUIRE(wanted->size() == 1);
  CHECK(wanted->front().layout.show() == "2g.35gb:3");
  h200.device_id = "0x123410DE";
  const auto none = select(*rules, {h200});
  REQUIRE_FALSE(none);
  CHECK(none.error().code == base::ExitCode::usage);
}

TEST_CASE("mig-parted: an index that is not there is refused") {
  Gpu only;
  only.bus_id = "00000000:36:00.0";
  const auto rules = parse_layout_file(parted, "mixed");
  REQUIRE(rules);
  CHECK_FALSE(select(*rules, {only}));
}

TEST_CASE("mig-parted: its JSON export is read as well") {
  CHECK(
      shown(
          R"({"version": "v1", "mig-configs": {"current": [{"devices": "all", "mig-enabled": true, "mig-devices": {"1g.18gb": 7}}]}})",
          "current") == "1g.18gb:7");
}
