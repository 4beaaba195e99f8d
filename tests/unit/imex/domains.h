// Domains to judge, draw and wait for: ultra-1 (10.0.0.1) to ultra-N, all READY and connected until a test says
// otherwise.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "imex/status.h"
#include "places.h"

namespace domains {

inline std::vector<std::string> names(std::size_t count) {
  std::vector<std::string> all;
  for (std::size_t i = 1; i <= count; ++i) all.push_back("ultra-" + std::to_string(i));
  return all;
}

inline std::vector<std::string> addresses(std::size_t count) {
  std::vector<std::string> all;
  for (std::size_t i = 1; i <= count; ++i) all.push_back("10.0.0." + std::to_string(i));
  return all;
}

inline imex::DomainView of(const std::vector<std::string>& list) {
  imex::DomainView view;
  for (const std::string& address : list) view.nodes.push_back({address, "READY", "570.172"});
  view.links.assign(list.size(), std::vector<imex::Link>(list.size(), imex::Link::connected));
  view.state = "UP";
  return view;
}

inline imex::DomainView up(std::size_t count) { return of(addresses(count)); }

// As the daemons show a node whose daemon is gone: it tells nothing, and nobody reaches it.
inline imex::DomainView with_dead(imex::DomainView view, std::size_t id) {
  view.nodes[id].status = "UNAVAILABLE";
  view.nodes[id].version = "";
  for (std::size_t other = 0; other < view.nodes.size(); ++other) {
    view.links[id][other] = imex::Link::invalid;
    view.links[other][id] = imex::Link::never;
  }
  view.state = "DEGRADED";
  return view;
}

// Both directions of one pair.
inline imex::DomainView with_pair(imex::DomainView view, std::size_t a, std::size_t b, imex::Link link) {
  view.links[a][b] = link;
  view.links[b][a] = link;
  view.state = "DEGRADED";
  return view;
}

// What `nvidia-imex-ctl -N` printed on an UltraServer, as AWS' guide shows it.
inline std::string sample_of_18() {
  std::ifstream stream(tests::data_dir() / "imex" / "domain-of-18-nodes.txt", std::ios::binary);
  if (!stream) throw std::runtime_error("no sample of a domain of 18 nodes");
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

}  // namespace domains
