"""What is none of our business ends with 0, changes nothing, prints nothing and logs why."""

import socket

import pytest

from expect import assert_done, assert_skipped, assert_untouched, assert_log_frame
from node import OLD_LIST


@pytest.mark.aarch64
@pytest.mark.parametrize("value", ["OK", "YES", "USER", "MCS", None, "", "no", "NO,TOPO", "EXCLUSIVE"])
def test_a_job_that_is_not_exclusive_is_skipped(node, value):
    node.start_unit()
    run = node.prolog(env={"SLURM_JOB_OVERSUBSCRIBE": value})
    assert_skipped(node, run, "exclusive")
    assert_log_frame(node)
    assert node.calls() == [] and node.imds.requests == []
    assert node.unit_state()["ActiveState"] == "active"


@pytest.mark.parametrize("exclusive", ["NO", "USER", "MCS", "SOMETHING"])
def test_from_26_05_on_the_new_variable_decides_alone_against(make_node, exclusive):
    node = make_node(slurm_version="26.05")
    run = node.prolog(env={"SLURM_JOB_OVERSUBSCRIBE": "NO", "SLURM_JOB_EXCLUSIVE": exclusive})
    assert_skipped(node, run, "exclusive")
    assert node.calls() == []


@pytest.mark.parametrize("exclusive,oversubscribe", [("NODE", "NO"), ("TOPO", "NO"), ("NODE", "OK"), ("NODE", None), ("NODE", "YES")])
def test_from_26_05_on_the_new_variable_decides_alone_for(make_node, exclusive, oversubscribe):
    node = make_node(slurm_version="26.05")
    assert_done(node, node.prolog(env={"SLURM_JOB_OVERSUBSCRIBE": oversubscribe, "SLURM_JOB_EXCLUSIVE": exclusive}))


@pytest.mark.parametrize("value", ["NO", "TOPO"])
def test_before_26_05_no_and_topo_mean_exclusive(node, value):
    assert_done(node, node.prolog(env={"SLURM_JOB_OVERSUBSCRIBE": value}))


TREE = ("---\n- topology: t1\n  cluster_default: true\n  tree:\n    switches:\n      - switch: s1\n        nodes: ultra-[1-2]\n"
        "- topology: blocky\n  cluster_default: false\n  block:\n    block_sizes:\n      - 2\n    blocks:\n      - block: b1\n        nodes: ultra-[1-2]\n")


@pytest.mark.parametrize("version,variable", [("25.11", "SLURM_JOB_OVERSUBSCRIBE"), ("26.05", "SLURM_JOB_EXCLUSIVE")])
def test_topo_is_no_yes_where_the_topology_of_the_partition_is_not_block(make_node, version, variable):
    node = make_node(slurm_version=version)
    node.write("/etc/slurm/topology.yaml", TREE)
    assert_skipped(node, node.prolog(env={variable: "TOPO"}), "topo")


def test_topo_counts_where_the_partition_names_a_block_topology(node):
    node.write("/etc/slurm/topology.yaml", TREE)
    conf = node.read("/etc/slurm/slurm.conf").replace("PartitionName=ultra ", "PartitionName=ultra Topology=blocky ")
    node.write("/etc/slurm/slurm.conf", conf)
    assert_done(node, node.prolog(env={"SLURM_JOB_OVERSUBSCRIBE": "TOPO"}))


@pytest.mark.parametrize("scope", ["slurmstepd.scope", "ultra-1_slurmstepd.scope"])
def test_a_live_process_of_another_job_on_the_node_stops_us_whatever_slurm_says(node, scope):
    pid, _ = node.job_process(99, scope=scope)
    node.start_unit()
    run = node.prolog()
    assert_skipped(node, run, "99", str(pid), level="ERROR")
    assert node.imds.requests == [] or node.calls() == []
    assert 2 < run.seconds < 12


def test_a_live_process_of_another_job_is_found_in_a_version_one_hierarchy(node):
    node.remove("/sys/fs/cgroup/system.slice")
    pid, _ = node.job_process(98, hierarchy="v1")
    assert_skipped(node, node.prolog(), "98", str(pid), level="ERROR")


def test_a_step_socket_of_another_job_counts_where_there_is_no_cgroup_tree(node):
    node.remove("/sys/fs/cgroup/system.slice")
    step = socket.socket(socket.AF_UNIX)
    step.bind(node.path("/var/spool/slurmd/ultra-1_97.0"))
    step.listen()
    try:
        assert_skipped(node, node.prolog(), "97", level="ERROR")
    finally:
        step.close()


def test_another_job_that_ends_while_we_look_is_no_reason_to_skip(node):
    pid, procs = node.job_process(99)
    run = node.start()
    node.wait_for(lambda: node.log_text(), 5, "the first log line")
    node.kill(pid, 9)
    node.write(procs, "")
    node.remove("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_99")
    assert_done(node, run.wait())


def test_an_empty_cgroup_of_another_job_is_no_live_process(node):
    node.write("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_99/step_0/user/task_0/cgroup.procs", "")
    assert_done(node, node.prolog())


def test_processes_of_our_own_job_are_no_other_job(node):
    node.job_process(4711, step="step_extern/user/task_0")
    assert_done(node, node.prolog())


@pytest.mark.parametrize("state", ["disabled", "linked", "linked-runtime", "masked", "masked-runtime"])
def test_a_unit_that_is_not_enabled_is_skipped_with_a_warning(node, state):
    node.unit(file=state)
    run = node.prolog()
    assert_skipped(node, run, "nvidia-imex", state, level="WARN")


@pytest.mark.aarch64
@pytest.mark.parametrize("version", [252, 257])
def test_a_unit_that_does_not_exist_is_skipped_with_a_warning(node, version):
    node.unit(file="not-found", version=version)
    assert_skipped(node, node.prolog(), "nvidia-imex", level="WARN")


@pytest.mark.parametrize("state", ["enabled", "enabled-runtime", "static", "indirect", "alias", "generated"])
def test_a_unit_that_can_run_goes(node, state):
    node.unit(file=state)
    assert_done(node, node.prolog())


def test_the_word_counts_and_not_the_exit_code(node):
    node.script("systemctl", "is-enabled", "say 1 enabled")
    assert_done(node, node.prolog())
    node.script("systemctl", "is-enabled", "say 0 disabled")
    run = node.prolog()
    assert run.code == 0 and len(node.starts()) == 1


def test_is_enabled_that_says_nothing_once_is_asked_again(node):
    node.script("systemctl", "is-enabled", "exit 1", "ok")
    assert_done(node, node.prolog())


def test_a_skip_leaves_an_unexpected_list_alone(make_node):
    node = make_node(instance_type="p5.48xlarge", dmi="p5.48xlarge")
    run = node.prolog()
    assert_skipped(node, run, "p5.48xlarge")
    assert_untouched(node, OLD_LIST)
    assert node.calls() == []


@pytest.mark.parametrize("kind", ["p6e-gb200.36xlarge", "p6e-gb300.36xlarge", "p6e-gb300r.36xlarge", "p6e-gb200.metal"])
def test_instance_types_are_matched_by_prefix(make_node, kind):
    node = make_node(instance_type=kind, dmi=kind)
    assert_done(node, node.prolog())


@pytest.mark.parametrize("kind", ["p6-b200.48xlarge", "xp6e-gb200.36xlarge", "p6e-gb20.36xlarge", "g6e.xlarge"])
def test_other_instance_types_are_skipped(make_node, kind):
    node = make_node(instance_type=kind, dmi=kind)
    assert_skipped(node, node.prolog(), kind)
