#include "imex/matrix.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/text.h"

namespace imex {

namespace {

// One character a cell, so that 72 nodes fit a terminal.
char glyph(Link link) {
  switch (link) {
    case Link::version_mismatch: return 'V';
    case Link::map_mismatch: return 'M';
    default: return show_cell(link).front();
  }
}

std::string cure_of(Link link) {
  switch (link) {
    case Link::connected: return "";
    case Link::never:
      return "is TCP port 50000 (SERVER_PORT) open between the two nodes (security group), and did both prologs run?";
    case Link::invalid:
      return "the daemon there does not answer: see `systemctl status nvidia-imex` and /var/log/nvidia-imex.log on it";
    case Link::recovering:
    case Link::disconnected:
      return "the other daemon went away after it was connected: see its /var/log/nvidia-imex.log, then restart the "
             "job";
    case Link::authenticating: return "authentication hangs: compare IMEX_AUTH_* in config.cfg on both nodes";
    case Link::version_mismatch: return "install the same nvidia-imex version on every node";
    case Link::map_mismatch:
      return "compare /etc/nvidia-imex/nodes_config.cfg on both nodes, see that the prolog ran on both, then restart "
             "the job";
    case Link::unknown: return "run `nvidia-imex-ctl -N` by hand and read its legend";
  }
  return "";
}

std::string called(const DomainView& view, const std::vector<std::string>& names, std::size_t id) {
  std::string text = "node #" + std::to_string(id);
  if (id < names.size() && !names[id].empty()) text += " " + base::printable(names[id], 60);
  return text + " (" + base::printable(view.nodes[id].address, 60) + ")";
}

bool is_ready(const DomainView& view, std::size_t id) { return view.nodes[id].status == "READY"; }

// Only two daemons that have met each other show such a cell; a dead one shows N or I.
bool is_refusal(Link link) {
  return link == Link::map_mismatch || link == Link::version_mismatch || link == Link::authenticating;
}

// Its row of the matrix is its own word, and no filling of nvidia-imex-ctl's for a node that could not be asked.
bool has_told(const NodeView& node) { return node.status == "READY" || !node.version.empty(); }

std::string status_of(const DomainView& view, std::size_t id) {
  return view.nodes[id].status.empty() ? "silent" : base::printable(view.nodes[id].status, 40);
}

// Peers that have told their connections: how many of them have one with this node, a refused one, or none. A node's
// connection with itself says nothing.
struct Peers {
  std::size_t connected = 0;
  std::size_t refused = 0;
  std::size_t apart = 0;
};

Peers peers_of(const DomainView& view, std::size_t id) {
  Peers peers;
  for (std::size_t from = 0; from < view.nodes.size(); ++from) {
    if (from == id || !has_told(view.nodes[from])) continue;
    if (is_refusal(view.links[from][id]) || is_refusal(view.links[id][from])) {
      ++peers.refused;
    } else if (view.links[from][id] == Link::connected) {
      ++peers.connected;
    } else {
      ++peers.apart;
    }
  }
  return peers;
}

bool is_mute(const DomainView& view, std::size_t id) {
  const NodeView& node = view.nodes[id];
  if (has_told(node) || (!node.status.empty() && node.status != "UNAVAILABLE")) return false;
  const Peers peers = peers_of(view, id);
  return peers.connected > 0 && peers.apart == 0;
}

std::string tell_dead(const DomainView& view, const std::vector<std::string>& names, std::size_t id) {
  const std::size_t count = view.nodes.size() - 1;
  const std::size_t connected = peers_of(view, id).connected;
  const std::string text = called(view, names, id) + " is " + status_of(view, id);
  if (count == 0) return text;
  if (connected > 0) {
    return text + ", though " + std::to_string(connected) + " of its " + base::counted(count, "peer") +
           (connected == 1 ? " is" : " are") + " connected with it";
  }
  return text + (count == 1 ? "; its only peer cannot use it"
                            : "; none of its " + std::to_string(count) + " peers can use it");
}

using Pair = std::pair<std::size_t, std::size_t>;  // of node ids, the lower one first
using Pairs = std::map<Pair, Link>;

void note(Pairs& pairs, std::size_t from, std::size_t to, Link link) {
  const auto [found, is_new] = pairs.emplace(Pair{std::min(from, to), std::max(from, to)}, link);
  // What one end refuses says more than that the other end has lost it.
  if (!is_new && is_refusal(link) && !is_refusal(found->second)) found->second = link;
}

std::string and_its_status(const DomainView& view, std::size_t id) {
  return is_ready(view, id) ? "" : " (node #" + std::to_string(id) + " is " + status_of(view, id) + ")";
}

// The nodes that explain most of the pairs first, then single pairs.
void tell_pairs(const DomainView& view, const std::vector<std::string>& names, Pairs pairs,
                std::vector<DomainFault>& faults) {
  while (!pairs.empty()) {
    std::map<std::size_t, std::size_t> share;  // node -> wrong pairs it is in
    for (const auto& [pair, link] : pairs) {
      ++share[pair.first];
      ++share[pair.second];
    }
    const auto worst =
        std::max_element(share.begin(), share.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (worst->second < 3) break;
    std::map<Link, std::vector<std::size_t>> peers;
    for (auto it = pairs.begin(); it != pairs.end();) {
      const auto& [a, b] = it->first;
      if (a != worst->first && b != worst->first) {
        ++it;
        continue;
      }
      peers[it->second].push_back(a == worst->first ? b : a);
      it = pairs.erase(it);
    }
    for (auto& [link, ids] : peers) {
      std::sort(ids.begin(), ids.end());
      faults.push_back({{worst->first},
                        called(view, names, worst->first) + " is not connected with " + std::to_string(ids.size()) +
                            " of its peers (" + show_ids(ids) + "): " + std::string(show_cell(link)) + ", " +
                            std::string(explain(link)) + and_its_status(view, worst->first),
                        cure_of(link)});
    }
  }
  for (const auto& [pair, link] : pairs) {
    faults.push_back({{pair.first, pair.second},
                      called(view, names, pair.first) + " and " + called(view, names, pair.second) +
                          " are not connected: " + std::string(show_cell(link)) + ", " + std::string(explain(link)) +
                          and_its_status(view, pair.first) + and_its_status(view, pair.second),
                      cure_of(link)});
  }
}

std::string pad(std::string text, std::size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

}  // namespace

std::string show_ids(const std::vector<std::size_t>& ids) {
  std::string text;
  for (std::size_t i = 0; i < ids.size();) {
    std::size_t end = i;
    while (end + 1 < ids.size() && ids[end + 1] == ids[end] + 1) ++end;
    text += (text.empty() ? "" : ",") + std::to_string(ids[i]);
    if (end > i) text += (end == i + 1 ? "," : "-") + std::to_string(ids[end]);
    i = end + 1;
  }
  return text;
}

std::vector<std::pair<std::string, std::vector<std::size_t>>> versions_of(const DomainView& view) {
  std::map<std::string, std::vector<std::size_t>> by_version;
  for (std::size_t id = 0; id < view.nodes.size(); ++id) {
    const std::string& version = view.nodes[id].version;
    if (!version.empty() && version != "NO_GPU") by_version[version].push_back(id);
  }
  return {by_version.begin(), by_version.end()};
}

std::string draw_matrix(const DomainView& view, const std::vector<std::string>& names) {
  const std::size_t count = view.nodes.size();
  const bool show_versions = versions_of(view).size() > 1;
  const std::string gap = count > 36 ? "" : " ";
  std::size_t address_width = 7;
  std::size_t name_width = 0;
  std::size_t status_width = 6;
  for (std::size_t id = 0; id < count; ++id) {
    address_width = std::max(address_width, base::printable(view.nodes[id].address, 60).size());
    status_width = std::max(status_width, base::printable(view.nodes[id].status, 30).size());
    if (id < names.size()) name_width = std::max(name_width, base::printable(names[id], 60).size());
  }
  const auto row_head = [&](const std::string& id, const std::string& name, const std::string& address,
                            const std::string& status, const std::string& version) {
    std::string head = pad(id, 4);
    if (name_width > 0) head += pad(name, name_width + 2);
    head += pad(address, address_width + 2) + pad(status, status_width + 2);
    if (show_versions) head += pad(version, 14);
    return head;
  };
  std::string tens = row_head("", "", "", "", "");
  std::string ones = row_head("id", "node", "address", "status", "version");
  for (std::size_t id = 0; id < count; ++id) {
    tens += (id >= 10 && id % 10 == 0 ? std::to_string(id / 10) : std::string(" ")) + gap;
    ones += std::to_string(id % 10) + gap;
  }
  std::string text = (count > 10 ? tens + "\n" : "") + ones + "\n";
  for (std::size_t from = 0; from < count; ++from) {
    const NodeView& node = view.nodes[from];
    text += row_head(std::to_string(from), from < names.size() ? base::printable(names[from], 60) : "",
                     base::printable(node.address, 60), base::printable(node.status.empty() ? "-" : node.status, 30),
                     base::printable(node.version, 12));
    for (std::size_t to = 0; to < count; ++to)
      text += std::string(1, from == to ? '.' : glyph(view.links[from][to])) + gap;
    text += "\n";
  }
  std::map<char, Link> seen;
  for (std::size_t from = 0; from < count; ++from) {
    for (std::size_t to = 0; to < count; ++to) {
      if (from != to) seen.emplace(glyph(view.links[from][to]), view.links[from][to]);
    }
  }
  for (const auto& [mark, link] : seen)
    text += "    " + std::string(1, mark) + "  " + std::string(explain(link)) + "\n";
  return text;
}

std::vector<std::size_t> mute_nodes(const DomainView& view) {
  std::vector<std::size_t> mute;
  for (std::size_t id = 0; id < view.nodes.size(); ++id) {
    if (is_mute(view, id)) mute.push_back(id);
  }
  return mute;
}

std::vector<DomainFault> explain_faults(const DomainView& view, const std::vector<std::string>& names) {
  std::vector<DomainFault> faults;
  const std::size_t count = view.nodes.size();
  Pairs refused;  // an end is not READY, and the other one says why
  Pairs apart;    // both ends are READY
  for (std::size_t from = 0; from < count; ++from) {
    for (std::size_t to = 0; to < count; ++to) {
      const Link link = view.links[from][to];
      if (from == to || link == Link::connected) continue;
      if (is_ready(view, from) && is_ready(view, to)) {
        note(apart, from, to, link);
      } else if (is_refusal(link)) {
        note(refused, from, to, link);
      }
    }
  }
  tell_pairs(view, names, std::move(refused), faults);
  for (std::size_t id = 0; id < count; ++id) {
    if (is_ready(view, id) || is_mute(view, id)) continue;
    const Peers peers = peers_of(view, id);
    if (peers.refused > 0 && peers.apart == 0) continue;  // told already, and nothing else is wrong with it
    faults.push_back(
        {{id},
         tell_dead(view, names, id),
         "on that node: `systemctl status nvidia-imex`, /var/log/nvidia-imex.log and /var/log/nvidia-imex-prolog.log"});
  }
  tell_pairs(view, names, std::move(apart), faults);
  return faults;
}

}  // namespace imex
