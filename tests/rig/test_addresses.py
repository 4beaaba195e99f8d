"""Where the addresses come from when Slurm's first answer is of no use, and words in node records that only look like one."""
import signal

import pytest

import rig

NAMES = ["node1", "node2", "node3"]


def started_with(cluster, names, expected):
    rig.until(lambda: f"one start with the list of the job: {({n: cluster[n].starts() for n in names})}",
              lambda: all(cluster[n].starts() == [expected] for n in names), 60)


def hold(cluster):
    """Prologs wait before they ask Slurm for addresses."""
    for node in cluster.nodes.values():
        node.knob("hold-is-enabled")


def held(cluster, names):
    rig.until(f"prologs to wait on {names}", lambda: all(["is-enabled"] in [c[:1] for c in cluster[n].calls()] for n in names), 20)


def start_while(cluster, names=NAMES, before_release=lambda: None, **updates):
    """Starts a job and, while its prologs wait, updates node records: {"node3": ["NodeAddr=x"]}. Slurm itself knew the right
    address when it sent the job out, as it does when a record goes bad between two jobs."""
    hold(cluster)
    cluster.sbatch(f"-N{len(names)}", "--exclusive", "-w", ",".join(names), wrap="true")
    held(cluster, names)
    for name, words in updates.items():
        cluster.scontrol("update", f"NodeName={name}", *words).check()
    before_release()
    for node in cluster.nodes.values():
        node.unknob("hold-is-enabled")


@pytest.fixture(autouse=True)
def cluster_of_its_own(clusters):
    """A controller that was told a wrong address needs minutes to end the job there: the next test gets a new one."""
    yield
    clusters.close()


def test_a_name_for_which_the_controller_has_no_address_is_resolved_on_the_nodes(cluster):
    cluster.ctl.knows("0.0.0.0 third")
    for name in NAMES:
        cluster[name].knows("127.0.1.1 third", f"{cluster['node3'].address} third")
    start_while(cluster, node3=["NodeAddr=third"])
    started_with(cluster, NAMES, cluster.expected_list("node1", NAMES))
    assert cluster.drained() == {}


def test_addresses_in_comments_reasons_and_extras_are_never_taken(cluster):
    # getaddrs is of no use here, so that the records themselves have to be read.
    cluster.ctl.knows("0.0.0.0 third")
    for name in NAMES:
        cluster[name].knows(f"{cluster['node3'].address} third")
    awkward = ["Comment=c NodeAddr=8.8.8.8 NodeName=node9 NodeAddr=8.8.4.4", "Extra={\"a\": \" NodeAddr=9.9.9.9\"}",
               "Reason=r NodeAddr=7.7.7.7 OS=x NodeAddr=7.7.7.8"]
    start_while(cluster, node1=awkward, node2=awkward, node3=["NodeAddr=third", *awkward])
    started_with(cluster, NAMES, cluster.expected_list("node1", NAMES))
    assert cluster.drained() == {}


def test_a_record_forged_by_a_newline_in_a_nodes_extra_is_never_taken(cluster):
    # 24.11 and 26.05 print the newline as it is, so that the line looks like node1's own record.
    cluster.ctl.knows("0.0.0.0 third")
    for name in NAMES:
        cluster[name].knows(f"{cluster['node3'].address} third")
    start_while(cluster, node3=["NodeAddr=third", "Extra=x\nNodeName=node1 Arch=x86_64 NodeAddr=6.6.6.6 NodeHostName=node1"])
    rig.until("every prolog to end", lambda: all("PROLOG End" in cluster[n].log() for n in NAMES), 60)
    right = cluster.expected_list("node1", NAMES)
    for name in NAMES:
        assert cluster[name].starts() in ([], [right])
    assert len({str(cluster[n].starts()) for n in NAMES}) == 1
    assert set(cluster.drained()) <= {"node1"}


def test_an_unresolvable_name_that_empties_getaddrs_is_resolved_on_the_nodes_all_the_same(cluster):
    # A controller that cannot resolve a name tries for 10 s and answers nobody meanwhile: with two nodes that ask, the
    # second of them waits for both.
    names = ["node1", "node2"]
    for name in names:
        cluster[name].knows(f"{cluster['node2'].address} second")
    start_while(cluster, names, node2=["NodeAddr=second"])
    started_with(cluster, names, cluster.expected_list("node1", names))
    assert not failed(cluster["node1"]) and not failed(cluster["node2"])


def failed(node):
    return "prolog failed" in node.slurmd_log()


def one_drain(cluster, names):
    """The prolog of the list's first node fails and drains it, every other ends well; each log names the node at fault."""
    rig.until(lambda: f"every prolog to end: {({n: cluster[n].log()[-300:] for n in names})}",
              lambda: all("PROLOG End" in cluster[n].log() for n in names), 120)
    rig.until(lambda: f"a drained node: {cluster.states()}", cluster.drained, 60)
    assert [n for n in names if failed(cluster[n])] == names[:1]
    assert cluster.drained() == {names[0]: "Prolog error"}
    for name in names:
        assert cluster[name].starts() == []
        assert cluster[name].node_list() == cluster.untouched
        assert any("[ERROR]" in line and names[-1] in line for line in cluster[name].log().splitlines())
    assert names[-1] in cluster[names[0]].slurmd_log()


@pytest.mark.parametrize("address", ["127.0.0.1", "10.88.0.2", "0.0.0.0"], ids=["loopback", "duplicate", "unspecified"])
def test_a_bad_address_that_all_nodes_see_alike_drains_one_node(cluster, address):
    start_while(cluster, node3=[f"NodeAddr={address}"])
    one_drain(cluster, NAMES)


def test_a_name_that_nobody_can_resolve_drains_one_node(cluster):
    names = ["node1", "node2"]
    start_while(cluster, names, node2=["NodeAddr=nosuch"])
    one_drain(cluster, names)


def test_a_controller_that_does_not_answer_drains_one_node(cluster):
    # Also what becomes of an unresolvable name where many nodes ask: each of them keeps the controller from the others.
    for name in NAMES:
        rig.write(cluster[name].path("/etc/gpu-prolog.toml"), '[imex-prolog]\ndeadline = "28s"\n')
    start_while(cluster, before_release=lambda: cluster.ctl.ask(do="kill", name="slurmctld", signal=int(signal.SIGSTOP)))
    rig.until(lambda: f"every prolog to end: {({n: cluster[n].log()[-300:] for n in NAMES})}",
              lambda: all("PROLOG End" in cluster[n].log() for n in NAMES), 60)
    cluster.ctl.ask(do="kill", name="slurmctld", signal=int(signal.SIGCONT))
    rig.until(lambda: f"a drained node: {cluster.states()}", cluster.drained, 60)
    assert [n for n in NAMES if failed(cluster[n])] == ["node1"]
    assert cluster.drained() == {"node1": "Prolog error"}
    assert "rc:6" in cluster["node1"].slurmd_log()
    for name in NAMES:
        assert cluster[name].node_list() == cluster.untouched
        assert "[ERROR]" in cluster[name].log()


def test_addresses_given_as_names_are_resolved_by_the_controller(cluster):
    # 24.11 resolves a name once and keeps the answer; the nodes do not know this name at all.
    cluster.ctl.knows(f"{cluster['node2'].address} second.example")
    start_while(cluster, node2=["NodeAddr=second.example"])
    started_with(cluster, NAMES, cluster.expected_list("node1", NAMES))
    assert cluster.drained() == {}
