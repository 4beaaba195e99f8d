#include "imex/status.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace imex {

using base::Error;
using base::ExitCode;
using Json = nlohmann::json;

namespace {

constexpr std::size_t deepest_json = 16;
constexpr std::size_t most_nodes = 1024;  // far over any NVLink domain: only keeps hostile text small

struct LinkWords {
  Link link;
  std::string_view cell;
  std::string_view word;
  std::string_view meaning;
};

// The cells and their meanings: the legend that `nvidia-imex-ctl -N` prints. The JSON words CONNECTED,
// NEVER_CONNECTED and INVALID were seen in captures; the others are presumed after the legend.
constexpr std::array<LinkWords, 8> link_words{{
    {Link::connected, "C", "CONNECTED", "connected"},
    {Link::never, "N", "NEVER_CONNECTED", "never connected"},
    {Link::invalid, "I", "INVALID", "not reachable, no connection status available"},
    {Link::recovering, "R", "RECOVERING", "connection lost, clean-up not yet triggered"},
    {Link::disconnected, "D", "DISCONNECTED", "connection lost and cleaned up"},
    {Link::authenticating, "A", "AUTHENTICATING", "authenticating"},
    {Link::version_mismatch, "!V!", "VERSION_MISMATCH", "IMEX versions differ, communication disabled"},
    {Link::map_mismatch, "!M!", "NODE_MAP_MISMATCH",
     "node lists differ, communication disabled until both sides restart with one list"},
}};

Error unreadable(const std::string& why) {
  return Error{ExitCode::source, "cannot read nvidia-imex-ctl's status: " + why,
               "run `nvidia-imex-ctl -N` by hand; a new IMEX release may print another form"};
}

std::string json_text(const Json& object, std::string_view key) {
  for (const auto& [name, value] : object.items()) {
    if (base::equals_ignoring_case(name, key)) return value.is_string() ? value.get<std::string>() : value.dump();
  }
  return "";
}

const Json* json_member(const Json& object, std::string_view key) {
  for (const auto& [name, value] : object.items()) {
    if (base::equals_ignoring_case(name, key)) return &value;
  }
  return nullptr;
}

// "Node #0   - 172.31.48.81    - READY                - Version: 570.172": the address comes first, the status
// right before "Version:"; the local node has '*' in place of the '-' around its address in some releases,
// and -H puts a host name between.
bool parse_node_line(std::string_view line, std::size_t expected_id, NodeView& node) {
  const auto all = base::words(line);
  if (all.size() < 2 || !all[1].starts_with('#') || base::parse_number(all[1].substr(1)) != expected_id) return false;
  std::vector<std::string_view> words;
  for (std::size_t i = 2; i < all.size(); ++i) {
    if (all[i] != "-" && all[i] != "*") words.push_back(all[i]);
  }
  const auto version = std::find(words.begin(), words.end(), "Version:");
  if (version == words.end() || version - words.begin() < 2) return false;  // a line cut short has no "Version:"
  node.address = words.front();
  while (node.address.starts_with('*')) node.address.erase(0, 1);
  while (node.address.ends_with('*')) node.address.pop_back();
  node.status = *(version - 1);
  if (version + 1 != words.end()) node.version = *(version + 1);
  return true;
}

}  // namespace

Link parse_link(std::string_view word) {
  for (const LinkWords& row : link_words) {
    if (word == row.cell || base::equals_ignoring_case(word, row.word)) return row.link;
  }
  return Link::unknown;
}

std::string_view show_cell(Link link) {
  for (const LinkWords& row : link_words) {
    if (row.link == link) return row.cell;
  }
  return "?";
}

std::string_view explain(Link link) {
  for (const LinkWords& row : link_words) {
    if (row.link == link) return row.meaning;
  }
  return "a word that this gpu-prolog does not know; counted as not connected";
}

base::Result<DomainView> parse_status_text(std::string_view text) {
  DomainView view;
  std::size_t columns = 0;
  bool in_matrix = false;
  for (const std::string_view line : base::each_line(text)) {
    const auto words = base::words(line);
    if (words.empty()) continue;
    if (words[0] == "Node" && words.size() > 1 && words[1].starts_with('#')) {
      NodeView node;
      if (view.nodes.size() >= most_nodes || !parse_node_line(line, view.nodes.size(), node)) {
        return unreadable("'" + base::printable(line, 120) + "'");
      }
      view.nodes.push_back(node);
    } else if (words[0] == "Nodes" && words.size() > 1 && words[1].starts_with("From")) {
      columns = words.size() - 2;
      in_matrix = true;
    } else if (words[0] == "Domain" && words.size() >= 3 && words[1] == "State:") {
      view.state = words[2];
      in_matrix = false;
    } else if (in_matrix) {
      if (base::parse_number(words[0]) != view.links.size() || words.size() != columns + 1) {
        return unreadable("matrix row '" + base::printable(line, 120) + "'");
      }
      std::vector<Link> row;
      for (std::size_t i = 1; i < words.size(); ++i) row.push_back(parse_link(words[i]));
      view.links.push_back(row);
    }
  }
  if (view.nodes.empty()) return unreadable("it lists no nodes: '" + base::printable(base::trim(text), 120) + "'");
  if (view.links.size() != view.nodes.size() || columns != view.nodes.size()) {
    return unreadable("a matrix of " + std::to_string(view.links.size()) + " rows and " + std::to_string(columns) +
                      " columns for " + std::to_string(view.nodes.size()) + " nodes");
  }
  return view;
}

base::Result<DomainView> parse_status_json(std::string_view text) {
  if (base::nests_deeper_than(text, deepest_json)) return unreadable("its JSON is nested deeper than any answer");
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return unreadable("it is no JSON object");
  const Json* nodes = json_member(json, "nodes");
  if (nodes == nullptr || !nodes->is_object() || nodes->empty() || nodes->size() > most_nodes) {
    return unreadable("its JSON has no \"nodes\"");
  }
  const std::size_t count = nodes->size();
  DomainView view;
  view.state = json_text(json, "status");
  view.nodes.resize(count);
  view.links.assign(count, std::vector<Link>(count, Link::unknown));
  for (const auto& [id_text, node] : nodes->items()) {
    const auto id = base::parse_number(id_text);
    if (!id || *id >= count || !node.is_object())
      return unreadable("node id '" + base::printable(id_text) + "' in its JSON");
    NodeView& seen = view.nodes[*id];
    seen.address = json_text(node, "host");
    seen.status = json_text(node, "status");
    seen.version = json_text(node, "version");
    const Json* connections = json_member(node, "connections");
    if (connections == nullptr || !connections->is_object()) continue;  // a node that told nothing: not connected
    for (const auto& [peer_text, connection] : connections->items()) {
      const auto peer = base::parse_number(peer_text);
      if (!peer || *peer >= count) return unreadable("connection id '" + base::printable(peer_text) + "' in its JSON");
      if (connection.is_object()) view.links[*id][*peer] = parse_link(json_text(connection, "status"));
    }
  }
  return view;
}

std::string parse_local_status(std::string_view text) {
  // The set of DCGM's DcgmImexManager.
  static constexpr std::array<std::string_view, 8> known{
      "INITIALIZING", "STARTING_AUTH_SERVER", "WAITING_FOR_PEERS", "WAITING_FOR_RECOVERY", "INIT_GPU",
      "READY",        "SHUTTING_DOWN",        "UNAVAILABLE"};
  const std::string_view word = base::trim(text);
  return std::find(known.begin(), known.end(), word) == known.end() ? "" : std::string(word);
}

}  // namespace imex
