#include "slurm/block_source.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "fakes/fake_clock.h"
#include "fakes/fake_files.h"
#include "fakes/fake_processes.h"
#include "fakes/memory_log.h"
#include "slurm/hostlist.h"

using namespace slurm;
using namespace std::chrono_literals;
using Names = std::vector<std::string>;

namespace {

const std::string conf_path = "/run/slurm/conf/slurm.conf";
const std::string yaml_path = "/run/slurm/conf/topology.yaml";
const std::string two_blocks =
    "- topology: racks\n  cluster_default: true\n  block:\n    blocks:\n"
    "      - block: b1\n        nodes: ultra-[1-18]\n      - block: b2\n        nodes: ultra-[19-36]\n"
    "- topology: plain\n  flat: true\n";
const std::string shown_blocks =
    "BlockName=b1 BlockIndex=0 Nodes=ultra-[1-18] BlockSize=18\n"
    "BlockName=b2 BlockIndex=1 Nodes=ultra-[19-36] BlockSize=18\n"
    "AggregatedBlock=b[1-2] BlockIndex=2 Nodes=ultra-[1-36] BlockSize=36\n";

struct World {
  fakes::FakeFiles files;
  fakes::FakeClock clock;
  fakes::FakeProcesses processes{clock};
  fakes::MemoryLog log;
  base::Result<std::string> scontrol{std::string("/usr/bin/scontrol")};
  BlockQuestion question;

  World() {
    files.file(conf_path,
               "PartitionName=ultra Nodes=ALL\nPartitionName=flat Nodes=ALL Topology=plain\n"
               "PartitionName=other Nodes=ALL Topology=elsewhere\n");
    question.max_nodes = 18;
    question.own_node = "ultra-17";
    question.partition = "ultra";
    job("ultra-[17-20]");
  }
  World& job(const std::string& list) {
    question.job_nodes = *expand_hostlist(list, 65'536);
    return *this;
  }
  World& yaml(const std::string& text) {
    files.file(yaml_path, text);
    return *this;
  }
  World& shows(const std::string& text) {
    processes.answer("scontrol show topology", fakes::exited(0, text));
    return *this;
  }
  base::Result<BlockDecision> ask() {
    const auto conf = read_conf(files, conf_path);
    return own_block(files, processes, log, conf ? *conf : Conf(), scontrol, question, host::Deadline(clock, 60s));
  }
};

void check_refused(const base::Result<BlockDecision>& decision, const std::string& part) {
  REQUIRE_FALSE(decision);
  CHECK(decision.error().code == base::ExitCode::change);
  CHECK(decision.error().blame == base::Blame::shared);
  CAPTURE(decision.error().what);
  CHECK(decision.error().what.find(part) != std::string::npos);
  CHECK_FALSE(decision.error().cure.empty());
}

}  // namespace

TEST_CASE("a job too large for a domain without a block map is refused, on every node alike") {
  World world;
  world.job("ultra-[1-19]").shows("");
  check_refused(world.ask(), "the job has 19 nodes, an IMEX domain takes at most 18");
  CHECK(world.ask().error().cure.find("no " + yaml_path) != std::string::npos);
}

TEST_CASE("a block with more of the job's nodes than a domain takes is refused") {
  World world;
  world.yaml("- topology: r\n  block: {blocks: [{block: b1, nodes: 'ultra-[1-40]'}]}\n").job("ultra-[1-19]");
  check_refused(world.ask(), "block b1 (topology.yaml (topology r)) of the job has 19 nodes");
}

TEST_CASE("scope job is the whole job or nothing, and asks nobody") {
  World world;
  world.question.scope = Scope::job;
  world.yaml(two_blocks);
  const auto whole = world.ask();
  REQUIRE(whole);
  CHECK(whole->block.empty());
  CHECK(whole->nodes == world.question.job_nodes);
  world.job("ultra-[1-19]");
  check_refused(world.ask(), "the job has 19 nodes");
}

TEST_CASE("scope block without a block map is an error even where the job fits") {
  World world;
  world.question.scope = Scope::block;
  world.processes.answer("scontrol show topology", fakes::exited(1, "", "slurm_load_topo error: nobody there"));
  check_refused(world.ask(), "--scope=block needs a block map");
  CHECK(world.ask().error().what.find("nobody there") != std::string::npos);
  world.job("ultra-17");
  check_refused(world.ask(), "--scope=block needs a block map");
  world.question.partition = "flat";
  world.yaml(two_blocks);
  check_refused(world.ask(), "is no block topology");
}

TEST_CASE("a node that is not in its own job is this node's fault") {
  World world;
  world.question.own_node = "ultra-99";
  const auto decision = world.ask();
  REQUIRE_FALSE(decision);
  CHECK(decision.error().code == base::ExitCode::surroundings);
  CHECK(decision.error().blame == base::Blame::local);
}

TEST_CASE("with topology.yaml no scontrol is needed") {
  for (const Scope scope : {Scope::automatic, Scope::block}) {
    World world;
    world.question.scope = scope;
    world.yaml(two_blocks);
    const auto decision = world.ask();
    REQUIRE(decision);
    CHECK(decision->block == "b1");
    CHECK(decision->nodes == Names{"ultra-17", "ultra-18"});
    CHECK(describe(*decision, world.question) ==
          "block b1 (2 of 4 nodes of the job, from topology.yaml (topology racks))");
    world.question.own_node = "ultra-20";
    CHECK(world.ask()->nodes == Names{"ultra-19", "ultra-20"});
    CHECK(world.processes.calls.empty());
    CHECK(world.log.lines.empty());
  }
}

TEST_CASE("a job of one node needs no map at all") {
  World world;
  world.job("ultra-17");
  const auto decision = world.ask();
  REQUIRE(decision);
  CHECK(decision->nodes == Names{"ultra-17"});
  CHECK(world.processes.calls.empty());
}

TEST_CASE("without topology.yaml scontrol is asked once") {
  World world;
  world.shows(shown_blocks);
  const auto decision = world.ask();
  REQUIRE(decision);
  CHECK(decision->block == "b1");
  CHECK(decision->nodes == Names{"ultra-17", "ultra-18"});
  CHECK(decision->source == "scontrol show topology");
  CHECK(world.processes.calls == Names{"scontrol show topology"});
  CHECK(world.processes.limits.at(0) == 10s);
}

TEST_CASE("a partition that names its topology is asked about that one") {
  World world;
  world.question.partition = "other";
  world.processes.answer("scontrol show topology elsewhere", fakes::exited(0, shown_blocks));
  CHECK(world.ask()->block == "b1");
  world.yaml(two_blocks);  // which does not have it
  CHECK(world.ask()->block == "b1");
  CHECK(world.ask()->source == "scontrol show topology");
}

TEST_CASE("a topology name that could be an option or an assignment is not handed on") {
  World world;
  for (const char* name : {"--help", "-h", "unit=b1", "node=x"}) {
    world.files.file(conf_path, std::string("PartitionName=ultra Topology=") + name + "\n");
    world.shows(shown_blocks);
    CAPTURE(name);
    CHECK(world.ask());
    CHECK(world.processes.calls.back() == "scontrol show topology");
  }
}

TEST_CASE("where the partition's topology is no block topology, the whole job is the domain and nobody is asked") {
  World world;
  world.question.partition = "flat";
  world.yaml(two_blocks);
  const auto decision = world.ask();
  REQUIRE(decision);
  CHECK(decision->block.empty());
  CHECK(decision->nodes == world.question.job_nodes);
  CHECK(decision->source.find("the topology plain of partition flat is no block topology") != std::string::npos);
  CHECK(world.processes.calls.empty());
  world.job("ultra-[1-19]");
  check_refused(world.ask(), "the job has 19 nodes");
}

TEST_CASE("a topology.yaml that is stale, broken or unreadable is told and costs nothing where the whole job fits") {
  const std::string rows[] = {
      "- topology: [\n",
      "- topology: racks\n  block: {blocks: [{block: b1, nodes: 'ultra-[1-18]'}]}\n",                // lacks two
      "- topology: racks\n  block: {blocks: [{block: b1, nodes: 'ultra-[1-18],ultra-[17-20]'}]}\n",  // has two twice
      std::string(5U << 20U, '\n'),
  };
  for (const std::string& text : rows) {
    World world;
    world.yaml(text).shows("");
    CAPTURE(text.substr(0, 80));
    const auto decision = world.ask();
    REQUIRE(decision);
    CHECK(decision->block.empty());
    CHECK(decision->nodes == world.question.job_nodes);
    CHECK(world.log.has("WARN this block map is not used: "));
    // What the controller knows goes before the whole job.
    World known;
    known.yaml(text).shows(shown_blocks);
    CHECK(known.ask()->block == "b1");
  }
  World closed;
  closed.yaml(two_blocks).shows("");
  closed.files.fail_read(yaml_path, EACCES);
  CHECK(closed.ask()->block.empty());
  CHECK(closed.log.has("WARN this block map is not used: "));
}

TEST_CASE("a controller that does not answer costs nothing but its limit where the whole job fits") {
  const host::Exit rows[] = {
      fakes::timed_out(),
      fakes::exited(1, "", "slurm_load_topo error: Unable to contact slurm controller (connect failure)"),
      fakes::exited(0, ""),
      fakes::exited(0, "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=ultra-[1-36]\n"),
  };
  for (const host::Exit& exit : rows) {
    World world;
    world.processes.answer("scontrol show topology", exit);
    const auto decision = world.ask();
    REQUIRE(decision);
    CHECK(decision->nodes == world.question.job_nodes);
    CHECK(world.log.has("INFO no block map from scontrol show topology: "));
    CHECK(world.processes.calls.size() == 1);
  }
}

TEST_CASE("without scontrol the whole job is the domain where it fits") {
  World world;
  world.scontrol = base::Error{base::ExitCode::surroundings, "scontrol is nowhere", ""};
  CHECK(world.ask()->nodes == world.question.job_nodes);
  world.job("ultra-[1-19]");
  check_refused(world.ask(), "19 nodes");
  CHECK(world.ask().error().cure.find("scontrol is nowhere") != std::string::npos);
}

TEST_CASE("without any slurm.conf there is no topology.yaml to look for") {
  World world;
  world.files.tree.clear();
  world.shows("");
  CHECK(world.ask()->source.find("no slurm.conf") != std::string::npos);
}
