"""A job over several UltraServers: every node's list is the job's nodes in its own block."""

import pytest

from expect import assert_done, assert_failed, assert_told_but_passed

FOUR = ["ultra-1", "ultra-2", "ultra-3", "ultra-4"]
MANY = [f"ultra-{i}" for i in range(1, 37)]


def yaml(*blocks, name="ultra", default="true", more=""):
    lines = ["---", f"- topology: {name}", f"  cluster_default: {default}", "  block:", "    block_sizes:", "      - 2", "      - 4", "    blocks:"]
    for block, nodes in blocks:
        lines += [f"      - block: {block}", f"        nodes: {nodes}"]
    return "\n".join(lines) + "\n" + more


TEXT = ("BlockName=b1 BlockIndex=0 Nodes=ultra-[1-2] BlockSize=2\nBlockName=b2 BlockIndex=1 Nodes=ultra-[3-4] BlockSize=2\n"
        "AggregatedBlock=b[1-2] BlockIndex=2 Nodes=ultra-[1-4] BlockSize=4\n")


def in_block(node, names):
    return [node.addresses[node.names.index(name)] for name in names]


@pytest.mark.aarch64
@pytest.mark.parametrize("index,block,names", [(0, "b1", FOUR[:2]), (2, "b2", FOUR[2:])])
def test_the_list_is_cut_to_the_own_block_by_topology_yaml_without_asking_the_controller(make_node, index, block, names):
    node = make_node(names=FOUR, index=index)
    node.write("/etc/slurm/topology.yaml", yaml(("b1", "ultra-[1-2]"), ("b2", "ultra-[3-4]")))
    assert_done(node, node.prolog(), addresses=in_block(node, names))
    assert len(node.calls("scontrol")) == 1
    assert not any("topology" in call["argv"] for call in node.calls("scontrol"))
    asked = " ".join(node.calls("scontrol")[0]["argv"])
    assert FOUR[(index + 2) % 4] not in asked and "[1-4]" not in asked, "asked for more than the own block"
    text = "\n".join(node.log_text())
    assert block in text and "topology.yaml" in text


@pytest.mark.parametrize("index,names", [(1, FOUR[:2]), (3, FOUR[2:])])
def test_the_list_is_cut_by_scontrol_where_there_is_no_topology_yaml(make_node, index, names):
    node = make_node(names=FOUR, index=index, topology=False)
    node.write("/fake/scontrol/topology", TEXT)
    assert_done(node, node.prolog("--scope=block"), addresses=in_block(node, names))


def test_thirty_six_nodes_of_two_ultraservers_are_cut_by_scontrol(make_node):
    node = make_node(names=MANY, index=20)
    node.write("/fake/scontrol/topology", "BlockName=b1 BlockIndex=0 Nodes=ultra-[1-18] BlockSize=18\n"
               "BlockName=b2 BlockIndex=1 Nodes=ultra-[19-36] BlockSize=18\nAggregatedBlock=b[1-2] BlockIndex=2 Nodes=ultra-[1-36] BlockSize=36\n")
    assert_done(node, node.prolog(), addresses=in_block(node, MANY[18:]))
    assert "b2" in "\n".join(node.log_text())


def test_scope_job_takes_the_whole_job(make_node):
    node = make_node(names=FOUR, index=0)
    node.write("/etc/slurm/topology.yaml", yaml(("b1", "ultra-[1-2]"), ("b2", "ultra-[3-4]")))
    assert_done(node, node.prolog("--scope=job"))


def test_without_a_map_the_whole_job_is_taken_where_it_fits(make_node):
    node = make_node(names=FOUR, index=2, topology=False)
    assert_done(node, node.prolog())


@pytest.mark.parametrize("blocks", [
    [("b1", "ultra-[1-18]")],  # lacks nodes of the job
    [("b1", "ultra-[1-18]"), ("b2", "ultra-[18-36]")],  # has one twice
    [("b1", "ultra-[2-18]"), ("b2", "ultra-[19-36]")],  # lacks this node
], ids=["lacks job nodes", "one twice", "lacks this node"])
@pytest.mark.parametrize("index", [0, 1])
def test_a_stale_block_map_is_no_map(make_node, blocks, index):
    node = make_node(names=MANY, index=index)
    node.write("/etc/slurm/topology.yaml", yaml(*blocks))
    run = node.prolog()
    if index == 0:
        assert_failed(node, run, (3, 4, 5))
    else:
        assert_told_but_passed(node, run)


def test_a_broken_topology_yaml_falls_back_to_scontrol(make_node):
    node = make_node(names=MANY, index=20)
    node.write("/etc/slurm/topology.yaml", "- topology: [\n\t{")
    node.write("/fake/scontrol/topology", "BlockName=b1 BlockIndex=0 Nodes=ultra-[1-18] BlockSize=18\n"
               "BlockName=b2 BlockIndex=1 Nodes=ultra-[19-36] BlockSize=18\n")
    assert_done(node, node.prolog(), addresses=in_block(node, MANY[18:]))


def test_the_topology_that_the_partition_names_comes_before_the_default(make_node):
    node = make_node(names=FOUR, index=0)
    second = yaml(("c1", "ultra-1,ultra-3"), ("c2", "ultra-2,ultra-4"), name="second", default="false").removeprefix("---\n")
    node.write("/etc/slurm/topology.yaml", yaml(("b1", "ultra-[1-2]"), ("b2", "ultra-[3-4]"), more=second))
    conf = node.read("/etc/slurm/slurm.conf").replace("PartitionName=ultra ", "PartitionName=ultra Topology=second ")
    node.write("/etc/slurm/slurm.conf", conf)
    assert_done(node, node.prolog(), addresses=in_block(node, ["ultra-1", "ultra-3"]))


def test_the_first_node_of_each_block_fails_and_only_that(make_node):
    """Blame is by block: the fault is in the second block, so its first node fails and the first block goes on."""
    addresses = ["10.20.0.1", "10.20.0.2", "10.20.0.3", "10.20.0.3"]
    for index, code in ((0, 0), (2, 5)):
        node = make_node(names=FOUR, index=index, addresses=addresses)
        node.write("/etc/slurm/topology.yaml", yaml(("b1", "ultra-[1-2]"), ("b2", "ultra-[3-4]")))
        run = node.prolog()
        assert (run.code == 0) == (code == 0), run
        if code == 0:
            assert node.list() == b"10.20.0.1\n10.20.0.2\n"


def test_a_component_of_a_het_job_gets_its_own_domain_and_a_warning(node):
    run = node.prolog(env={"SLURM_HET_JOB_ID": "4710"})
    assert_done(node, run)
    assert any("het" in text.lower() for _, _, text in node.log("WARN"))
