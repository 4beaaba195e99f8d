// The domain drawn for people: it fits a terminal up to 72 nodes, and one dead node is one line.
#include "imex/matrix.h"

#include <catch2/catch_test_macros.hpp>

#include "base/text.h"
#include "domains.h"

using imex::draw_matrix;
using imex::explain_faults;
using imex::Link;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> all;
  for (const std::string_view line : base::lines(text)) all.emplace_back(line);
  return all;
}

std::size_t longest(const std::string& text) {
  std::size_t most = 0;
  for (const std::string& line : lines_of(text)) most = std::max(most, line.size());
  return most;
}

}  // namespace

TEST_CASE("one dead node of 18 is one fault, not 34 pairs") {
  const auto faults = explain_faults(domains::with_dead(domains::up(18), 6), domains::names(18));
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].nodes == std::vector<std::size_t>{6});
  CHECK(faults[0].what == "node #6 ultra-7 (10.0.0.7) is UNAVAILABLE; none of its 17 peers can use it");
  CHECK(faults[0].cure.find("systemctl status nvidia-imex") != std::string::npos);
}

TEST_CASE("two dead nodes are two faults") {
  CHECK(explain_faults(domains::with_dead(domains::with_dead(domains::up(18), 6), 7), {}).size() == 2);
}

TEST_CASE("a node that tells nothing is silent") {
  auto view = domains::up(3);
  view.nodes[1].status = "";
  const auto faults = explain_faults(view, {});
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].what.find("node #1 (10.0.0.2) is silent") == 0);
}

TEST_CASE("a live node that nobody reaches is one fault that lists its peers") {
  auto view = domains::up(18);
  for (std::size_t peer = 0; peer < 18; ++peer) {
    if (peer != 4) view = domains::with_pair(view, 4, peer, Link::never);
  }
  const auto faults = explain_faults(view, domains::names(18));
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].nodes == std::vector<std::size_t>{4});
  CHECK(faults[0].what.find("is not connected with 17 of its peers (0-3,5-17): N, never connected") !=
        std::string::npos);
  CHECK(faults[0].cure.find("50000") != std::string::npos);
}

TEST_CASE("a single pair is told as a pair, once for both directions") {
  const auto faults = explain_faults(domains::with_pair(domains::up(18), 2, 9, Link::map_mismatch), domains::names(18));
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].nodes == std::vector<std::size_t>{2, 9});
  CHECK(faults[0].what.find("node #2 ultra-3 (10.0.0.3) and node #9 ultra-10 (10.0.0.10) are not connected: !M!, ") ==
        0);
  CHECK(faults[0].cure.find("nodes_config.cfg") != std::string::npos);
}

TEST_CASE("dead nodes come first, and what they explain is not told again") {
  auto view = domains::with_pair(domains::up(18), 2, 9, Link::version_mismatch);
  view = domains::with_dead(view, 9);
  view = domains::with_pair(view, 0, 1, Link::authenticating);
  const auto faults = explain_faults(view, {});
  REQUIRE(faults.size() == 2);
  CHECK(faults[0].nodes == std::vector<std::size_t>{9});
  CHECK(faults[1].nodes == std::vector<std::size_t>{0, 1});
}

TEST_CASE("every kind of lost connection has a cure; a healthy domain has no fault") {
  for (const Link link : {Link::never, Link::invalid, Link::recovering, Link::disconnected, Link::authenticating,
                          Link::version_mismatch, Link::map_mismatch, Link::unknown}) {
    const auto faults = explain_faults(domains::with_pair(domains::up(4), 0, 1, link), {});
    REQUIRE(faults.size() == 1);
    CHECK_FALSE(faults[0].cure.empty());
  }
  CHECK(explain_faults(domains::up(18), {}).empty());
}

TEST_CASE("a row for each node, the ids above, the legend of what occurs below") {
  const auto drawn =
      lines_of(draw_matrix(domains::with_pair(domains::up(2), 0, 1, Link::map_mismatch), domains::names(2)));
  REQUIRE(drawn.size() == 4);
  CHECK(drawn[0] == "id  node     address   status  0 1 ");
  CHECK(drawn[1] == "0   ultra-1  10.0.0.1  READY   . M ");
  CHECK(drawn[2] == "1   ultra-2  10.0.0.2  READY   M . ");
  CHECK(drawn[3].find("    M  node lists differ") == 0);
}

TEST_CASE("18, 36 and 72 nodes take one line each and stay narrow") {
  struct Row {
    std::size_t nodes;
    std::size_t width;
  };
  for (const Row& row : {Row{18, 80}, Row{36, 120}, Row{72, 120}}) {
    INFO(row.nodes << " nodes");
    const std::string text = draw_matrix(domains::up(row.nodes), domains::names(row.nodes));
    const auto drawn = lines_of(text);
    CHECK(drawn.size() == 2 + row.nodes + 1);  // tens and ones, the nodes, "C connected"
    CHECK(longest(text) <= row.width);
    for (std::size_t line = 0; line < 2 + row.nodes; ++line) CHECK(drawn[line].size() == drawn[0].size());
    CHECK(drawn.back() == "    C  connected");
  }
}

TEST_CASE("each cell stands below its column's id") {
  const std::string text = draw_matrix(domains::with_pair(domains::up(72), 3, 47, Link::recovering), {});
  const auto drawn = lines_of(text);
  const std::size_t first = drawn[1].find("0123456789");
  REQUIRE(first != std::string::npos);
  CHECK(drawn[0].substr(first + 10, 1) == "1");
  CHECK(drawn[0].substr(first + 40, 1) == "4");
  CHECK(drawn[2 + 3].substr(first + 47, 1) == "R");
  CHECK(drawn[2 + 47].substr(first + 3, 1) == "R");
  CHECK(drawn[2 + 47].substr(first + 47, 1) == ".");
}

TEST_CASE("versions are shown only where they differ") {
  auto view = domains::up(2);
  CHECK(draw_matrix(view, {}).find("570.172") == std::string::npos);
  view.nodes[1].version = "580.95";
  const std::string text = draw_matrix(view, {});
  CHECK(text.find("version") != std::string::npos);
  CHECK(text.find("570.172") != std::string::npos);
  CHECK(text.find("580.95") != std::string::npos);
}

TEST_CASE("a node that tells no version, or has no GPU, counts for none") {
  auto view = domains::up(4);
  view.nodes[1].version = "";
  view.nodes[2].version = "NO_GPU";
  view.nodes[3].version = "580.95";
  const auto versions = imex::versions_of(view);
  REQUIRE(versions.size() == 2);
  CHECK(versions[0] == std::pair<std::string, std::vector<std::size_t>>{"570.172", {0}});
  CHECK(versions[1] == std::pair<std::string, std::vector<std::size_t>>{"580.95", {3}});
}

TEST_CASE("what a daemon says of itself cannot send escape codes to a terminal") {
  auto view = domains::up(2);
  view.nodes[0].status = "\x1b[31mREADY";
  view.nodes[1].address = "10.0.0.2\n10.0.0.3";
  CHECK(draw_matrix(view, {"a\x1b[2J", "b"}).find('\x1b') == std::string::npos);
  CHECK(lines_of(draw_matrix(view, {})).size() == 4);
  CHECK(explain_faults(view, {}).at(0).what.find('\x1b') == std::string::npos);
}

TEST_CASE("ids are written as ranges") {
  CHECK(imex::show_ids({}).empty());
  CHECK(imex::show_ids({5}) == "5");
  CHECK(imex::show_ids({0, 1}) == "0,1");
  CHECK(imex::show_ids({0, 1, 2, 3, 7, 9, 10}) == "0-3,7,9,10");
}

TEST_CASE("a node that tells nothing while its peers are connected with it is mute, and no fault of its own") {
  auto view = domains::up(18);
  for (std::size_t id = 1; id < 18; ++id) {  // port 50005 is blocked: only the own row is told
    view.nodes[id].status = "UNAVAILABLE";
    view.nodes[id].version = "";
    for (std::size_t to = 0; to < 18; ++to) view.links[id][to] = Link::invalid;
  }
  CHECK(imex::mute_nodes(view).size() == 17);
  CHECK(explain_faults(view, {}).empty());
  CHECK(imex::mute_nodes(domains::up(18)).empty());
}

TEST_CASE("a dead node is not mute, whatever it shows of itself, and neither is one that some peers have lost") {
  auto view = domains::with_dead(domains::up(18), 7);
  view.links[7][7] = Link::connected;
  CHECK(imex::mute_nodes(view).empty());
  CHECK(explain_faults(view, {}).size() == 1);
  view.links[0][7] = Link::connected;  // not noticed there yet
  CHECK(imex::mute_nodes(view).empty());
  CHECK(explain_faults(view, {}).at(0).what ==
        "node #7 (10.0.0.8) is UNAVAILABLE, though 1 of its 17 peers is connected with it");
}

TEST_CASE("what daemons refuse a peer comes before its status, which follows from it") {
  for (const Link link : {Link::map_mismatch, Link::version_mismatch, Link::authenticating}) {
    auto view = domains::with_dead(domains::up(18), 3);
    for (std::size_t from = 0; from < 18; ++from) {
      if (from != 3) view.links[from][3] = link;
    }
    const auto faults = explain_faults(view, domains::names(18));
    REQUIRE(faults.size() == 1);
    CHECK(faults[0].what.find("node #3 ultra-4 (10.0.0.4) is not connected with 17 of its peers (0-2,4-17): " +
                              std::string(imex::show_cell(link))) == 0);
    CHECK(faults[0].what.ends_with(" (node #3 is UNAVAILABLE)"));
    CHECK(faults[0].cure == explain_faults(domains::with_pair(domains::up(2), 0, 1, link), {})[0].cure);
  }
}

TEST_CASE("where only some refuse a node and others have lost it, both are told, the refusal first") {
  auto view = domains::with_dead(domains::up(4), 3);
  view.links[0][3] = Link::map_mismatch;
  const auto faults = explain_faults(view, {});
  REQUIRE(faults.size() == 2);
  CHECK(faults[0].nodes == std::vector<std::size_t>{0, 3});
  CHECK(faults[0].what.find("!M!") != std::string::npos);
  CHECK(faults[1].nodes == std::vector<std::size_t>{3});
}

TEST_CASE("an own list that differs from all others is one fault, told of this node") {
  auto view = domains::up(18);
  for (std::size_t id = 1; id < 18; ++id)
    view = domains::with_pair(domains::with_dead(view, id), 0, id, Link::map_mismatch);
  const auto faults = explain_faults(view, {});
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].nodes == std::vector<std::size_t>{0});
  CHECK(faults[0].what.find("is not connected with 17 of its peers (1-17): !M!") != std::string::npos);
}

TEST_CASE("a refusal that one end tells wins over what the other end has lost") {
  auto view = domains::up(2);
  view.links[0][1] = Link::never;
  view.links[1][0] = Link::map_mismatch;
  CHECK(explain_faults(view, {}).at(0).what.find("!M!") != std::string::npos);
}

TEST_CASE("a domain of one or two nodes is told without plurals that are none") {
  CHECK(explain_faults(domains::with_dead(domains::up(2), 1), {}).at(0).what ==
        "node #1 (10.0.0.2) is UNAVAILABLE; its only peer cannot use it");
  auto alone = domains::up(1);
  alone.nodes[0].status = "INITIALIZING";
  CHECK(explain_faults(alone, {}).at(0).what == "node #0 (10.0.0.1) is INITIALIZING");
}

TEST_CASE("a node's connection with itself counts for none") {
  auto view = domains::with_dead(domains::up(3), 1);
  view.nodes[1] = {"10.0.0.2", "INITIALIZING", "570.172"};
  view.links[1][1] = Link::connected;
  CHECK(explain_faults(view, {}).at(0).what == "node #1 (10.0.0.2) is INITIALIZING; none of its 2 peers can use it");
}
