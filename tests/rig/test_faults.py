"""A prolog that fails or is killed under a real slurmd: what drains, what is left behind, what is told."""
import re

import pytest

import rig

JOB = ("-N3", "--exclusive", "-w", "node[1-3]")
NAMES = ["node1", "node2", "node3"]


def failures(node):
    """What slurmd logged of failed prologs: (how it ended, output), the output up to the next stamped line."""
    return re.findall(r"prolog failed: (rc:\d+|[^\n]*?signal[^\n]*?) output:(.*?)(?=\n\[\d{4}-|\Z)", node.slurmd_log(), re.S)


def settled(cluster):
    """Every node is idle or drained, none is still starting or ending a job."""
    rig.until(lambda: f"every node at rest: {cluster.states()}",
              lambda: all(s in ("idle", "drained") for s, _ in cluster.states().values()), 40)


def whole(cluster, node, nodes):
    """A node list is the old one, the job's, or one with no address in it; never a part."""
    text = node.node_list()
    return text in (cluster.untouched, cluster.expected_list(node.name, nodes)) or (
        text.endswith("\n") and all(line.startswith("#") for line in text.splitlines()))


def works_again(cluster, job):
    """Back in service, the same job runs as if nothing had been."""
    cluster.resume()
    cluster.again(job)
    cluster.wait_idle()
    assert cluster.drained() == {}


def test_a_service_that_does_not_start_drains_its_node_alone_and_says_why_in_one_line(cluster):
    cluster["node2"].knob("fail-start")
    job = cluster.sbatch(*JOB, wrap="true")
    rig.until(lambda: f"a drained node: {cluster.states()}", cluster.drained, 40)
    settled(cluster)
    assert cluster.drained() == {"node2": "Prolog error"}
    assert cluster.job(job)["JobState"] == "PENDING"
    told = failures(cluster["node2"])
    assert len(told) == 1
    how, output = told[0]
    assert how == "rc:5"
    assert output.strip() and len(output.strip().splitlines()) == 1
    assert "nvidia-imex" in output
    assert failures(cluster["node1"]) == failures(cluster["node3"]) == []
    for name in NAMES:
        assert whole(cluster, cluster[name], NAMES)
    cluster["node2"].unknob("fail-start")
    works_again(cluster, job)
    assert cluster["node2"].starts()[-1] == cluster.expected_list("node2", NAMES)


# What the prolog waits for when it is killed: its own limits end it long before slurmd's do, so they are put above slurmd's.
@pytest.mark.parametrize("knob", ["hold-is-enabled", "hold-stop", "hold-start", "hang-start", "hold-imex-ctl"])
def test_a_prolog_that_slurmd_kills_leaves_whole_files_and_the_next_run_repairs(cluster, knob):
    node = cluster["node2"]
    expected = cluster.expected_list("node2", ["node2"])
    cluster.restart_slurmd(node, "PrologEpilogTimeout=3")
    try:
        rig.write(node.path("/etc/gpu-prolog.toml"), '[imex-prolog]\ndeadline = "60s"\nready-timeout = "60s"\n')
        node.knob(knob)
        job = cluster.sbatch("-N1", "--exclusive", "-w", "node2", wrap="true")
        rig.until(lambda: f"a drained node: {cluster.states()}", cluster.drained, 40)
        # The epilog that follows must not wait for ever behind what killed the prolog.
        node.unknob_all()
        settled(cluster)
        assert cluster.drained() == {"node2": "Prolog error"}
        assert whole(cluster, node, ["node2"])
        # Killed at once: nothing of it goes on behind slurmd's back.
        assert "gpu-prolog" not in node.processes()
        node.path("/etc/gpu-prolog.toml").unlink()
        cluster.restart_slurmd(node)
        works_again(cluster, job)
        assert node.starts()[-1] == expected
        assert sorted(p.name for p in node.path("/etc/nvidia-imex").iterdir()) == ["config.cfg", "nodes_config.cfg"]
    finally:
        node.unknob_all()
        node.path("/etc/gpu-prolog.toml").unlink(missing_ok=True)
        cluster.restart_slurmd(node)


def test_a_continuing_policy_keeps_a_node_in_service_whose_service_does_not_start(cluster):
    node = cluster["node2"]
    rig.write(node.path("/etc/gpu-prolog.toml"), '[imex-prolog]\non-failure = "continue"\n')
    try:
        node.knob("fail-start")
        seen = cluster.look(*JOB)
    finally:
        node.path("/etc/gpu-prolog.toml").unlink()
    assert seen.rc == 0, seen.err
    assert cluster.drained() == {}
    assert "[ERROR]" in node.log()
    assert failures(node) == []
