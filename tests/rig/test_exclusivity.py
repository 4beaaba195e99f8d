"""Which jobs get an IMEX domain: what real Slurm tells a Prolog for each kind of job on each kind of partition."""
import pytest

# (options, gets a domain). The same answer for every Slurm version, whatever words that version uses for it.
JOBS = [
    ("-p no", False),
    ("-p excl", True),
    ("-p yes", False),
    ("-p force", False),
    ("-p xuser", False),
    ("-p xtopo", True),
    ("-p no --exclusive", True),
    ("-p excl --exclusive", True),
    ("-p yes --exclusive", True),
    ("-p force --exclusive", True),
    ("-p xuser --exclusive", True),
    ("-p xtopo --exclusive", True),
    ("-p no --exclusive=user", False),
    ("-p no --exclusive=mcs", False),
    ("-p no --exclusive=topo", True),
    ("-p no --oversubscribe", False),
    ("-p yes --oversubscribe", False),
    ("-p excl --oversubscribe", True),
]


@pytest.mark.parametrize("options", [o for o, domain in JOBS if domain])
def test_an_exclusive_job_gets_the_list_of_its_nodes_and_one_restart(cluster, options):
    seen = cluster.look("-N2", *options.split())
    assert seen.rc == 0, seen.err
    assert len(seen.nodes) == 2
    for name in seen.nodes:
        node, expected = cluster[name], cluster.expected_list(name, seen.nodes)
        assert seen.lists[name] == expected
        assert node.starts() == [expected]
        verbs = [call[0] for call in node.calls()]
        assert "stop" in verbs[:verbs.index("start")]
    for name, node in cluster.nodes.items():
        if name not in seen.nodes:
            assert (node.calls(), node.node_list()) == ([], cluster.untouched)


@pytest.mark.parametrize("options", [o for o, domain in JOBS if not domain])
def test_a_job_that_may_share_its_nodes_changes_nothing_and_asks_nobody(cluster, options):
    requests = {name: node.imds.requests for name, node in cluster.nodes.items()}
    seen = cluster.look("-N2", *options.split())
    assert seen.rc == 0, seen.err
    cluster.wait_idle()
    for name, node in cluster.nodes.items():
        assert (node.calls(), node.starts(), node.node_list()) == ([], [], cluster.untouched)
        assert not node.path("/dev/nvidia-caps-imex-channels").exists()
        assert node.imds.requests == requests[name]
    for name in seen.nodes:
        assert seen.lists[name] == cluster.untouched
        assert "not exclusive" in cluster[name].log()


@pytest.mark.parametrize("nodes", [1, 3, 6])
def test_every_node_of_a_block_gets_the_same_list_byte_for_byte(cluster, nodes):
    seen = cluster.look(f"-N{nodes}", "--exclusive")
    assert seen.rc == 0, seen.err
    assert len(seen.nodes) == nodes
    for name in seen.nodes:
        assert seen.lists[name] == cluster.expected_list(name, seen.nodes)
    # Six nodes are two blocks: NVLink ends at the block, so the two lists have no address in common.
    lists = set(seen.lists.values())
    assert len(lists) == (2 if nodes == 6 else len({"123".find(n[-1]) >= 0 for n in seen.nodes}))
    if len(lists) == 2:
        first, second = (set(text.split()) for text in lists)
        assert not first & second


def test_the_channel_of_an_exclusive_job_can_be_opened_by_every_user(cluster):
    seen = cluster.look("-N1", "--exclusive")
    assert seen.rc == 0, seen.err
    node = cluster[seen.nodes[0]]
    said = node.run("stat", "-c", "%F %t:%T %a %U", "/dev/nvidia-caps-imex-channels/channel0")
    assert said.out == "character special file ea:0 666 root\n"  # 234:0
    assert node.run("stat", "-c", "%F %a", "/dev/nvidia-caps-imex-channels").out == "directory 755\n"


@pytest.mark.parametrize("instance_type", ["p5en.48xlarge", "c7i.large"])
def test_an_exclusive_job_on_another_instance_type_changes_nothing(cluster, instance_type):
    for node in cluster.nodes.values():
        node.imds.instance_type = instance_type
    try:
        seen = cluster.look("-N2", "--exclusive")
    finally:
        for node in cluster.nodes.values():
            node.imds.instance_type = cluster.instance_type
    assert seen.rc == 0, seen.err
    for name in seen.nodes:
        node = cluster[name]
        assert (node.calls(), node.starts(), node.node_list()) == ([], [], cluster.untouched)
        assert instance_type in node.log()
    assert cluster.drained() == {}


@pytest.mark.parametrize("word", ["disabled", "masked", "not-found"])
def test_a_node_without_the_service_enabled_runs_the_job_as_it_is(cluster, word):
    for node in cluster.nodes.values():
        node.knob("is-enabled", word)
    seen = cluster.look("-N2", "--exclusive")
    assert seen.rc == 0, seen.err
    for name in seen.nodes:
        assert cluster[name].starts() == []
        assert seen.lists[name] == cluster.untouched
        assert "[WARN]" in cluster[name].log()
    assert cluster.drained() == {}


def test_a_link_with_the_published_scripts_name_serves_as_prolog(clusters):
    cluster = clusters.get(conf="Prolog=/rig/bin/91_nvidia_imex_prolog.sh")
    seen = cluster.look("-N2", "--exclusive")
    assert seen.rc == 0, seen.err
    for name in seen.nodes:
        assert seen.lists[name] == cluster.expected_list(name, seen.nodes)
        assert f"PROLOG Start JobId={seen.job}: /rig/bin/91_nvidia_imex_prolog.sh" in cluster[name].log()
