#include "mig/layout.h"

#include <catch2/catch_test_macros.hpp>

using namespace mig;

namespace {

Gpu gpu(unsigned index, const std::string& bus, const std::string& name = "NVIDIA H200",
        const std::string& device = "0x233510DE") {
  Gpu made;
  made.index = index;
  made.bus_id = bus;
  made.uuid = "GPU-" + std::to_string(index);
  made.name = name;
  made.device_id = device;
  made.current = made.pending = Mode::disabled;
  return made;
}

const std::vector<Gpu> node{gpu(0, "00000000:36:00.0"), gpu(1, "00000000:37:00.0"),
                            gpu(2, "00000000:38:00.0", "NVIDIA A30", "0x20B710DE")};

std::vector<unsigned> selected(const std::string& rule) {
  const auto rules = parse_rules({rule});
  REQUIRE(rules);
  const auto wanted = select(*rules, node);
  REQUIRE(wanted);
  std::vector<unsigned> indexes;
  for (const Wanted& want : *wanted) indexes.push_back(want.gpu.index);
  return indexes;
}

void refused(const std::vector<std::string>& texts) {
  CAPTURE(texts);
  const auto rules = parse_rules(texts);
  if (!rules) {
    CHECK(rules.error().code == base::ExitCode::usage);
    CHECK_FALSE(rules.error().cure.empty());
    return;
  }
  const auto wanted = select(*rules, node);
  REQUIRE_FALSE(wanted);
  CHECK(wanted.error().code == base::ExitCode::usage);
}

}  // namespace

TEST_CASE("layouts that make no sense are refused as usage") {
  for (const char* text : {"", " ", "foo", "3g.71gb:0", "3g.71gb:-1", "3g.71gb:x", "3g.71gb:", "3g.71gb:1:2",
                           "3g.71gb:65", "9,14,,19", ",", "19:2", "9:4", "99999", "3g.71gb:99999999999999999999",
                           "1c.3g.71gb:1", "none,9", "3g.71gb;reboot", "\x1b[31m"}) {
    refused({text});
  }
  refused({});
}

TEST_CASE("the sum of equal items is capped as well") { refused({"1g.18gb:40,1g.18gb:40"}); }

TEST_CASE("layouts: names with counts, IDs, none, repeats and any case") {
  CHECK(parse_layout("3g.20gb:1,2g.10gb:1,1g.5gb:2")->show() == "3g.20gb:1,2g.10gb:1,1g.5gb:2");
  CHECK(parse_layout(" 3G.20GB , MIG 1g.5gb:2 ")->show() == "3g.20gb:1,1g.5gb:2");
  CHECK(parse_layout("9,14,19,19")->show() == "9,14,19,19");
  CHECK(parse_layout("1g.5gb,1g.5gb")->show() == "1g.5gb:2");
  CHECK(parse_layout("1g.24gb+me.all:1,1g.24gb-me:2")->show() == "1g.24gb+me.all:1,1g.24gb-me:2");
  CHECK(parse_layout("NONE")->kind == Layout::Kind::off);
}

TEST_CASE("selections that select nothing, too much or one GPU twice are refused") {
  for (const char* text :
       {"5=none", "0-5=none", "1-0=none", "0,0=none", "model:V100=none", "model:=none", "00000000:99:00.0=none",
        "GPU-9=none", "x=none", "=none", "0=", "-1=none", "0--1=none", "99999999999=none"}) {
    refused({text});
  }
  refused({"0=9", "0-1=19"});
  refused({"0=9", "36:00.0=9"});
  refused({"9", "0=19"});
  refused({"model:h200=9", "GPU-0=9"});
}

TEST_CASE("selections: index, range, list, bus id in every spelling, UUID, part of the product name") {
  using Indexes = std::vector<unsigned>;
  CHECK(selected("none") == Indexes{0, 1, 2});
  CHECK(selected("all=none") == Indexes{0, 1, 2});
  CHECK(selected("1=none") == Indexes{1});
  CHECK(selected("0-1=none") == Indexes{0, 1});
  CHECK(selected("0,2=none") == Indexes{0, 2});
  CHECK(selected("37:00.0=none") == Indexes{1});
  CHECK(selected("0000:37:00.0=none") == Indexes{1});
  CHECK(selected("gpu-2=none") == Indexes{2});
  CHECK(selected("model:h200=none") == Indexes{0, 1});
  CHECK(selected("MODEL:nvidia a30=none") == Indexes{2});
}

TEST_CASE("a GPU that no rule names is left out") {
  const auto rules = parse_rules({"0=9", "2=none"});
  REQUIRE(rules);
  const auto wanted = select(*rules, node);
  REQUIRE(wanted);
  REQUIRE(wanted->size() == 2);
  CHECK(wanted->at(1).gpu.index == 2);
  CHECK(wanted->at(1).layout.kind == Layout::Kind::off);
  CHECK(show(*rules) == "0=9 2=none");
}
