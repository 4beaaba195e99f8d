"""validate imex: every finding with the words that a person reads, and that looking changes nothing."""

import json
import os
import time

import pytest

import expect
from expect import assert_done
from node import CHANNEL, CHANNEL_DIR, LIST
from test_domain import answer, scripted


def driver(node, version="580.95.05"):
    """A loaded driver, as /proc tells it."""
    node.sh("mountpoint -q /proc/driver || mount -t tmpfs -o mode=0755 driver /proc/driver; mkdir -p /proc/driver/nvidia")
    node.write("/proc/driver/nvidia/version", f"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  {version}  Release Build  (builder@host)  "
               "Tue Oct 14 12:00:00 UTC 2025\nGCC version:  gcc version 12.2.0\n")


def fabric(node, *rows):
    """nvidia-smi, which is asked for index, fabric.state and fabric.status."""
    node.write("/usr/bin/nvidia-smi", "#!/bin/sh\ncat <<'END'\n" + "\n".join(rows) + "\nEND\n", 0o755)


@pytest.fixture
def healthy(node):
    """A node whose prolog has made the job's domain."""
    driver(node)
    fabric(node, "0, Completed, Success", "1, Completed, Success")
    assert_done(node, node.prolog())
    return node


def findings(node, code):
    return expect.findings(node, "imex", code)


def assert_finds(node, check, result, found, cure=""):
    expect.assert_finds(node, "imex", check, result, found, cure)


def test_a_healthy_node_has_no_finding(healthy):
    told = findings(healthy, 0)
    assert {check: one["result"] for check, one in told.items()} == dict.fromkeys(
        ["driver", "version", "fabric", "channel", "unit", "node list", "ports", "one version", "domain"], "ok"), told
    assert told["version"]["found"] == "nvidia-imex 580.95.05 fits driver 580.95.05"
    assert told["domain"]["found"] == "2 nodes, every node READY, every pair connected, state UP"


def test_looking_changes_nothing(healthy):
    before, verbs = healthy.tree(), healthy.verbs()
    for words in ((), ("--json",)):
        healthy.run("validate", "imex", *words)
    assert healthy.tree() == before
    assert set(healthy.verbs()[len(verbs):]) <= {"show", "is-enabled", "is-active"}


def test_an_idle_node_after_an_epilog_has_no_finding(make_node):
    node = make_node()
    driver(node)
    assert_done(node, node.prolog())
    assert node.run(env={"SLURM_SCRIPT_CONTEXT": "epilog_slurmd"}).code == 0
    told = findings(node, 0)
    assert told["unit"]["found"] == "nvidia-imex is inactive, as it may be while no job has a domain here"
    assert told["node list"]["found"] == f"{LIST} (0 nodes) is empty, as it is between jobs"


# -- driver, versions, fabric

def test_a_driver_that_is_not_loaded_is_a_finding(healthy):
    healthy.remove("/proc/driver/nvidia/version")
    assert_finds(healthy, "driver", "fail", "the NVIDIA driver is not loaded (/proc/driver/nvidia/version)", "modprobe nvidia")


def test_a_daemon_of_another_version_than_the_driver_is_a_finding(healthy):
    driver(healthy, "570.86.15")
    assert_finds(healthy, "version", "fail", "nvidia-imex is 580.95.05, the driver 570.86.15: it will not start", "install nvidia-imex of the driver's version")


@pytest.mark.parametrize("row,shown", [("1, In Progress, N/A", "GPU 1 In Progress/N/A"), ("1, Completed, Failure", "GPU 1 Completed/Failure"),
                                       ("1, Not Started, N/A", "GPU 1 Not Started/N/A")])
def test_a_gpu_that_is_not_registered_with_the_fabric_is_a_finding(healthy, row, shown):
    fabric(healthy, "0, Completed, Success", row)
    assert_finds(healthy, "fabric", "fail", "not registered with the NVLink fabric: " + shown, "replace the instance")


def test_gpus_without_a_fabric_are_none(healthy):
    fabric(healthy, "0, N/A, N/A", "1, [Not Supported], [Not Supported]")
    assert_finds(healthy, "fabric", "skipped", "no GPU of this node has an NVLink fabric")


# -- channel

@pytest.mark.parametrize("command,fault", [(f"rm {CHANNEL}", "missing"), (f"chmod 600 {CHANNEL}", "mode 0600 instead of 0666"),
                                           (f"rm {CHANNEL}; mknod -m 666 {CHANNEL} c 234 0", "device 234:0 instead of 235:0"),
                                           (f"rm {CHANNEL}; mknod -m 666 {CHANNEL} c 235 1", "device 235:1 instead of 235:0"),
                                           (f"rm {CHANNEL}; ln -s /dev/null {CHANNEL}", "no character device")])
def test_a_wrong_channel_is_a_finding(healthy, command, fault):
    healthy.sh(command)
    assert_finds(healthy, "channel", "fail", f"{CHANNEL}: {fault}", "the next exclusive job's prolog repairs it")


def test_a_driver_without_channels_is_a_finding(make_node):
    node = make_node(channel_major=None)
    assert_finds(node, "channel", "fail", "no IMEX channel device: /proc/devices has no nvidia-caps-imex-channels", "nvidia-smi")


def test_channels_that_slurm_makes_are_not_judged(healthy):
    healthy.set_slurm_conf(SwitchType="switch/nvidia_imex")
    healthy.sh(f"rm -r {CHANNEL_DIR}")
    assert_finds(healthy, "channel", "skipped", "SwitchType is switch/nvidia_imex: Slurm makes a channel for each step")


def test_channels_beside_the_first_are_named(healthy):
    healthy.sh(f"mknod -m 666 {CHANNEL_DIR}/channel7 c 235 7; mknod -m 666 {CHANNEL_DIR}/channel12 c 235 12")
    assert_finds(healthy, "channel", "ok", f"{CHANNEL} is right; beside it: channel12, channel7")
    healthy.set_slurm_conf(SwitchType="switch/nvidia_imex")
    assert_finds(healthy, "channel", "skipped", "SwitchType is switch/nvidia_imex: Slurm makes a channel for each step; there now: channel12, channel7")


# -- unit, node list, ports

def test_a_unit_that_is_not_enabled_is_a_finding(healthy):
    healthy.unit(file="disabled")
    assert_finds(healthy, "unit", "fail", "nvidia-imex is disabled: the prolog skips IMEX on this node", "systemctl enable nvidia-imex")


def test_a_daemon_that_died_during_the_job_is_a_finding(healthy):
    healthy.kill(healthy.unit_state()["MainPID"], 9)
    healthy.wait_for(lambda: healthy.unit_state()["ActiveState"] == "failed", 10, "the unit to fail")
    one = findings(healthy, 1)["unit"]
    assert one["found"].startswith("nvidia-imex is not running though the prolog of job 4711 started it: "), one
    assert "a daemon does not restart itself (the unit has no Restart=)" in one["cure"]


def test_a_missing_node_list_is_a_finding(healthy):
    healthy.remove(LIST)
    one = findings(healthy, 1)["node list"]
    assert one["result"] == "fail" and LIST in one["found"] and one["cure"].startswith("nvidia-imex does not start without the file"), one


@pytest.mark.parametrize("text,found", [
    ("10.20.0.1\n10.20.0.2\n10.20.0.1\n", " (3 nodes): 10.20.0.1 stands there twice"),
    ("10.20.0.1\nultra-2\n", " (2 nodes): ultra-2 is no address"),
    ("10.20.0.2\n10.20.0.3\n", " (2 nodes) has none of this host's addresses"),
    ("# nothing\n", " (0 nodes) is empty while the daemon runs")])
def test_a_wrong_node_list_is_a_finding(healthy, text, found):
    healthy.write(LIST, text)
    assert_finds(healthy, "node list", "fail", LIST + found, "restart the job")


def test_a_node_list_that_was_changed_under_the_daemon_is_a_finding(healthy):
    later = time.time() + 60
    os.utime(healthy.path(LIST), (later, later))
    assert_finds(healthy, "node list", "fail", f"{LIST} (2 nodes) is newer than the daemon, which reads it at its start only", "restart the job")


def test_a_daemon_that_does_not_listen_is_a_finding(node):
    node.daemon(no_port=1)
    node.start_unit()
    assert_finds(node, "ports", "fail", "nobody listens on 50000 (SERVER_PORT), 50005 (IMEX_CMD_PORT)", "/var/log/nvidia-imex.log")


# -- domain

def test_a_control_tool_that_hangs_is_a_finding_and_holds_nobody(healthy):
    healthy.script("nvidia-imex-ctl", "Nj", "hang-hard")
    run = healthy.run("validate", "imex", "--json")
    assert run.code == 1 and run.seconds < 20, run
    one = {check["check"]: check for check in json.loads(run.out)["checks"]}["domain"]
    assert one["result"] == "fail" and one["cure"] == "a daemon that does not answer is wedged: restart the job, and the node if that does not help", one


def test_peers_behind_a_blocked_command_port_are_told_as_such(healthy):
    scripted(healthy, answer("DEGRADED", "UNAVAILABLE", None))
    assert_finds(healthy, "command port", "fail", "1 peers are connected but tell no status: TCP port 50005 (IMEX_CMD_PORT) is blocked between the nodes?",
                 "open port 50005 between the nodes in the security group, beside 50000")


def test_a_peer_without_a_daemon_is_told_with_its_address(healthy):
    scripted(healthy, answer("DEGRADED", "UNAVAILABLE", "NEVER_CONNECTED"))
    assert_finds(healthy, "connections", "fail", "node #1 (10.20.0.2) is UNAVAILABLE; none of its 1 peers can use it", "on that node: `systemctl status nvidia-imex`")


@pytest.mark.parametrize("cell,told,cure", [
    ("NEVER_CONNECTED", "N", "is TCP port 50000 (SERVER_PORT) open between the two nodes (security group), and did both prologs run?"),
    ("RECOVERING", "R", "the other daemon went away after it was connected"),
    ("DISCONNECTED", "D", "the other daemon went away after it was connected"),
    ("AUTHENTICATING", "A", "compare IMEX_AUTH_* in config.cfg on both nodes"),
    ("VERSION_MISMATCH", "!V!", "install the same nvidia-imex version on every node"),
    ("NODE_MAP_MISMATCH", "!M!", "compare /etc/nvidia-imex/nodes_config.cfg on both nodes, see that the prolog ran on both, then restart the job")])
def test_each_kind_of_lost_connection_is_told_with_its_cure(healthy, cell, told, cure):
    scripted(healthy, answer("DEGRADED", "READY", cell))
    one = findings(healthy, 1)["connections"]
    assert one["found"].startswith(f"node #0 (10.20.0.1) and node #1 (10.20.0.2) are not connected: {told}, "), one
    assert cure in one["cure"], one


def test_peers_of_another_version_are_told(healthy):
    text = json.loads(answer())
    text["nodes"]["1"]["version"] = "570.86.15"
    scripted(healthy, json.dumps(text))
    assert_finds(healthy, "one version", "fail", "nodes run different IMEX versions: 570.86.15 on 1; 580.95.05 on 0", "install one nvidia-imex version on every node")


# -- from inside a job

def by_srun(node, code):
    """The job's one node, asked by a make-believe srun that runs the command here and labels its lines."""
    node.write("/opt/slurm/bin/srun", "#!/bin/sh\nfor word; do case $word in -*) shift;; *) break;; esac; done\n\"$@\" | sed 's/^/0: /'\n", 0o755)
    run = node.run("validate", "imex", "--srun", "--json")
    assert run.code == code, run
    told = json.loads(run.out)
    assert [(one["node"], one["answered"]) for one in told["data"]["merged"]["nodes"]] == [("ultra-1", True)], told["data"]
    return [(one["check"], one["result"], one["found"]) for one in told["checks"]], told["data"]["merged"]


def test_a_job_whose_prolog_made_no_domain_anywhere_is_told_so(make_node):
    node = make_node(names=["ultra-1"], old_list=b"# nothing\n")
    driver(node)
    node.sh(f"mkdir -m 755 {CHANNEL_DIR}; mknod -m 666 {CHANNEL} c 235 0")
    told, merged = by_srun(node, 0)
    assert merged["lists"] == [] and merged["nodes"][0]["list"] is None, merged
    assert ("node lists", "warn", "no node of job 4711 holds a node list: no prolog has made a domain for it") in told, told
    assert_done(node, node.prolog())
    told, merged = by_srun(node, 0)
    assert merged["nodes"] == [{"node": "ultra-1", "answered": True, "list": merged["lists"][0]["list"], "place": 0, "daemon": "READY", "version": "580.95.05"}], merged
    assert (merged["lists"][0]["holders"], merged["lists"][0]["pairs"], merged["lists"][0]["not_connected"]) == (["ultra-1"], 0, []), merged
    assert [one for one in told if one[1] == "warn"] == [], told
    assert any(check == "node lists" and found.endswith("(1 nodes) is held by ultra-1") for check, _, found in told), told
