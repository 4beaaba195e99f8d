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

// Goes over a YAML text without keeping any of it: whoever is too large, too deep or has aliases (a few lines
// with them can stand for billions of values) is refused before a tree is made.
class Measure : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override { count(); }
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override { throw std::runtime_error("it has an alias (*name)"); }
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override { count(); }
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    enter();
  }
  void OnSequenceEnd() override { --depth_; }
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    enter();
  }
  void OnMapEnd() override { --depth_; }

 private:
  void count() {
    if (++values_ > most_yaml_values) throw std::runtime_error("it is too large");
  }
  void enter() {
    count();
    if (++depth_ > deepest_yaml) throw std::runtime_error("it is nested too deep");
  }
  std::size_t values_ = 0;
  std::size_t depth_ = 0;
};

// The value of a key, or an undefined node; never throws on what is no map.
YAML::Node child(const YAML::Node& node, const char* key) {
  return node.IsMap() ? node[key] : YAML::Node(YAML::NodeType::Undefined);
}

std::string text_of(const YAML::Node& node) { return node && node.IsScalar() ? node.Scalar() : std::string(); }

// topoconf prints `block: {}`, `flat: false` for the kinds that are not meant.
bool is_meant(const YAML::Node& node) {
  if (!node || node.IsNull()) return false;
  if (node.IsMap() || node.IsSequence()) return node.size() > 0;
  return !base::equals_ignoring_case(node.Scalar(), "false");
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

base::Result<BlockMap> read_blocks(const YAML::Node& block, const std::string& what) {
  const YAML::Node list = child(block, "blocks");
  if (!list || !list.IsSequence()) return malformed(what, "its block topology has no list of blocks");
  BlockMap map;
  map.source = what;
  std::size_t left = site::max_job_nodes;
  for (const YAML::Node& entry : list) {
    Block one;
    one.name = base::printable(text_of(child(entry, "block")), 255);
    if (one.name.empty()) return malformed(what, "a block has no name");
    const YAML::Node nodes = child(entry, "nodes");
    if (nodes && !nodes.IsScalar() && !nodes.IsNull()) {
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

TopologyKind kind_of(const YAML::Node& topology) {
  if (is_meant(child(topology, "block"))) return TopologyKind::block;
  for (const char* key : {"tree", "flat", "ring", "torus3d"}) {
    if (is_meant(child(topology, key))) return TopologyKind::other;
  }
  return TopologyKind::unclear;
}

bool is_default(const YAML::Node& topology) {
  const YAML::Node value = child(topology, "cluster_default");
  bool yes = false;
  return value && value.IsScalar() && YAML::convert<bool>::decode(value, yes) && yes;
}

// The entry that `name` means; an undefined node where there is no choice.
YAML::Node choose(const YAML::Node& topologies, const std::string& name) {
  const YAML::Node nothing(YAML::NodeType::Undefined);
  YAML::Node chosen(YAML::NodeType::Undefined);
  int found = 0;
  const auto consider = [&](const YAML::Node& entry) {
    if (++found == 1) chosen.reset(entry);
  };
  if (!name.empty()) {
    for (const YAML::Node& entry : topologies) {
      if (text_of(child(entry, "topology")) == name) consider(entry);
    }
    return found == 1 ? chosen : nothing;
  }
  for (const YAML::Node& entry : topologies) {
    if (is_default(entry)) consider(entry);
  }
  if (found > 0) return found == 1 ? chosen : nothing;
  for (const YAML::Node& entry : topologies) {
    if (kind_of(entry) == TopologyKind::block) consider(entry);
  }
  if (found > 0) return found == 1 ? chosen : nothing;
  // No block topology at all: where there is one topology, that is the one.
  if (topologies.size() == 1) return topologies[0];
  return nothing;
}

base::Result<TopologyFile> read_topologies(const YAML::Node& document, const std::string& name) {
  if (!document.IsSequence()) return malformed("topology.yaml", "it is no list of topologies");
  TopologyFile file;
  const YAML::Node chosen = choose(document, name);
  if (!chosen) return file;
  file.name = base::printable(text_of(child(chosen, "topology")), 255);
  switch (kind_of(chosen)) {
    case TopologyKind::unclear: return file;
    case TopologyKind::other: file.kind = TopologyFile::Kind::other; return file;
    case TopologyKind::block: break;
  }
  const std::string what = file.name.empty() ? "topology.yaml" : "topology.yaml (topology " + file.name + ")";
  auto map = read_blocks(child(chosen, "block"), what);
  if (!map) return map.error();
  file.kind = TopologyFile::Kind::block;
  file.map = std::move(*map);
  return file;
}

}  // namespace

base::Result<TopologyFile> parse_topology_yaml(std::string_view text, const std::string& topology) {
  if (text.size() > most_yaml_bytes) return malformed("topology.yaml", "it is too large");
  // yaml-cpp reports by exceptions: they end here.
  try {
    {
      std::istringstream stream{std::string(text)};
      YAML::Parser parser(stream);
      Measure measure;
      while (parser.HandleNextDocument(measure)) {
      }
    }
    return read_topologies(YAML::Load(std::string(text)), topology);
  } catch (const std::exception& error) {
    return malformed("topology.yaml", base::printable(error.what(), 200));
  }
}

base::Result<BlockMap> parse_show_topology(std::string_view text) {
  const std::string what = "the answer of scontrol show topology";
  if (base::trim(text).empty()) return malformed(what, "it is empty");
  if (text.back() != '\n') return malformed(what, "its last line is cut short");
  BlockMap map;
  map.source = "scontrol show topology";
  std::size_t left = site::max_job_nodes;
  for (const std::string_view line : base::lines(text)) {
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
