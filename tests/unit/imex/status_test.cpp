// nvidia-imex-ctl's words: the guide's own sample, other releases' forms, and what an attacker or a crash could make
// of them.
#include "imex/status.h"

#include <catch2/catch_test_macros.hpp>

#include "domains.h"

using imex::Link;
using imex::parse_status_json;
using imex::parse_status_text;

namespace {

const std::string two_nodes =
    "5/4/2026 06:08:10.580\n"
    "Nodes:\n"
    "Node #0   * 10.0.0.1 *    - READY                - Version: 570.172\n"
    "Node #1   - 10.0.0.2        - UNAVAILABLE          - Version: \n"
    "\n"
    " Nodes From\\To  0   1\n"
    "       0        C   N\n"
    "       1        !M! I\n"
    "\n"
    "Domain State: DEGRADED\n";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

void check_refused(const std::string& text) {
  INFO(text.substr(0, 400));
  const auto view = parse_status_text(text);
  REQUIRE_FALSE(view);
  CHECK(view.error().code == base::ExitCode::source);
  CHECK(view.error().what.find("cannot read nvidia-imex-ctl's status: ") == 0);
}

void check_json_refused(const std::string& text) {
  INFO(text.substr(0, 400));
  const auto view = parse_status_json(text);
  REQUIRE_FALSE(view);
  CHECK(view.error().code == base::ExitCode::source);
}

}  // namespace

// --- the text form ---------------------------------------------------------------------------------------

TEST_CASE("a text without nodes is no domain") {
  check_refused("");
  check_refused("\n\n");
  check_refused("Query Status returned error code: 14\n");
  check_refused("Domain State: UP\n");
  check_refused(" Nodes From\\To  0\n       0        C\nDomain State: UP\n");
}

TEST_CASE("ids that are missing, out of order or no numbers are refused") {
  check_refused(replaced(two_nodes, "Node #1", "Node #2"));
  check_refused(replaced(two_nodes, "Node #0", "Node #1"));
  check_refused(replaced(two_nodes, "Node #1", "Node #0"));
  check_refused(replaced(two_nodes, "Node #1", "Node #one"));
  check_refused(replaced(two_nodes, "Node #1", "Node #"));
  check_refused(replaced(two_nodes, "Node #1", "Node #-1"));
}

TEST_CASE("a node line without address, status or version is refused") {
  check_refused(replaced(two_nodes, "- UNAVAILABLE          - Version: ", ""));
  check_refused(replaced(two_nodes, "- UNAVAILABLE          - Version: ", "- Version: 570.172"));
  check_refused(replaced(two_nodes, "- UNAVAILABLE          - Version: ", "- READY"));
}

TEST_CASE("a matrix that is not square, or of another size than the node table, is refused") {
  check_refused(replaced(two_nodes, "C   N\n", "C\n"));
  check_refused(replaced(two_nodes, "C   N\n", "C   N   C\n"));
  check_refused(replaced(two_nodes, "       1        !M! I\n", ""));
  check_refused(replaced(two_nodes, "       1        !M! I\n", "       1        !M! I\n       2        C C\n"));
  check_refused(replaced(two_nodes, "To  0   1\n", "To  0   1   2\n"));
  check_refused(replaced(two_nodes, " Nodes From\\To  0   1\n", ""));
  check_refused(replaced(two_nodes, "       1        !M! I\n", "       0        !M! I\n"));
}

TEST_CASE("a text cut short anywhere is refused, or all that it then says is what the whole said") {
  const std::string whole = domains::sample_of_18();
  std::size_t accepted = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto view = parse_status_text(whole.substr(0, length));
    if (!view) continue;
    ++accepted;
    INFO("cut after " << length << " bytes");
    REQUIRE(view->nodes.size() == 18);
    REQUIRE(view->links.size() == 18);
    for (const auto& row : view->links) CHECK(row == std::vector<Link>(18, Link::connected));
    CHECK(std::string("UP").starts_with(view->state));  // "", "U" or "UP": never another state
  }
  CHECK(accepted < 30);  // only from the last cell on
}

TEST_CASE("hostile text ends in an error, soon") {
  check_refused("Node #0 - a - READY - Version: 1\n Nodes From\\To 0\n       0" + std::string(1U << 20U, ' ') + "\n");
  std::string many;
  for (int id = 0; id < 5000; ++id) many += "Node #" + std::to_string(id) + " - a - READY - Version: 1\n";
  check_refused(many);
  check_refused(std::string(1U << 20U, '\n'));
  check_refused("Node #0 - \x1b[2J - READY\n");
  const auto view = parse_status_text("Node #0 - \x1b[2J\n");
  REQUIRE_FALSE(view);
  CHECK(view.error().what.find('\x1b') == std::string::npos);
}

TEST_CASE("a cell that is no known word is not connected") {
  const auto view = parse_status_text(replaced(two_nodes, "C   N\n", "C   c\n"));
  REQUIRE(view);
  CHECK(view->links[0][1] == Link::unknown);
  CHECK(imex::show_cell(Link::unknown) == "?");
}

TEST_CASE("the guide's sample of 18 nodes is read whole") {
  const auto view = parse_status_text(domains::sample_of_18());
  REQUIRE(view);
  REQUIRE(view->nodes.size() == 18);
  CHECK(view->nodes.front().address == "172.31.48.81");
  CHECK(view->nodes[10].address == "172.31.54.95");
  CHECK(view->nodes.back().address == "172.31.56.47");
  for (const imex::NodeView& node : view->nodes) {
    CHECK(node.status == "READY");
    CHECK(node.version == "570.172");
  }
  REQUIRE(view->links.size() == 18);
  for (const auto& row : view->links) CHECK(row == std::vector<Link>(18, Link::connected));
  CHECK(view->state == "UP");
}

TEST_CASE("the local node's stars, a missing version and three-letter cells are read") {
  const auto view = parse_status_text(two_nodes);
  REQUIRE(view);
  CHECK(view->nodes[0].address == "10.0.0.1");
  CHECK(view->nodes[1].address == "10.0.0.2");
  CHECK(view->nodes[1].status == "UNAVAILABLE");
  CHECK(view->nodes[1].version.empty());
  CHECK(view->links[0] == std::vector<Link>{Link::connected, Link::never});
  CHECK(view->links[1] == std::vector<Link>{Link::map_mismatch, Link::invalid});
  CHECK(view->state == "DEGRADED");
}

TEST_CASE("stars that touch the address, a host name between and carriage returns are read") {
  std::string text = replaced(two_nodes, "* 10.0.0.1 *", "*10.0.0.1*");
  text = replaced(text, "10.0.0.2 ", "10.0.0.2 - ultra-2.example ");
  std::string returns;
  for (const char c : text) returns += c == '\n' ? std::string("\r\n") : std::string(1, c);
  const auto view = parse_status_text(returns);
  REQUIRE(view);
  CHECK(view->nodes[0].address == "10.0.0.1");
  CHECK(view->nodes[1].address == "10.0.0.2");
  CHECK(view->nodes[1].status == "UNAVAILABLE");
}

TEST_CASE("a release that prints no domain state leaves it empty") {
  const auto view = parse_status_text(replaced(two_nodes, "Domain State: DEGRADED\n", ""));
  REQUIRE(view);
  CHECK(view->state.empty());
}

TEST_CASE("every cell of the legend has its own meaning, and comes back as its cell") {
  for (const char* cell : {"C", "N", "I", "R", "D", "A", "!V!", "!M!"}) {
    INFO(cell);
    const Link link = imex::parse_link(cell);
    CHECK(link != Link::unknown);
    CHECK(imex::show_cell(link) == cell);
    CHECK((link == Link::connected) == (std::string(cell) == "C"));
    CHECK_FALSE(imex::explain(link).empty());
  }
  for (const char* word : {"", "X", "c", "CC", "!M", "CONNECT", "NOT_CONNECTED"}) {
    INFO(word);
    CHECK(imex::parse_link(word) == Link::unknown);
  }
}

// --- the JSON form ---------------------------------------------------------------------------------------

TEST_CASE("JSON of another shape is no domain") {
  for (const char* text : {"", "null", "[]", "\"UP\"", "{", "{}", "{\"nodes\":{}}", "{\"nodes\":[]}",
                           "{\"nodes\":null}", "{\"nodes\":{\"0\":null}}", "{\"nodes\":{\"0\":\"READY\"}}",
                           "{\"status\":\"UP\"}", "Query Status returned error code: 14"}) {
    check_json_refused(text);
  }
}

TEST_CASE("node ids that are no numbers, or leave a gap, are refused") {
  check_json_refused(R"({"nodes":{"a":{"host":"10.0.0.1","status":"READY"}}})");
  check_json_refused(R"({"nodes":{"1":{"host":"10.0.0.1","status":"READY"}}})");
  check_json_refused(R"({"nodes":{"-1":{"host":"10.0.0.1","status":"READY"}}})");
  check_json_refused(R"({"nodes":{"99999999999999999999":{}}})");
  check_json_refused(R"({"nodes":{"0":{"connections":{"1":{"status":"CONNECTED"}}}}})");
  check_json_refused(R"({"nodes":{"0":{"connections":{"x":{"status":"CONNECTED"}}}}})");
}

TEST_CASE("two keys that name one node leave the other one without a word, so that nothing counts as connected") {
  const auto view = parse_status_json(R"({"status":"UP","nodes":{
      "0":{"host":"10.0.0.1","status":"READY","connections":{"0":{"status":"CONNECTED"},"1":{"status":"CONNECTED"}}},
      "00":{"host":"10.0.0.2","status":"READY","connections":{"0":{"status":"CONNECTED"},"1":{"status":"CONNECTED"}}}}})");
  if (view) {
    CHECK(view->nodes[1].status.empty());
    CHECK(view->links[1][0] == Link::unknown);
  }
}

TEST_CASE("hostile JSON ends in an error, soon") {
  check_json_refused(std::string(100'000, '['));
  std::string deep;
  for (int i = 0; i < 20'000; ++i) deep += "{\"nodes\":";
  check_json_refused(deep);
  std::string many = "{\"nodes\":{";
  for (int id = 0; id < 2000; ++id) many += (id == 0 ? "\"" : ",\"") + std::to_string(id) + "\":{}";
  check_json_refused(many + "}}");
  check_json_refused("{\"nodes\":{\"\xff\":{}}}");
}

TEST_CASE("a JSON text cut short anywhere is refused") {
  const std::string whole =
      R"({"nodes":{"0":{"host":"10.0.0.1","status":"READY","connections":{"0":{"status":"CONNECTED"}}}},"status":"UP"})";
  REQUIRE(parse_status_json(whole));
  for (std::size_t length = 0; length < whole.size(); ++length) CHECK_FALSE(parse_status_json(whole.substr(0, length)));
}

TEST_CASE("a node that told nothing, or told it in other types, is not connected and not READY") {
  const auto view = parse_status_json(R"({"status":"DEGRADED","nodes":{
      "0":{"host":"10.0.0.1","status":"READY","version":"570.172","connections":{"1":{"status":"CONNECTED"}}},
      "1":{"host":"10.0.0.2","status":7,"connections":{"0":"CONNECTED"}}}})");
  REQUIRE(view);
  CHECK(view->links[0][1] == Link::connected);
  CHECK(view->links[1][0] == Link::unknown);
  CHECK(view->nodes[1].status == "7");
}

TEST_CASE("keys in another order and in other case are the same keys") {
  const auto view = parse_status_json(R"({"Status":"UP","timestamp":"5/4/2026 06:08:10.580","Nodes":{
      "1":{"Connections":{"0":{"host":"10.0.0.1","Status":"connected","changed":false}},"Version":"570.172","STATUS":"READY","Host":"10.0.0.2"},
      "0":{"connections":{"1":{"host":"10.0.0.2","status":"NEVER_CONNECTED"}},"hostName":"a","host":"10.0.0.1","status":"READY","version":""}}})");
  REQUIRE(view);
  CHECK(view->state == "UP");
  CHECK(view->nodes[0].address == "10.0.0.1");
  CHECK(view->nodes[0].version.empty());
  CHECK(view->nodes[1].address == "10.0.0.2");
  CHECK(view->nodes[1].version == "570.172");
  CHECK(view->links[0][1] == Link::never);
  CHECK(view->links[1][0] == Link::connected);
}

// --- the local status ------------------------------------------------------------------------------------

TEST_CASE("only the known words are a local status") {
  for (const char* text :
       {"", "ready", "READY READY", "READY.", "Query Status returned error code: 14", "NOT_READY", "READY\nREADY\n"}) {
    INFO(text);
    CHECK(imex::parse_local_status(text).empty());
  }
  for (const char* word : {"INITIALIZING", "STARTING_AUTH_SERVER", "WAITING_FOR_PEERS", "WAITING_FOR_RECOVERY",
                           "INIT_GPU", "READY", "SHUTTING_DOWN", "UNAVAILABLE"}) {
    CHECK(imex::parse_local_status(std::string(word) + "\n") == word);
  }
}
