"""The lab itself, with the simplest prolog that can be right: are its nodes apart, and does it tell the truth?"""

import json
import os
import pathlib
import time

import pytest

import lab as lab_module
from lab import Lab, Subject, Traces, connected, hostlist, matrix

HERE = pathlib.Path(__file__).resolve().parent
STANDIN = Subject("stand-in", "/usr/bin/standin.sh")
SCALE = 0.1


@pytest.fixture(scope="module")
def pair():
    with Lab(blocks=(2,), scale=SCALE, programs={"standin.sh": HERE / "standin.sh"}) as one:
        yield one


@pytest.fixture(scope="module")
def rack():
    with Lab(blocks=(18,), scale=SCALE, programs={"standin.sh": HERE / "standin.sh"}) as one:
        yield one


@pytest.fixture
def two(pair):
    pair.idle()
    return pair


def running(node):
    return node.execute("systemctl", "is-active", "nvidia-imex").stdout.strip()


def start_daemons(one, nodes=None):
    nodes = nodes or one.nodes
    one.leave_daemons([nodes])
    one.pump(lambda: connected(Traces(nodes).at(time.monotonic()), nodes), 10, "daemons connected")


# --- nodes are apart ------------------------------------------------------------------------------------------------------------

def test_a_node_has_its_own_address_files_processes_and_devices(two):
    a, b = two.nodes
    assert a.address in a.execute("cat", "/proc/net/fib_trie").stdout and a.address not in b.execute("cat", "/proc/net/fib_trie").stdout
    a.execute("sh", "-c", "echo private > /run/mine; echo private > /etc/nvidia-imex/mine; echo private > /var/log/mine; mknod /dev/mine c 1 3")
    for path in ("/run/mine", "/etc/nvidia-imex/mine", "/var/log/mine", "/dev/mine"):
        assert a.path(path).exists() and not b.path(path).exists() and not pathlib.Path(path).exists(), path
    start_daemons(two)
    a.execute("pkill", "-9", "nvidia-imex")
    two.pump(lambda: a.unit[0] == "failed", 5, "the killed daemon's unit has failed")
    assert running(b) == "active", "a kill by name on one node reaches no other"


def test_a_node_learns_no_neighbour_so_that_many_nodes_do_not_fill_the_kernels_table(two):
    start_daemons(two)
    a, b = two.nodes
    table = a.execute("ip", "neigh", "show", "dev", "eth0").stdout.strip()
    assert table == f"{b.address} lladdr {b.hardware_address} PERMANENT", table


def test_the_metadata_service_gives_the_instance_type_only_for_a_token(two):
    ask = """
import sys, urllib.error, urllib.request as u
def ask(path, method="GET", **headers):
    request = u.Request("http://169.254.169.254/latest/" + path, method=method, headers={k.replace("_", "-"): v for k, v in headers.items()})
    return u.build_opener(u.ProxyHandler({})).open(request, timeout=5).read().decode()
token = ask("api/token", "PUT", X_aws_ec2_metadata_token_ttl_seconds="60")
print(ask("meta-data/instance-type", X_aws_ec2_metadata_token=token))
try:
    ask("meta-data/instance-type")
except urllib.error.HTTPError as error:
    print(error.code)
"""
    assert two.nodes[0].execute("/usr/bin/python3", "-c", ask).stdout.split() == ["p6e-gb200.36xlarge", "401"]


def test_the_driver_shows_its_channel_major_and_syslog_is_kept(two):
    node = two.nodes[0]
    assert " nvidia-caps-imex-channels\n" in node.text("/proc/devices")
    node.execute("logger", "-t", "test", "a line for syslog")
    two.pump(lambda: "a line for syslog" in node.text("/var/log/syslog"), 5, "syslog")


# --- systemd --------------------------------------------------------------------------------------------------------------------

def test_a_stopped_unit_has_no_process_and_a_started_one_has_its_own(two):
    node = two.nodes[0]
    start_daemons(two)
    shown = dict(line.split("=", 1) for line in node.execute("systemctl", "show", "nvidia-imex").stdout.splitlines())
    assert shown["ActiveState"] == "active" and shown["ControlGroup"] == "/system.slice/nvidia-imex.service" and "Job" not in shown
    assert node.text("/sys/fs/cgroup/system.slice/nvidia-imex.service/cgroup.procs").split() != []
    assert node.execute("systemctl", "stop", "nvidia-imex").returncode == 0
    assert running(node) == "inactive"
    assert node.text("/sys/fs/cgroup/system.slice/nvidia-imex.service/cgroup.procs") == ""


def test_a_start_that_hangs_outlives_its_client_and_a_stop_cancels_it(two):
    node = two.nodes[0]
    node.path(lab_module.NODE_LIST).write_text(node.address + "\n")
    node.set_faults(start_hang=1)
    assert node.execute("timeout", "0.3", "systemctl", "start", "nvidia-imex").returncode == 124
    assert running(node) == "activating"
    assert "Job=" in node.execute("systemctl", "show", "-p", "Job", "nvidia-imex").stdout
    assert node.execute("systemctl", "stop", "nvidia-imex").returncode == 0
    assert running(node) == "inactive"


def test_a_stop_that_hangs_makes_a_start_wait_and_kill_ends_it(two):
    node = two.nodes[0]
    node.path(lab_module.NODE_LIST).write_text(node.address + "\n")
    node.set_faults(stop_hang=1)
    node.execute("systemctl", "start", "nvidia-imex")
    assert node.execute("timeout", "0.3", "systemctl", "stop", "nvidia-imex").returncode == 124
    assert running(node) == "deactivating"
    assert node.execute("timeout", "0.3", "systemctl", "start", "nvidia-imex").returncode == 124
    node.execute("systemctl", "kill", "--signal=KILL", "nvidia-imex")
    two.pump(lambda: running(node) == "active", 5, "the waiting start goes on once the old daemon is gone")
    node.execute("systemctl", "kill", "--signal=KILL", "nvidia-imex")


def test_a_daemon_that_cannot_start_fails_the_start_and_an_empty_list_leaves_the_unit_inactive(two):
    node = two.nodes[0]
    node.path(lab_module.NODE_LIST).write_text("192.0.2.1\n")
    done = node.execute("systemctl", "start", "nvidia-imex")
    assert done.returncode == 1 and "Job for nvidia-imex.service failed" in done.stderr
    assert running(node) == "failed"
    node.path(lab_module.NODE_LIST).write_text(lab_module.COMMENT_ONLY)
    assert node.execute("systemctl", "start", "nvidia-imex").returncode == 0
    assert running(node) == "inactive"


def test_the_sixth_start_in_ten_seconds_is_refused_until_reset_failed(two):
    node = two.nodes[0]
    node.execute("systemctl", "reset-failed", "nvidia-imex")
    node.path(lab_module.NODE_LIST).write_text("192.0.2.1\n")
    codes = [node.execute("systemctl", "start", "nvidia-imex").returncode for _ in range(6)]
    assert codes == [1] * 6
    assert "Result=start-limit-hit" in node.execute("systemctl", "show", "nvidia-imex").stdout
    node.execute("systemctl", "reset-failed", "nvidia-imex")
    node.path(lab_module.NODE_LIST).write_text(node.address + "\n")
    assert node.execute("systemctl", "start", "nvidia-imex").returncode == 0


def test_what_the_fakes_do_not_know_is_refused(two):
    node = two.nodes[0]
    assert node.execute("systemctl", "frobnicate", "nvidia-imex").returncode == 1
    assert node.execute("systemctl", "start", "sshd").returncode == 5
    assert node.execute("systemctl", "--frobnicate", "start", "nvidia-imex").returncode == 1
    assert node.execute("scontrol", "reconfigure").returncode == 1
    done = node.execute("scontrol", "-ao", "show", "node", "ultra-1,nosuch")
    assert done.returncode == 1 and done.stdout.endswith("Node nosuch not found\n") and f"NodeAddr={node.address} " in done.stdout


# --- jobs and measures ------------------------------------------------------------------------------------------------------------

def test_host_lists_are_written_as_slurm_writes_them():
    assert hostlist(["ultra-3"]) == "ultra-3"
    assert hostlist(["ultra-1", "ultra-2", "ultra-3", "ultra-7"]) == "ultra-[1-3,7]"
    assert hostlist(["ultra-2", "ultra-10"]) == "ultra-[2,10]"


def test_a_job_whose_prologs_wait_for_up_is_connected_when_the_last_returns(two):
    start = two.start_job(STANDIN, 1, two.nodes, skews=[0, 5])
    assert start.codes() == [0, 0], [run.output() for run in start.runs]
    measure = start.measure()
    assert measure.connected_at_end and measure.connected_later
    assert measure.restarts == 2 and measure.failed == []
    assert 0 < measure.up_after < 20
    assert start.runs[1].begin - start.runs[0].begin > 0.4  # the skew of 5 s, scaled


def test_the_traces_say_the_same_as_nvidia_imex_ctl(two):
    start_daemons(two)
    state = Traces(two.nodes).at(time.monotonic())
    assert matrix(state, two.nodes) == [["C", "C"], ["C", "C"]]
    report = json.loads(two.nodes[0].execute("nvidia-imex-ctl", "-N", "-j").stdout)
    assert report["status"] == "UP"
    two.nodes[1].execute("systemctl", "kill", "--signal=KILL", "nvidia-imex")
    two.pump(lambda: matrix(Traces(two.nodes).at(time.monotonic()), two.nodes) == [["C", "R"], [".", "."]], 5, "the traces show the loss")
    assert not connected(Traces(two.nodes).at(time.monotonic()), two.nodes)


def test_connected_needs_the_present_daemon_of_the_peer_not_the_one_before(two):
    a, b = two.nodes
    start_daemons(two)
    before = Traces(two.nodes).at(time.monotonic())
    assert connected(before, two.nodes)
    b.execute("systemctl", "stop", "nvidia-imex")
    b.execute("systemctl", "start", "nvidia-imex")
    two.pump(lambda: connected(Traces(two.nodes).at(time.monotonic()), two.nodes), 10, "connected again")
    after = Traces(two.nodes).at(time.monotonic())
    mixed = {a.name: before[a.name], b.name: after[b.name]}
    assert not connected(mixed, two.nodes)


def test_a_stale_daemon_blocks_the_pair_for_a_prolog_that_only_waits(two):
    a, b = two.nodes
    two.leave_daemons([[b, a]])   # an earlier job's list, the other way round
    start = two.start_job(STANDIN, 2, two.nodes, skews=[0, 20])
    assert 6 in start.codes(), "the first met the old list and stays blocked"
    measure = start.measure()
    assert not measure.connected_later
    assert "M" in matrix(Traces(two.nodes).at(time.monotonic()), two.nodes)[0]


def test_a_failed_prolog_is_told_with_its_code_and_output(two):
    bad = Subject("bad", "/usr/bin/bash", arguments=("-c", "echo no luck >&2; exit 5"))
    start = two.start_job(bad, 3, two.nodes, skews=[0, 0])
    assert start.codes() == [5, 5] and start.failed() == ["ultra-1", "ultra-2"]
    assert start.runs[0].output() == "no luck\n"


def test_a_crash_may_come_later_and_ends_what_has_not_begun(two):
    a, b = two.nodes
    late = two.launch(a, 30, "/usr/bin/true")
    two.crash(a, 0.1)
    two.wait([late], 5)
    assert late.code == 128 + 9 and a.crashed and not b.crashed


def test_a_crash_ends_everything_on_the_node_and_nothing_elsewhere(two):
    a, b = two.nodes
    start_daemons(two)
    sleeper = two.launch(a, 0, "/usr/bin/sleep", ("60",))
    two.pump(lambda: sleeper.begin is not None, 5, "it runs")
    two.crash(a)
    two.wait([sleeper], 5)
    assert sleeper.code == 128 + 9
    assert running(a) == "inactive" and running(b) == "active"


def test_eighteen_nodes_become_one_domain(rack):
    skews = [(7 * i) % 20 for i in range(18)]
    start = rack.start_job(STANDIN, 10, rack.nodes, skews)
    assert start.codes() == [0] * 18, [run.output() for run in start.runs]
    measure = start.measure()
    assert measure.connected_at_end and measure.restarts == 18
    assert len({node.text(lab_module.NODE_LIST) for node in rack.nodes}) == 1


def test_two_ultraservers_of_eighteen_are_judged_each_by_itself():
    with Lab(blocks=(18, 18), scale=SCALE) as one:
        first, second = one.nodes[:18], one.nodes[18:]
        one.leave_daemons([first, second])
        one.pump(lambda: all(connected(Traces(g).at(time.monotonic()), g) for g in (first, second)), 20, "both up")
        assert not connected(Traces(one.nodes).at(time.monotonic()), one.nodes)
        folder = one.folder
    assert not folder.exists()


def test_nothing_is_left_behind_by_a_lab(tmp_path):
    with Lab(blocks=(2,), scale=SCALE, folder=tmp_path / "lab") as one:
        start_daemons(one)
        pids = [int(p) for node in one.nodes for p in [node.pid]]
        mounts = pathlib.Path("/proc/mounts").read_text()
        assert str(one.folder) not in mounts
    for pid in pids:
        assert not os.path.exists(f"/proc/{pid}")
    assert not (tmp_path / "lab").exists()
