// One domain as all its nodes tell it, for machines.
#include "imex/merge.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "domains.h"

using Json = nlohmann::json;

namespace {

std::vector<imex::NodeReport> reports_of(const std::vector<imex::DomainView>& views) {
  std::vector<imex::NodeReport> reports;
  const std::size_t count = views.size();
  for (std::size_t own = 0; own < count; ++own) {
    reports.push_back({domains::names(count)[own], domains::addresses(count), own, views[own]});
  }
  return reports;
}

Json rendered(const std::vector<imex::NodeReport>& reports, const std::vector<std::string>& nodes,
              const std::set<std::string>& answered) {
  return Json::parse(imex::render_merged(imex::merge(reports), reports, nodes, answered));
}

}  // namespace

TEST_CASE("a pair that one end does not see as connected is told from both ends, the others are counted") {
  auto views = std::vector<imex::DomainView>(3, domains::up(3));
  views[2].links[2][0] = imex::Link::map_mismatch;
  const Json json = rendered(reports_of(views), domains::names(3), {"ultra-1", "ultra-2", "ultra-3"});
  const Json& list = json.at("lists").at(0);
  CHECK(list.at("pairs") == 3);
  CHECK(list.at("connected") == 2);
  CHECK(list.at("not_connected") == Json::parse(R"([{"from": 0, "to": 2, "from_sees": "C", "to_sees": "!M!"}])"));
  CHECK(list.at("addresses") == domains::addresses(3));
  CHECK(list.at("holders") == domains::names(3));
  CHECK(json.at("list_faults").empty());
}

TEST_CASE("each node is told: silent, without a list, without a daemon, or with its own word") {
  auto reports = reports_of({domains::up(2), domains::up(2)});
  reports[1].view.reset();
  reports.push_back({"ultra-3", {}, std::nullopt, std::nullopt});
  const Json json = rendered(reports, {"ultra-1", "ultra-2", "ultra-3", "ultra-4"}, {"ultra-1", "ultra-2", "ultra-3"});
  const std::string list = imex::list_name(domains::addresses(2));
  const Json& nodes = json.at("nodes");
  REQUIRE(nodes.size() == 4);
  CHECK(nodes[0] == Json{{"node", "ultra-1"},
                         {"answered", true},
                         {"list", list},
                         {"place", 0},
                         {"daemon", "READY"},
                         {"version", domains::up(2).nodes[0].version}});
  CHECK(nodes[1] == Json{{"node", "ultra-2"},
                         {"answered", true},
                         {"list", list},
                         {"place", 1},
                         {"daemon", nullptr},
                         {"version", nullptr}});
  for (std::size_t i : {2U, 3U}) {
    CHECK(nodes[i].at("answered") == (i == 2));
    CHECK(nodes[i].at("list").is_null());
  }
}

TEST_CASE("two lists are two entries, and the node that is in one and holds the other is named") {
  auto reports = reports_of({domains::up(2), domains::up(2)});
  reports[1].list = {"10.0.0.2", "10.0.0.9"};
  reports[1].own = 0;
  reports[1].view = domains::of({"10.0.0.2", "10.0.0.9"});
  const Json json = rendered(reports, domains::names(2), {"ultra-1", "ultra-2"});
  CHECK(json.at("lists").size() == 2);
  REQUIRE(json.at("list_faults").size() == 1);
  CHECK(json.at("list_faults")[0].get<std::string>().find("node ultra-2") == 0);
}

TEST_CASE("a daemon's own list is told from the file's by number, order and address") {
  const auto list = domains::addresses(3);
  CHECK(imex::list_difference(domains::up(3), list).empty());
  CHECK(imex::list_difference(domains::up(9), list) == "it holds 9 nodes");
  CHECK(imex::list_difference(domains::up(1), list) == "it holds 1 node");
  CHECK(imex::list_difference(domains::of({"10.0.0.1", "10.0.0.3", "10.0.0.2"}), list) ==
        "its node #1 is 10.0.0.3, not 10.0.0.2");
  CHECK(imex::list_difference(domains::of({"10.0.0.1", "10.0.0.2", "10.0.0.4"}), list) ==
        "its node #2 is 10.0.0.4, not 10.0.0.3");
  // The same address in another spelling, and a release that prints host names.
  CHECK(imex::list_difference(domains::of({"fd00::1"}), {"FD00:0::1"}).empty());
  CHECK(imex::list_difference(domains::of({"ultra-1", "ultra-2", "ultra-3"}), list).empty());
}

TEST_CASE("a daemon of another list says nothing of this one, and is not called dead") {
  auto reports = reports_of({domains::up(2), domains::up(2)});
  reports[1].view = domains::of({"10.0.0.2", "10.0.0.1"});
  const auto merged = imex::merge(reports);
  REQUIRE(merged.domains.size() == 1);
  CHECK(merged.domains[0].view.nodes[1].status == "of another list");
  CHECK(merged.domains[0].view.links[1][0] == imex::Link::invalid);
  const Json json = rendered(reports, domains::names(2), {"ultra-1", "ultra-2"});
  CHECK(json.at("nodes")[1].at("daemon").is_null());
}
