#include "imex/merge.h"

#include <cstdint>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/ip_literal.h"
#include "base/text.h"
#include "imex/domain.h"

namespace imex {

using base::Error;
using base::ExitCode;
using Json = nlohmann::json;

namespace {

constexpr std::size_t most_nodes = 1024;

Json to_json(const DomainView& view) {
  Json nodes = Json::array();
  for (std::size_t id = 0; id < view.nodes.size(); ++id) {
    Json row = Json::array();
    for (const Link link : view.links[id]) row.push_back(show_cell(link));
    nodes.push_back({{"address", base::printable(view.nodes[id].address)},
                     {"status", base::printable(view.nodes[id].status)},
                     {"version", base::printable(view.nodes[id].version)},
                     {"links", row}});
  }
  return {{"state", base::printable(view.state)}, {"nodes", nodes}};
}

DomainView to_view(const Json& json) {
  DomainView view;
  view.state = json.value("state", "");
  const Json& nodes = json.at("nodes");
  if (nodes.size() > most_nodes) throw std::length_error("too many nodes");
  for (const Json& node : nodes) {
    view.nodes.push_back({node.value("address", ""), node.value("status", ""), node.value("version", "")});
    std::vector<Link> row;
    for (const Json& cell : node.at("links")) row.push_back(parse_link(cell.get<std::string>()));
    row.resize(nodes.size(), Link::unknown);
    view.links.push_back(row);
  }
  return view;
}

// null where nobody tells: no daemon answers there, or the node gave no report.
Json daemon_of(const NodeReport* report) {
  if (report == nullptr) return {{"list", nullptr}, {"place", nullptr}, {"daemon", nullptr}, {"version", nullptr}};
  const bool told = report->own && report->view && list_difference(*report->view, report->list).empty();
  return {{"list", report->list.empty() ? Json(nullptr) : Json(list_name(report->list))},
          {"place", report->own ? Json(*report->own) : Json(nullptr)},
          {"daemon", told ? Json(base::printable(report->view->nodes[*report->own].status)) : Json(nullptr)},
          {"version", told ? Json(base::printable(report->view->nodes[*report->own].version)) : Json(nullptr)}};
}

// Of 18 nodes there are 153 pairs, of which none or a few are worth a line.
Json to_json(const MergedDomain& domain) {
  const std::size_t count = domain.view.nodes.size();
  Json addresses = Json::array();
  for (const NodeView& node : domain.view.nodes) addresses.push_back(base::printable(node.address));
  Json unconnected = Json::array();
  std::size_t pairs = 0;
  for (std::size_t from = 0; from < count; ++from) {
    for (std::size_t to = from + 1; to < count; ++to) {
      ++pairs;
      const Link there = domain.view.links[from][to];
      const Link back = domain.view.links[to][from];
      if (there == Link::connected && back == Link::connected) continue;
      unconnected.push_back(
          {{"from", from}, {"to", to}, {"from_sees", show_cell(there)}, {"to_sees", show_cell(back)}});
    }
  }
  return {{"list", domain.list},
          {"addresses", addresses},
          {"names", domain.names},
          {"holders", domain.holders},
          {"state", base::printable(domain.view.state)},
          {"pairs", pairs},
          {"connected", pairs - unconnected.size()},
          {"not_connected", unconnected}};
}

}  // namespace

std::string list_name(const std::vector<std::string>& list) {
  // FNV-1a: a name to compare by eye, of text that nobody gains by forging.
  std::uint64_t hash = 14695981039346656037ULL;
  for (const std::string& address : list) {
    for (const char c : address + "\n") hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  char text[20];
  std::snprintf(text, sizeof text, "%08llx", static_cast<unsigned long long>(hash >> 32U));
  return text;
}

std::string render_node_report(const NodeReport& report) {
  const Json json = {{"node", base::printable(report.node)},
                     {"list", report.list},
                     {"list_name", list_name(report.list)},
                     {"own", report.own ? Json(*report.own) : Json(nullptr)},
                     {"view", report.view ? to_json(*report.view) : Json(nullptr)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

base::Result<NodeReport> parse_node_report(std::string_view text) {
  NodeReport report;
  try {
    const Json json = Json::parse(text);
    report.node = json.at("node").get<std::string>();
    report.list = json.at("list").get<std::vector<std::string>>();
    if (!json.at("own").is_null()) report.own = json.at("own").get<std::size_t>();
    if (!json.at("view").is_null()) report.view = to_view(json.at("view"));
  } catch (const std::exception& exception) {
    return Error{ExitCode::source, std::string("a node's report cannot be read: ") + exception.what(),
                 "install one gpu-prolog version on every node"};
  }
  if (report.list.size() > most_nodes || (report.own && *report.own >= report.list.size())) {
    return Error{ExitCode::source, "a node's report contradicts itself",
                 "install one gpu-prolog version on every node"};
  }
  return report;
}

std::string list_difference(const DomainView& view, const std::vector<std::string>& list) {
  std::vector<std::string> canonical;
  for (const std::string& entry : list) canonical.push_back(base::canonical_address(entry).value_or(entry));
  if (!judge(view, {}, canonical, 0).other_list) return "";
  if (view.nodes.size() != canonical.size()) return "it holds " + base::counted(view.nodes.size(), "node");
  std::size_t place = 0;
  while (place + 1 < canonical.size() &&
         base::canonical_address(view.nodes[place].address).value_or(canonical[place]) == canonical[place])
    ++place;
  return "its node #" + std::to_string(place) + " is " + base::printable(view.nodes[place].address, 60) + ", not " +
         base::printable(canonical[place], 60);
}

Merged merge(const std::vector<NodeReport>& reports) {
  Merged merged;
  std::map<std::string, std::size_t> domain_of_list;
  std::map<std::string, const NodeReport*> holder_of_address;
  for (const NodeReport& report : reports) {
    if (report.own) holder_of_address[report.list[*report.own]] = &report;
    if (report.list.empty()) continue;
    const std::string name = list_name(report.list);
    const auto [found, is_new] = domain_of_list.emplace(name, merged.domains.size());
    if (is_new) {
      MergedDomain domain;
      domain.list = name;
      domain.names.resize(report.list.size());
      for (const std::string& address : report.list) domain.view.nodes.push_back({address, "no answer", ""});
      domain.view.links.assign(report.list.size(), std::vector<Link>(report.list.size(), Link::invalid));
      merged.domains.push_back(std::move(domain));
    }
    MergedDomain& domain = merged.domains[found->second];
    domain.holders.push_back(report.node);
    if (!report.own) continue;
    const std::size_t own = *report.own;
    domain.names[own] = report.node;
    domain.view.nodes[own].status = "no daemon";
    if (!report.view) continue;
    if (!list_difference(*report.view, report.list).empty()) {
      domain.view.nodes[own].status = "of another list";
      continue;
    }
    domain.view.nodes[own] = report.view->nodes[own];
    domain.view.links[own] = report.view->links[own];
    if (domain.view.state.empty() || report.view->state != "UP") domain.view.state = report.view->state;
  }
  for (const MergedDomain& domain : merged.domains) {
    for (const NodeView& node : domain.view.nodes) {
      const auto holder = holder_of_address.find(node.address);
      if (holder == holder_of_address.end()) continue;
      const std::string other = list_name(holder->second->list);
      if (other == domain.list) continue;
      merged.list_faults.push_back(
          "node " + holder->second->node + " (" + node.address + ") is in the list " + domain.list + " of " +
          (domain.holders.empty() ? std::string("others") : domain.holders.front()) + ", but holds the list " + other);
    }
  }
  return merged;
}

std::string render_merged(const Merged& merged, const std::vector<NodeReport>& reports,
                          const std::vector<std::string>& nodes, const std::set<std::string>& answered) {
  std::map<std::string, const NodeReport*> report_of;
  for (const NodeReport& report : reports) report_of[report.node] = &report;
  Json told = Json::array();
  for (const std::string& node : nodes) {
    const auto report = report_of.find(node);
    Json one = daemon_of(report == report_of.end() ? nullptr : report->second);
    one["node"] = base::printable(node);
    one["answered"] = answered.contains(node);
    told.push_back(std::move(one));
  }
  Json lists = Json::array();
  for (const MergedDomain& domain : merged.domains) lists.push_back(to_json(domain));
  const Json json = {{"nodes", told}, {"lists", lists}, {"list_faults", merged.list_faults}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace imex
