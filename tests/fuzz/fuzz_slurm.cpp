// libFuzzer harness for what we read of Slurm. The first byte chooses the parser, so that one corpus serves all;
// FUZZ_PARSER (0 to 6) keeps a run to one of them. Beyond "no crash": what a parser accepts must keep its promise.
//
// Not part of the build; tests/fuzz/run builds and runs it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "slurm/blocks.h"
#include "slurm/conf.h"
#include "slurm/hostlist.h"
#include "slurm/scontrol.h"

namespace {

void require(bool kept) {
  if (!kept) std::abort();
}

constexpr std::size_t most_hosts = 2'000;  // small, for many rounds a second
const std::vector<std::string> wanted{"node1", "node2", "ultra-1"};

void hostlist(std::string_view text) {
  const auto nodes = slurm::expand_hostlist(text, most_hosts);
  if (!nodes) {
    require(nodes.error().what.find('\n') == std::string::npos);
    return;
  }
  require(!nodes->empty() && nodes->size() <= most_hosts);
  for (const std::string& node : *nodes) require(slurm::is_node_name(node));
  const auto again = slurm::expand_hostlist(slurm::fold_hostlist(*nodes), most_hosts);
  require(again.has_value() && *again == *nodes);
}

void conf(std::string_view text) {
  slurm::Conf read;
  std::vector<std::string> includes;
  slurm::parse_conf(text, read, includes);
  require(slurm::spool_dir(read, "node1").starts_with('/'));
  (void)slurm::prolog_limit(read);
  (void)slurm::epilog_limit(read);
  (void)slurm::has_prolog_flag(read, "NoHold");
  (void)slurm::switch_makes_channels(read);
  (void)read.partition("ultra");
  require(slurm::message_timeout(read).count() > 0);
}

void cut(const slurm::BlockMap& map) {
  const auto own = slurm::cut_to_block(map, wanted, "node1");
  if (!own) return;
  require(!own->nodes.empty() && own->nodes.front() == "node1");
}

void topology_yaml(std::string_view text) {
  for (const char* name : {"", "ultra"}) {
    const auto file = slurm::parse_topology_yaml(text, name);
    if (file) cut(file->map);
  }
}

void show_topology(std::string_view text) {
  const auto map = slurm::parse_show_topology(text);
  if (!map) return;
  require(!map->blocks.empty());
  cut(*map);
}

void addresses(const base::Result<std::vector<slurm::NodeAddress>>& answer) {
  if (!answer) {
    require(answer.error().what.find('\n') == std::string::npos);
    return;
  }
  require(answer->size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    require((*answer)[i].node == wanted[i]);
    const std::string& address = (*answer)[i].address;
    require(!address.empty() && address.front() != '-' && address.find_first_of(" \n/$") == std::string::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  static const char* const only = std::getenv("FUZZ_PARSER");
  const int parser = only != nullptr ? std::atoi(only) : data[0] % 7;
  switch (parser) {
    case 0: hostlist(text); break;
    case 1: conf(text); break;
    case 2: topology_yaml(text); break;
    case 3: show_topology(text); break;
    case 4: addresses(slurm::parse_getaddrs(text, wanted)); break;
    case 5: addresses(slurm::parse_show_node(text, wanted)); break;
    case 6: (void)slurm::parse_show_config(text); break;
  }
  return 0;
}
