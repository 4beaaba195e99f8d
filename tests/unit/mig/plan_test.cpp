#include "mig/plan.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "captured.h"

using namespace mig;

namespace {

const std::vector<ProfileName> drifted{{"1g.10gb", 19}, {"1g.10gb+me", 20}, {"1g.20gb", 15}, {"2g.20gb", 14},
                                       {"3g.39gb", 9},  {"4g.39gb", 5},     {"7g.79gb", 0}};

base::Result<std::vector<Placement>> placed(const std::string& layout, const Board& board) {
  auto resolved = resolve(*parse_layout(layout), names_of(board), "GPU 0");
  if (!resolved) return resolved.error();
  return place(*resolved, board, "GPU 0");
}

std::string cgi(const std::string& layout) {
  const auto placements = placed(layout, captured::h200_boards().at(0));
  return placements ? cgi_argument(*placements) : placements.error().what;
}

Gpu gpu_with(Mode current, Mode pending) {
  Gpu gpu;
  gpu.bus_id = "00000000:36:00.0";
  gpu.current = current;
  gpu.pending = pending;
  return gpu;
}

const std::vector<Resolved> two_small{{{"1g.18gb", 19}, 2, false, "1g.18gb"}};
const GpuInstance first{0, "1g.18gb", 19, 7, 0, 1};
const GpuInstance second{0, "1g.18gb", 19, 8, 1, 1};
const ComputeInstance in_first{0, 7, "1g.18gb", 0};
const ComputeInstance in_second{0, 8, "1g.18gb", 0};

}  // namespace

TEST_CASE("a name or ID that the driver does not list is refused with its list") {
  for (const char* layout : {"3g.99gb:1", "999", "2g.39gb:1", "3g.41gb:1", "3g.39gb+me:1", "1g.11gb:1"}) {
    CAPTURE(layout);
    const auto resolved = resolve(*parse_layout(layout), drifted, "GPU 0");
    REQUIRE_FALSE(resolved);
    CHECK(resolved.error().code == base::ExitCode::usage);
    CHECK(resolved.error().cure.find("3g.39gb (ID 9)") != std::string::npos);
  }
}

TEST_CASE("a name that may be several profiles is refused, naming them") {
  const auto resolved = resolve(*parse_layout("3g.72gb"), {{"3g.71gb", 9}, {"3g.73gb", 5}}, "GPU 0");
  REQUIRE_FALSE(resolved);
  CHECK(resolved.error().what.find("3g.71gb") != std::string::npos);
  CHECK(resolved.error().what.find("3g.73gb") != std::string::npos);
}

TEST_CASE("a drifted name is found by slices, attributes and memory within 3 %, an exact one first") {
  const auto resolved = resolve(*parse_layout("7g.80gb:1,3g.40gb:2,1G.10GB+ME:1"), drifted, "GPU 0");
  REQUIRE(resolved);
  CHECK(resolved->at(0).profile.name == "7g.79gb");
  CHECK(resolved->at(0).drifted);
  CHECK(resolved->at(1).profile.name == "3g.39gb");
  CHECK(resolved->at(2).profile.name == "1g.10gb+me");
  CHECK_FALSE(resolved->at(2).drifted);
  const auto exact = resolve(*parse_layout("3g.72gb"), {{"3g.71gb", 9}, {"3g.72gb", 5}}, "GPU 0");
  REQUIRE(exact);
  CHECK(exact->front().profile.id == 5);
}

TEST_CASE("a name and its ID add up") {
  const auto resolved = resolve(*parse_layout("9,3g.40gb"), drifted, "GPU 0");
  REQUIRE(resolved);
  REQUIRE(resolved->size() == 1);
  CHECK(resolved->front().count == 2);
}

TEST_CASE("what cannot fit an H200 is refused") {
  for (const char* layout : {"3g.71gb:2,1g.18gb:1", "4g.71gb:2", "1g.18gb:8", "7g.141gb:1,1g.18gb:1",
                             "4g.71gb:1,2g.35gb:2", "1g.35gb:4,1g.18gb:1", "1g.18gb+me:2", "9,9,9", "3g.71gb:3"}) {
    CAPTURE(layout);
    const auto placements = placed(layout, captured::h200_boards().at(0));
    REQUIRE_FALSE(placements);
    CHECK(placements.error().code == base::ExitCode::usage);
    CHECK_FALSE(placements.error().cure.empty());
  }
}

TEST_CASE("what cannot fit an RTX PRO 6000 is refused") {
  for (const char* layout :
       {"2g.48gb:2,1g.24gb:1", "1g.24gb:5", "4g.96gb:1,1g.24gb:1", "1g.24gb+me:1,1g.24gb+me.all:1"}) {
    CAPTURE(layout);
    CHECK_FALSE(placed(layout, captured::rtx_pro_6000()));
  }
}

TEST_CASE("the order in which a person wrote the profiles never matters") {
  std::vector<std::string> ids{"14", "19", "19", "9"};
  std::sort(ids.begin(), ids.end());
  do {
    CHECK(cgi(ids[0] + "," + ids[1] + "," + ids[2] + "," + ids[3]) == "9:4,14:0,19:2,19:3");
  } while (std::next_permutation(ids.begin(), ids.end()));
}

TEST_CASE("layouts that need a second try at a place are found") {
  CHECK(cgi("3g.71gb:1,2g.35gb:2") == "9:4,14:0,14:2");
  CHECK(cgi("3g.71gb:1,1g.18gb:4") == "9:4,19:0,19:1,19:2,19:3");
  CHECK(cgi("4g.71gb:1,3g.71gb:1") == "5:0,9:4");
  CHECK(cgi("2g.35gb:3,1g.18gb:1") == "14:0,14:2,14:4,19:6");
  CHECK(cgi("1g.35gb:1,1g.18gb:6") == "15:6,19:0,19:1,19:2,19:3,19:4,19:5");
  CHECK(cgi("1g.18gb+me:1,1g.18gb:6").starts_with("19:") == true);
  const auto rtx = placed("2g.48gb:1,1g.24gb:2", captured::rtx_pro_6000());
  REQUIRE(rtx);
  CHECK(cgi_argument(*rtx) == "5:0,14:6,14:9");
}

TEST_CASE("placements never overlap and lie where the driver allows them, for every layout that fits") {
  const Board board = captured::h200_boards().at(0);
  unsigned fitting = 0;
  for (unsigned a = 0; a < 2; ++a)
    for (unsigned b = 0; b < 2; ++b)
      for (unsigned c = 0; c < 3; ++c)
        for (unsigned d = 0; d < 4; ++d)
          for (unsigned e = 0; e < 5; ++e)
            for (unsigned f = 0; f < 8; ++f) {
              std::vector<Resolved> wanted;
              const std::pair<const char*, unsigned> counts[] = {{"7g.141gb", a}, {"4g.71gb", b}, {"3g.71gb", c},
                                                                 {"2g.35gb", d},  {"1g.35gb", e}, {"1g.18gb", f}};
              for (const auto& [name, count] : counts) {
                for (const Profile& profile : board) {
                  if (profile.name == name && count > 0)
                    wanted.push_back({{profile.name, profile.id}, count, false, name});
                }
              }
              if (wanted.empty()) continue;
              const auto placements = place(wanted, board, "GPU 0");
              if (!placements) continue;
              ++fitting;
              std::vector<bool> taken(8, false);
              for (const Placement& placement : *placements) {
                for (unsigned unit = placement.start; unit < placement.start + placement.size; ++unit) {
                  REQUIRE_FALSE(taken.at(unit));
                  taken.at(unit) = true;
                }
              }
            }
  // 78 by the rule of the MIG guide (ranges apart, at most 7 slices, each profile's maximum), the empty one left out.
  CHECK(fitting == 77);
}

TEST_CASE("comparison: GPU instances without compute instances, cut ones and wrong ones are not right") {
  using Verdict = Standing::Verdict;
  CHECK(compare(two_small, {}, {}, 0).verdict == Verdict::wrong);
  CHECK(compare(two_small, {first}, {in_first}, 0).verdict == Verdict::wrong);
  CHECK(compare(two_small, {first, second, {0, "1g.18gb", 19, 9, 2, 1}}, {in_first, in_second}, 0).verdict ==
        Verdict::wrong);
  CHECK(compare(two_small, {first, {1, "1g.18gb", 19, 8, 1, 1}}, {in_first, in_second}, 0).verdict ==
        Verdict::wrong);  // the other GPU's
  const Standing bare = compare(two_small, {second, first}, {}, 0);
  CHECK(bare.verdict == Verdict::ci_missing);
  CHECK(bare.without_ci == std::vector<unsigned>{7, 8});
  CHECK(compare(two_small, {first, second}, {in_first}, 0).without_ci == std::vector<unsigned>{8});
  CHECK(compare(two_small, {first, second}, {in_first, {0, 8, "1c.1g.18gb", 0}}, 0).verdict == Verdict::wrong);
  CHECK(compare(two_small, {first, second}, {in_first, in_second, {0, 8, "1g.18gb", 1}}, 0).verdict == Verdict::wrong);
}

TEST_CASE("comparison: right wherever the instances lie") {
  CHECK(compare(two_small, {second, first}, {in_second, in_first}, 0).verdict == Standing::Verdict::right);
  CHECK(compare({}, {}, {}, 0).verdict == Standing::Verdict::right);
}

TEST_CASE("already right is told from what is there alone") {
  const std::vector<Wanted> wanted{{gpu_with(Mode::enabled, Mode::enabled), *parse_layout("1g.18gb:2"), false}};
  CHECK(already_right(wanted, {{first, second}, {in_first, in_second}}));
  CHECK_FALSE(already_right(wanted, {{first, second}, {in_first}}));
  CHECK_FALSE(already_right(wanted, {}));
  CHECK(already_right({{gpu_with(Mode::enabled, Mode::enabled), *parse_layout("19,19"), false}},
                      {{first, second}, {in_first, in_second}}));
  CHECK_FALSE(already_right({{gpu_with(Mode::enabled, Mode::disabled), *parse_layout("1g.18gb:2"), false}},
                            {{first, second}, {in_first, in_second}}));
  CHECK_FALSE(already_right({{gpu_with(Mode::enabled, Mode::enabled), *parse_layout("none"), false}}, {}));
  CHECK(already_right({{gpu_with(Mode::disabled, Mode::disabled), *parse_layout("none"), false}}, {}));
  CHECK(already_right({{gpu_with(Mode::unsupported, Mode::unsupported), *parse_layout("none"), false}}, {}));
}

TEST_CASE("the plan touches what is wrong and nothing else") {
  const Boards boards = captured::h200_boards();
  const auto planned = [&](Mode current, Mode pending, const std::string& layout, const Seen& seen) {
    auto plans = plan({{gpu_with(current, pending), *parse_layout(layout), false}}, boards, seen);
    if (!plans) FAIL(plans.error().what);
    return plans->front();
  };
  CHECK(planned(Mode::enabled, Mode::enabled, "1g.18gb:2", {{first, second}, {in_first, in_second}}).untouched());
  const GpuPlan fresh = planned(Mode::disabled, Mode::disabled, "1g.18gb:2", {});
  CHECK((fresh.switch_on && fresh.build && !fresh.clear));
  const GpuPlan bare = planned(Mode::enabled, Mode::enabled, "1g.18gb:2", {{first, second}, {}});
  CHECK((!bare.switch_on && !bare.build && !bare.clear && bare.without_ci.size() == 2));
  const GpuPlan wrong = planned(Mode::enabled, Mode::enabled, "3g.71gb:1", {{first}, {in_first}});
  CHECK((wrong.clear && wrong.build && !wrong.switch_on));
  const GpuPlan off = planned(Mode::enabled, Mode::enabled, "none", {{first}, {in_first}});
  CHECK((off.switch_off && off.clear && !off.build));
  const GpuPlan half = planned(Mode::disabled, Mode::enabled, "1g.18gb:2", {});
  CHECK(half.switch_on);
}

TEST_CASE("a layout that one GPU cannot have stops the whole plan, and so does a GPU without profiles") {
  Gpu other = gpu_with(Mode::disabled, Mode::disabled);
  other.index = 1;
  other.bus_id = "00000000:37:00.0";
  Boards boards = captured::h200_boards();
  const std::vector<Wanted> wanted{{gpu_with(Mode::disabled, Mode::disabled), *parse_layout("3g.71gb:2"), false},
                                   {other, *parse_layout("3g.71gb:2"), false}};
  const auto without = plan(wanted, boards, {});
  REQUIRE_FALSE(without);
  CHECK(without.error().code == base::ExitCode::surroundings);
  boards[1] = captured::rtx_pro_6000();
  const auto mixed = plan(wanted, boards, {});
  REQUIRE_FALSE(mixed);
  CHECK(mixed.error().code == base::ExitCode::usage);
}

TEST_CASE("a listing of no GPU is given up on, and neither time nor stack goes into it") {
  // 29 pieces for 28 places: every order of them would have to be tried.
  std::vector<unsigned> odd;
  for (unsigned start = 1; start < 57; start += 2) odd.push_back(start);
  Board crafted{{"40g.1gb", 0, 1, "1", {57}, 1}};
  std::vector<Resolved> wanted;
  for (unsigned id = 1; id <= 29; ++id) {
    crafted.push_back({"1g.1gb", id, 1, "1", odd, 2});
    wanted.push_back({{"1g.1gb", id}, 1, false, "1g.1gb"});
  }
  const auto searched = place(wanted, crafted, "GPU 0");
  REQUIRE_FALSE(searched);
  CHECK(searched.error().code == base::ExitCode::usage);
  CHECK(searched.error().what.find("given up after") != std::string::npos);
  wanted.pop_back();
  CHECK(place(wanted, crafted, "GPU 0"));

  std::vector<unsigned> all;
  for (unsigned start = 0; start < 70'000; ++start) all.push_back(start);
  const Board wide{{"70000g.1gb", 0, 1, "1", {0}, 1}, {"1g.1gb", 1, 70'000, "1", all, 1}};
  const auto too_wide = place({{{"1g.1gb", 1}, 70'000, false, "1g.1gb"}}, wide, "GPU 0");
  REQUIRE_FALSE(too_wide);
  CHECK(too_wide.error().what.find("70000 memory units") != std::string::npos);
  const Board many{{"100g.1gb", 0, 1, "1", {0}, 1}, {"1g.1gb", 1, 100, "1", {all.begin(), all.begin() + 100}, 1}};
  const auto too_many = place({{{"1g.1gb", 1}, 100, false, "1g.1gb"}}, many, "GPU 0");
  REQUIRE_FALSE(too_many);
  CHECK(too_many.error().what.find("100 instances") != std::string::npos);
}

TEST_CASE("the outlook: what plans make of the node, and the GPUs that they leave as they are") {
  std::vector<Gpu> gpus(3, gpu_with(Mode::disabled, Mode::disabled));
  for (unsigned i = 0; i < 3; ++i) gpus[i].index = i;
  gpus[1].current = gpus[1].pending = Mode::enabled;
  gpus[2].current = gpus[2].pending = Mode::unsupported;
  const std::vector<GpuInstance> there{{1, "1g.18gb", 19, 7, 0, 1}};
  GpuPlan split;
  split.gpu = gpus[0];
  split.switch_on = split.build = true;
  split.placements = {{{"3g.71gb", 9}, 4, 4}};
  const auto grown = outlook({split}, gpus, there);
  CHECK(grown.gpus[0].on());
  CHECK(grown.instances.size() == 2);
  GpuPlan off;
  off.gpu = gpus[1];
  off.layout.kind = Layout::Kind::off;
  off.switch_off = off.clear = true;
  GpuPlan nothing;
  nothing.gpu = gpus[2];
  nothing.layout.kind = Layout::Kind::off;
  const auto emptied = outlook({off, nothing}, gpus, there);
  CHECK(emptied.instances.empty());
  CHECK(emptied.gpus[1].off());
  CHECK(emptied.gpus[2].current == Mode::unsupported);
}
