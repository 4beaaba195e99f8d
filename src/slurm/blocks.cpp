#include "slurm/blocks.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>
#include <stdexcept>
#include <unordered_map>

#include "base/text.h"
#include "site/site.h"
#include "slurm/hostlist.h"

namespace slurm {

namespace {

constexpr std::size_t most_yaml_bytes = 4U << 20U;
constexpr std::size_t most_yaml_values = 100'000;
constexpr std::size_t deepest_yaml = 12;

base::Error malformed(const std::string& what, const std::string& why) {
  return base::Error{base::ExitCode::source, what + " cannot be used: " + why,
                     "compare it with what scontrol show topology prints", base::Blame::shared};
}

// A YAML value, as little of it as a topology needs.
struct Yaml {
  enum class Kind { null, scalar, sequence, map };
  Kind kind = Kind::null;
  std::string text;         // of a scalar
  std::vector<Yaml> items;  // of a sequence; of a map key, value, key, value ...

  const Yaml* child(std::string_view key) const {
    if (kind != Kind::map) return nullptr;
    for (std::size_t at = 0; at + 1 < items.size(); at += 2) {
      if (items[at].kind == Kind::scalar && items[at].text == key) return &items[at + 1];
    }
    return nullptr;
  }
};

// Makes that value of yaml-cpp's events. Whoever is too large, too deep or has aliases (a few lines with them can
// stand for billions of values) ends the parsing by an exception. The count also ends texts on which yaml-cpp 0.8
// itself would go on for ever.
class YamlReader : public YAML::EventHandler {
 public:
  Yaml take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override { add({}); }
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override { throw std::runtime_error("it has an alias (*name)"); }
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string& value) override {
    add({Yaml::Kind::scalar, value, {}});
  }
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    enter(Yaml::Kind::sequence);
  }
  void OnSequenceEnd() override { leave(); }
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    enter(Yaml::Kind::map);
  }
  void OnMapEnd() override { leave(); }

 private:
  void enter(Yaml::Kind kind) {
    if (open_.size() == deepest_yaml) throw std::runtime_error("it is nested too deep");
    open_.push_back({kind, "", {}});
  }
  void leave() {
    Yaml done = std::move(open_.back());
    open_.pop_back();
    add(std::move(done));
  }
  void add(Yaml value) {
    if (++values_ > most_yaml_values) throw std::runtime_error("it is too large");
    if (open_.empty()) {
      root_ = std::move(value);
    } else {
      open_.back().items.push_back(std::move(value));
    }
  }

  Yaml root_;
  std::vector<Yaml> open_;  // the sequences and maps around the next value
  std::size_t values_ = 0;
};

std::string text_of(const Yaml* value) { return value != nullptr ? value->text : std::string(); }

// topoconf prints `block: {}`, `flat: false` for the kinds that are not meant.
bool is_meant(const Yaml* value) {
  if (value == nullptr || value->kind == Yaml::Kind::null) return false;
  if (value->kind == Yaml::Kind::scalar) return !base::equals_ignoring_case(value->text, "false");
  return !value->items.empty();
}

// Slurm takes spaces as well as commas between hosts, and does not mind an empty one (hostlist.c).
base::Result<std::vector<std::string>> expand_loosely(std::string_view text, std::size_t limit) {
  std::string list;
  int depth = 0;
  bool pending = false;
  for (char c : text) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (depth <= 0 && (c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r')) {
      pending = !list.empty();
      continue;
    }
    if (pending) list += ',';
    pending = false;
    list += c;
  }
  if (list.empty()) return std::vector<std::string>();
  return expand_hostlist(list, limit);
}

base::Result<BlockMap> read_blocks(const Yaml& topology, const std::string& what) {
  const Yaml* list = topology.child("block")->child("blocks");
  if (list == nullptr || list->kind != Yaml::Kind::sequence) {
    return malformed(what, "its block topology has no list of blocks");
  }
  BlockMap map;
  map.source = what;
  std::size_t left = site::max_job_nodes;
  for (const Yaml& entry : list->items) {
    Block one;
    one.name = base::printable(text_of(entry.child("block")), 255);
    if (one.name.empty()) return malformed(what, "a block has no name");
    const Yaml* nodes = entry.child("nodes");
    if (nodes != nullptr && nodes->kind != Yaml::Kind::scalar && nodes->kind != Yaml::Kind::null) {
      return malformed(what, "the nodes of block " + one.name + " are no host list");
    }
    auto names = expand_loosely(text_of(nodes), left);
    if (!names) return malformed(what, "block " + one.name + ": " + names.error().what);
    left -= names->size();
    one.nodes = std::move(*names);
    map.blocks.push_back(std::move(one));
  }
  return map;
}

enum class TopologyKind { block, other, unclear };

TopologyKind kind_of(const Yaml& topology) {
  if (is_meant(topology.child("block"))) return TopologyKind::block;
  for (const char* key : {"tree", "flat", "ring", "torus3d"}) {
    if (is_meant(topology.child(key))) return TopologyKind::other;
  }
  return TopologyKind::unclear;
}

bool is_default(const Yaml& topology) {
  const std::string value = base::lower(text_of(topology.child("cluster_default")));
  return value == "true" || value == "yes" || value == "on" || value == "y";
}

// The one entry for which `fits` holds; `several` tells that more than one does.
template <class Fits>
const Yaml* only_one(const std::vector<Yaml>& topologies, bool& several, const Fits& fits) {
  const Yaml* found = nullptr;
  several = false;
  for (const Yaml& entry : topologies) {
    if (!fits(entry)) continue;
    several = found != nullptr;
    if (several) return nullptr;
    found = &entry;
  }
  return found;
}

// The entry that `name` means; nullptr where there is no choice.
const Yaml* choose(const std::vector<Yaml>& topologies, const std::string& name) {
  bool several = false;
  if (!name.empty()) {
    return only_one(topologies, several, [&](const Yaml& entry) { return text_of(entry.child("topology")) == name; });
  }
  const Yaml* chosen = only_one(topologies, several, is_default);
  if (chosen != nullptr || several) return chosen;
  chosen = only_one(topologies, several, [](const Yaml& entry) { return kind_of(entry) == TopologyKind::block; });
  if (chosen != nullptr || several) return chosen;
  // No block topology at all: where there is one topology, that is the one.
  return topologies.size() == 1 ? &topologies.front() : nullptr;
}

base::Result<TopologyFile> read_topologies(const Yaml& document, const std::string& name) {
  if (document.kind != Yaml::Kind::sequence) return malformed("topology.yaml", "it is no list of topologies");
  TopologyFile file;
  const Yaml* chosen = choose(document.items, name);
  if (chosen == nullptr) return file;
  file.name = base::printable(text_of(chosen->child("topology")), 255);
  switch (kind_of(*chosen)) {
    case TopologyKind::unclear: return file;
    case TopologyKind::other: file.kind = TopologyFile::Kind::other; return file;
    case TopologyKind::block: break;
  }
  const std::string what = file.name.empty() ? "topology.yaml" : "topology.yaml (topology " + file.name + ")";
  auto map = read_blocks(*chosen, what);
  if (!map) return map.error();
  file.kind = TopologyFile::Kind::block;
  file.map = std::move(*map);
  return file;
}

}  // namespace

base::Result<TopologyFile> parse_topology_yaml(std::string_view text, const std::string& topology) {
  if (text.size() > most_yaml_bytes) return malformed("topology.yaml", "it is too large");
  // yaml-cpp reports by exceptions: they end here.
  YamlReader reader;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(reader);
  } catch (const std::exception& error) {
    return malformed("topology.yaml", base::printable(error.what(), 200));
  }
  return read_topologies(reader.take(), topology);
}

base::Result<BlockMap> parse_show_topology(std::string_view text) {
  const std::string what = "the answer of scontrol show topology";
  if (base::trim(text).empty()) return malformed(what, "it is empty");
  if (text.back() != '\n') return malformed(what, "its last line is cut short");
  BlockMap map;
  map.source = "scontrol show topology";
  std::size_t left = site::max_job_nodes;
  for (const std::string_view line : base::each_line(text)) {
    const auto words = base::words(line);
    if (words.empty() || words.front().starts_with("AggregatedBlock=")) continue;
    constexpr std::string_view name_key = "BlockName=";
    constexpr std::string_view nodes_key = "Nodes=";
    if (words.front().starts_with("SwitchName=")) return malformed(what, "it is a tree of switches, no blocks");
    if (!words.front().starts_with(name_key)) {
      return malformed(what, "a line begins with '" + base::printable(words.front(), 60) + "'");
    }
    Block block;
    block.name = base::printable(words.front().substr(name_key.size()), 255);
    if (block.name.empty()) return malformed(what, "a block has no name");
    for (const std::string_view word : words) {
      if (!word.starts_with(nodes_key)) continue;
      if (!block.nodes.empty()) return malformed(what, "block " + block.name + " has two lists of nodes");
      auto nodes = expand_hostlist(word.substr(nodes_key.size()), left);
      if (!nodes) return malformed(what, "block " + block.name + ": " + nodes.error().what);
      block.nodes = std::move(*nodes);
      left -= block.nodes.size();
    }
    map.blocks.push_back(std::move(block));  // a block without nodes prints no Nodes=
  }
  if (map.blocks.empty()) return malformed(what, "it has no block");
  return map;
}

base::Result<OwnBlock> cut_to_block(const BlockMap& map, const std::vector<std::string>& job_nodes,
                                    const std::string& own_node) {
  constexpr std::size_t none = static_cast<std::size_t>(-1);
  constexpr std::size_t several = static_cast<std::size_t>(-2);
  std::unordered_map<std::string_view, std::size_t> block_of;
  block_of.reserve(job_nodes.size() + 1);
  block_of.emplace(own_node, none);
  for (const std::string& node : job_nodes) block_of.emplace(node, none);
  for (std::size_t index = 0; index < map.blocks.size(); ++index) {
    for (const std::string& node : map.blocks[index].nodes) {
      const auto found = block_of.find(node);
      if (found != block_of.end()) found->second = found->second == none ? index : several;
    }
  }
  const auto check = [&](const std::string& node) -> std::optional<base::Error> {
    const std::size_t index = block_of.at(node);
    if (index != none && index != several) return std::nullopt;
    return malformed(map.source, "node " + base::printable(node, 255) +
                                     (index == none ? " is in none of its blocks" : " is in it twice"));
  };
  if (auto wrong = check(own_node)) return *wrong;
  OwnBlock own;
  const std::size_t own_index = block_of.at(own_node);
  own.name = map.blocks[own_index].name;
  for (const std::string& node : job_nodes) {
    if (auto wrong = check(node)) return *wrong;
    if (block_of.at(node) == own_index) own.nodes.push_back(node);
  }
  return own;
}

}  // namespace slurm
