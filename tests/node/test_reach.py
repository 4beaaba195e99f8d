"""How little a run costs: memory, size, child processes and network."""

import os
import re

import pytest

from expect import assert_done, assert_skipped

CREATES = re.compile(r"\b(fork|vfork|clone|clone3)\(.*= [1-9]")
NETWORK = re.compile(r"\b(socket|connect|sendto|sendmsg)\(.*(AF_INET|AF_INET6|AF_NETLINK)")


def children(lines):
    """Processes, not threads."""
    return [line for line in lines if CREATES.search(line) and "CLONE_THREAD" not in line]


def executed(lines):
    return [line for line in lines if re.search(r"\bexecve\(.*= 0", line)]


def test_the_program_is_small_and_static(product):
    assert os.stat(product.path).st_size <= 3_500_000
    with open(product.path, "rb") as file:
        data = file.read()
    assert data[:4] == b"\x7fELF" and b"/lib64/ld-linux" not in data
    assert b".symtab" not in data, "not stripped"


def test_a_job_that_is_not_exclusive_costs_no_child_and_no_network(node):
    run, lines = node.strace("trace=%process,%network", env={"SLURM_JOB_OVERSUBSCRIBE": "OK"})
    assert_skipped(node, run, "exclusive")
    assert children(lines) == [] and len(executed(lines)) == 1, lines
    assert [line for line in lines if NETWORK.search(line)] == []
    assert node.calls() == [] and node.imds.connections == 0
    assert run.usage["maxrss_kb"] <= 8192


def test_a_skip_by_type_costs_no_child(make_node):
    node = make_node(instance_type="p5.48xlarge", dmi="p5.48xlarge")
    run, lines = node.strace("trace=%process", )
    assert_skipped(node, run, "p5.48xlarge")
    assert children(lines) == [] and len(executed(lines)) == 1, lines
    assert node.calls() == []


def test_a_full_run_starts_only_one_scontrol_systemctl_and_the_control_tool(make_node):
    node = make_node(config=None)
    node.start_unit()
    run, lines = node.strace("trace=execve")
    assert run.code == 0, run
    tools = [re.search(r'execve\("([^"]+)"', line)[1] for line in executed(lines)]
    assert tools[0] == node.program
    assert set(tools[1:]) == {"/opt/slurm/bin/scontrol", "/usr/bin/systemctl", "/usr/bin/nvidia-imex-ctl"}, tools
    assert tools.count("/opt/slurm/bin/scontrol") == 1
    assert tools.count("/usr/bin/systemctl") <= 8, tools  # is-enabled, state, stop, state, reset-failed, start, state; each costs about 0.2 s on a real node


@pytest.mark.parametrize("count", [2, 18])
def test_peak_memory_of_a_full_run_stays_below_8_mb(make_node, count):
    node = make_node(names=[f"ultra-{i}" for i in range(1, count + 1)], config=None)
    run = node.prolog()
    assert_done(node, run)
    assert run.usage["maxrss_kb"] <= 8192, run.usage


@pytest.mark.parametrize("parts", [["gate"], ["full"]])
def test_no_name_service_and_no_file_of_the_user_is_consulted(node, parts):
    environment = {"SLURM_JOB_OVERSUBSCRIBE": "OK"} if parts == ["gate"] else {}
    run, lines = node.strace("trace=open,openat,execve,connect", env=environment)
    assert run.code == 0, run
    own = [line for line in lines if not re.search(r"= -1 ENOENT", line)]
    text = "\n".join(own)
    for path in ("libnss", "/etc/resolv.conf", "/etc/hosts", "/etc/passwd", "nscd", ".curlrc", ".netrc"):
        mine = [line for line in own if path in line]
        assert mine == [], mine
    assert "gpu-prolog" in text


def test_the_program_makes_no_thread_and_leaves_no_descriptor_to_children(node):
    run, lines = node.strace("trace=clone,clone3,fork,vfork")
    assert run.code == 0, run
    assert [line for line in lines if "CLONE_THREAD" in line] == []
