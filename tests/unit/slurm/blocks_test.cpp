#include "slurm/blocks.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "captured.h"
#include "slurm/hostlist.h"

using namespace slurm;
using Kind = TopologyFile::Kind;
using Names = std::vector<std::string>;

namespace {

std::string yaml(const std::string& version) {
  return captured::whole_file(captured::folder(version) / "topology.yaml");
}

BlockMap map_of(std::vector<Block> blocks) { return {std::move(blocks), "a map"}; }

}  // namespace

TEST_CASE("a topology.yaml that is none is an error that says why") {
  const std::pair<std::string, const char*> rows[] = {
      {"", "no list of topologies"},
      {"\n", "no list of topologies"},
      {"---\n", "no list of topologies"},
      {"ultra", "no list of topologies"},
      {"topology: ultra\n", "no list of topologies"},
      {"BlockName=b1 Nodes=node[1-2]\n", "no list of topologies"},
      {"- topology: [\n", "yaml-cpp: error"},
      {"- topology: a\n\tblock: x\n", "yaml-cpp: error"},
      {"- topology: u\n  block: true\n", "no list of blocks"},
      {"- topology: u\n  block:\n    block_sizes: [2]\n", "no list of blocks"},
      {"- topology: u\n  block:\n    blocks: b1\n", "no list of blocks"},
      {"- topology: u\n  block:\n    blocks:\n      - b1\n", "a block has no name"},
      {"- topology: u\n  block:\n    blocks:\n      - nodes: n1\n", "a block has no name"},
      {"- topology: u\n  block:\n    blocks:\n      - block: b1\n        nodes: [n1, n2]\n", "no host list"},
      {"- topology: u\n  block:\n    blocks:\n      - block: b1\n        nodes: $(id)\n",
       "cannot be part of a node name"},
      {"- topology: u\n  block:\n    blocks:\n      - block: b1\n        nodes: n[1-999999999]\n",
       "more than 65536 nodes"},
      {"- topology: u\n  block:\n    blocks:\n      - {block: b1, nodes: 'n[1-60000]'}\n      - {block: b2, nodes: "
       "'m[1-60000]'}\n",
       "more than 5536 nodes"},
  };
  for (const auto& [text, why] : rows) {
    CAPTURE(text);
    const auto file = parse_topology_yaml(text, "");
    REQUIRE_FALSE(file);
    CHECK(file.error().code == base::ExitCode::source);
    CAPTURE(file.error().what);
    CHECK(file.error().what.find(why) != std::string::npos);
    CHECK(file.error().what.find('\n') == std::string::npos);
  }
}

TEST_CASE("aliases, depth and size are refused before anything large is made") {
  std::string bomb = "- &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "- &a" + std::to_string(i) + " [" + last;
    for (int k = 1; k < 10; ++k) bomb += ", " + last;
    bomb += "]\n";
  }
  CHECK(parse_topology_yaml(bomb, "").error().what.find("alias") != std::string::npos);
  CHECK(parse_topology_yaml("- topology: &t u\n  block: *t\n", "").error().what.find("alias") != std::string::npos);
  for (const char open : {'[', '{'}) {
    CHECK(parse_topology_yaml(std::string(100'000, open), "").error().code == base::ExitCode::source);
  }
  CHECK(parse_topology_yaml("- " + std::string(20, '[') + std::string(20, ']'), "").error().what.find("deep") !=
        std::string::npos);
  std::string many;
  for (int i = 0; i < 100'001; ++i) many += "- x\n";
  CHECK(parse_topology_yaml(many, "").error().what.find("too large") != std::string::npos);
  CHECK(parse_topology_yaml(std::string((4U << 20U) + 1, ' '), "").error().what.find("too large") != std::string::npos);
}

TEST_CASE("a text that yaml-cpp takes for documents without end is read once") {
  // Found by fuzzing: on a ',' at the start its parser gives an empty document, again and again.
  CHECK_FALSE(parse_topology_yaml(",)-\n- topology: u\n", ""));
}

TEST_CASE("the topology is the one that the partition names, else the default, else the only block one") {
  for (const std::string version : {"25.11", "26.05"}) {
    for (const std::string& text :
         {yaml(version), captured::whole_file(captured::folder(version) / "scontrol-show-topoconf.txt")}) {
      // 25.11's capture has client errors above the document
      const std::string document = text.substr(text.find(text.starts_with("---") ? "---" : "%YAML"));
      CAPTURE(version, document);
      for (const char* name : {"", "ultra"}) {
        const auto file = parse_topology_yaml(document, name);
        REQUIRE(file);
        REQUIRE(file->kind == Kind::block);
        CHECK(file->name == "ultra");
        CHECK(file->map.source == "topology.yaml (topology ultra)");
        REQUIRE(file->map.blocks.size() == 2);
        CHECK(file->map.blocks[0].name == "b1");
        CHECK(file->map.blocks[0].nodes == Names{"node1", "node2"});
        CHECK(file->map.blocks[1].nodes == Names{"node3", "node4"});
      }
      CHECK(parse_topology_yaml(document, "tree1")->kind == Kind::other);
      CHECK(parse_topology_yaml(document, "flat1")->kind == Kind::other);
      CHECK(parse_topology_yaml(document, "flat1")->name == "flat1");
      CHECK(parse_topology_yaml(document, "ULTRA")->kind == Kind::none);
      CHECK(parse_topology_yaml(document, "nosuch")->kind == Kind::none);
    }
  }
}

TEST_CASE("no choice possible is no answer") {
  const std::string block = "  block: {blocks: [{block: b1, nodes: n1}]}\n";
  const std::string flat = "  flat: true\n";
  const std::pair<std::string, Kind> rows[] = {
      {"- topology: a\n" + block, Kind::block},
      {"- topology: a\n" + flat, Kind::other},
      {"- topology: a\n" + flat + "- topology: b\n" + block, Kind::block},
      {"- topology: a\n" + block + "- topology: b\n" + block, Kind::none},
      {"- topology: a\n" + flat + "- topology: b\n" + flat, Kind::none},
      {"- topology: a\n  cluster_default: true\n" + flat + "- topology: b\n" + block, Kind::other},
      {"- topology: a\n  cluster_default: yes\n" + flat + "- topology: b\n  cluster_default: true\n" + block,
       Kind::none},
      {"- topology: a\n  cluster_default: maybe\n" + flat + "- topology: b\n" + block, Kind::block},
      {"- topology: a\n  block: {}\n  flat: true\n", Kind::other},
      {"- topology: a\n  block: {}\n  tree: {}\n", Kind::none},
      {"- topology: a\n  block: {}\n  flat: false\n", Kind::none},
      {"- topology: a\n", Kind::none},
      {"- a\n- b\n", Kind::none},
      {"[]", Kind::none},
  };
  for (const auto& [text, kind] : rows) {
    CAPTURE(text);
    const auto file = parse_topology_yaml(text, "");
    REQUIRE(file);
    CHECK(file->kind == kind);
  }
  CHECK(parse_topology_yaml("- topology: a\n" + block + "- topology: a\n" + block, "a")->kind == Kind::none);
}

TEST_CASE("hosts in topology.yaml may be written loosely, as Slurm takes them") {
  for (const char* nodes : {"'n1 , n2 n[3-4],'", "\"n1,,n2\\tn[3,4]\"", "' n[1-4]'"}) {
    const auto file =
        parse_topology_yaml(std::string("- topology: u\n  block: {blocks: [{block: b1, nodes: ") + nodes + "}]}\n", "");
    CAPTURE(nodes);
    REQUIRE(file);
    CHECK(file->map.blocks.at(0).nodes == Names{"n1", "n2", "n3", "n4"});
  }
  const auto empty =
      parse_topology_yaml("- topology: u\n  block: {blocks: [{block: b1}, {block: b2, nodes: ''}]}\n", "");
  REQUIRE(empty);
  CHECK(empty->map.blocks.at(1).nodes.empty());
}

TEST_CASE("a topology.yaml cut short at any byte never puts a node into a wrong block") {
  const std::string text =
      "---\n- topology: ultra\n  cluster_default: true\n  block:\n    block_sizes:\n      - 18\n    blocks:\n"
      "      - block: b1\n        nodes: ultra-[1-9,11],ultra-10\n      - block: b2\n        nodes: ultra-[12-18]\n";
  const auto job = *expand_hostlist("ultra-[9-13]", 18);
  std::size_t right = 0;
  for (std::size_t length = 0; length <= text.size(); ++length) {
    const auto file = parse_topology_yaml(std::string_view(text).substr(0, length), "");
    if (!file || file->kind != Kind::block) continue;
    const auto own = cut_to_block(file->map, job, "ultra-9");
    if (!own) continue;
    CAPTURE(length);
    CHECK(own->nodes == Names{"ultra-9", "ultra-10", "ultra-11"});
    ++right;
  }
  CHECK(right == 2);  // the whole text, and the whole but its last line feed
}

TEST_CASE("show topology: what are no block lines is an error") {
  const std::pair<std::string, const char*> rows[] = {
      {"", "empty"},
      {"\n", "empty"},
      {"BlockName=b1 BlockIndex=0 Nodes=node[1-2] BlockSize=2", "cut short"},
      {"SwitchName=s1 Level=0 LinkSpeed=1 Nodes=node[1-2]\n", "tree of switches"},
      {"SwitchName=top Level=1 LinkSpeed=1 Nodes=node[1-4] Switches=s[1-2]\n", "tree of switches"},
      {"AggregatedBlock=b[1-2] BlockIndex=2 Nodes=node[1-4] BlockSize=4\n", "no block"},
      {"BlockName= Nodes=node1\n", "no name"},
      {"BlockName=b1 Nodes=node[1-\n", "'['"},
      {"BlockName=b1 Nodes=\n", "empty"},
      {"BlockName=b1 Nodes=$(id)\n", "cannot be part"},
      {"BlockName=b1 Nodes=n1 Nodes=n2\n", "two lists"},
      {"BlockName=b1 Nodes=n[0-999999999]\n", "more than"},
      {"BlockName=b1 Nodes=n[1-60000]\nBlockName=b2 Nodes=m[1-60000]\n", "more than 5536 nodes"},
      {" BlockName=b1 Nodes=n1\nhello\n", "begins with 'hello'"},
      {"slurm_load_topo error: Unable to contact slurm controller (connect failure)\n", "begins with"},
      {"BlockName=b1 Nodes=n1\n\x1b[31mX\n", "\\x1b"},
  };
  for (const auto& [text, why] : rows) {
    CAPTURE(text);
    const auto map = parse_show_topology(text);
    REQUIRE_FALSE(map);
    CHECK(map.error().code == base::ExitCode::source);
    CAPTURE(map.error().what);
    CHECK(map.error().what.find(why) != std::string::npos);
  }
}

TEST_CASE("every captured show topology is read") {
  for (const std::string& version : captured::versions) {
    for (const std::string name : {"scontrol-show-topology.txt", "scontrol-show-topology--json.txt"}) {
      const auto map = parse_show_topology(captured::answer(version, name));
      CAPTURE(version, name);
      REQUIRE(map);
      REQUIRE(map->blocks.size() == 2);  // and the aggregated one is none
      CHECK(map->blocks[0].name == "b1");
      CHECK(map->blocks[0].nodes == Names{"node1", "node2"});
      CHECK(map->blocks[1].nodes == Names{"node3", "node4"});
    }
  }
  CHECK(parse_show_topology("BlockName=b1 BlockIndex=0 Nodes=ultra-[1-18]\r\nBlockName=empty BlockIndex=1\r\n")
            ->blocks.size() == 2);
}

TEST_CASE("a show topology cut short at any byte never puts a node into a wrong block") {
  const std::string text =
      "BlockName=b1 BlockIndex=0 Nodes=ultra-[1-9,11],ultra-10 BlockSize=18\n"
      "BlockName=b2 BlockIndex=1 Nodes=ultra-[12-18] BlockSize=18\n"
      "AggregatedBlock=b[1-2] BlockIndex=2 Nodes=ultra-[1-18] BlockSize=36\n";
  const auto job = *expand_hostlist("ultra-[9-13]", 18);
  std::size_t right = 0;
  for (std::size_t length = 0; length <= text.size(); ++length) {
    const auto map = parse_show_topology(std::string_view(text).substr(0, length));
    if (!map) continue;
    const auto own = cut_to_block(*map, job, "ultra-9");
    if (!own) continue;
    CAPTURE(length);
    CHECK(own->nodes == Names{"ultra-9", "ultra-10", "ultra-11"});
    ++right;
  }
  CHECK(right == 2);  // with and without the aggregated line
}

TEST_CASE("a map that lacks a node or has it twice is no map") {
  const BlockMap map = map_of({{"b1", {"n1", "n2"}}, {"b2", {"n3", "n4", "n4"}}, {"b3", {"n2", "n5"}}});
  struct Row {
    Names job;
    const char* own;
    const char* why;
  };
  const Row rows[] = {
      {{"n1", "n9"}, "n1", "node n9 is in none of its blocks"},
      {{"n1", "n3"}, "n9", "node n9 is in none of its blocks"},
      {{"n1", "n2"}, "n1", "node n2 is in it twice"},
      {{"n1", "n2"}, "n2", "node n2 is in it twice"},
      {{"n3", "n4"}, "n3", "node n4 is in it twice"},
      {{"N1"}, "n1", "node N1 is in none of its blocks"},
  };
  for (const Row& row : rows) {
    const auto own = cut_to_block(map, row.job, row.own);
    REQUIRE_FALSE(own);
    CHECK(own.error().code == base::ExitCode::source);
    CHECK(own.error().blame == base::Blame::shared);
    CHECK(own.error().what == std::string("a map cannot be used: ") + row.why);
  }
  // A node twice that is none of the job's does no harm.
  CHECK(cut_to_block(map, {"n1", "n3"}, "n1")->nodes == Names{"n1"});
  CHECK_FALSE(cut_to_block(map_of({}), {"n1"}, "n1"));
}

TEST_CASE("the block's list has the job's order, the same on each of its nodes") {
  const BlockMap map = map_of({{"b1", {"n1", "n2", "n3"}}, {"b2", {"n4", "n5"}}});
  const Names job{"n5", "n3", "n1", "n4"};
  for (const char* own : {"n1", "n3"}) {
    const auto block = cut_to_block(map, job, own);
    REQUIRE(block);
    CHECK(block->name == "b1");
    CHECK(block->nodes == Names{"n3", "n1"});
  }
  for (const char* own : {"n4", "n5"}) CHECK(cut_to_block(map, job, own)->nodes == Names{"n5", "n4"});
}

TEST_CASE("a job of ten thousand nodes is cut to its UltraServer") {
  std::string text = "- topology: ultra\n  block:\n    blocks:\n";
  for (int block = 0; block < 556; ++block) {
    text += "      - block: b" + std::to_string(block) + "\n        nodes: ultra-[" + std::to_string(block * 18 + 1) +
            "-" + std::to_string(block * 18 + 18) + "]\n";
  }
  const auto job = *expand_hostlist("ultra-[1-10000]", 65'536);
  const auto file = parse_topology_yaml(text, "");
  REQUIRE(file);
  const auto own = cut_to_block(file->map, job, "ultra-5000");
  REQUIRE(own);
  CHECK(own->name == "b277");
  CHECK(fold_hostlist(own->nodes) == "ultra-[4987-5004]");
}
