"""Faults that others met with IMEX (docs/faults.md) and that no other file here holds."""

import os
import re

import pytest

from expect import assert_done, assert_failed, is_comment_only
from node import OLD_LIST
from test_domain import answer, scripted


@pytest.mark.parametrize("milliseconds", [1, 2000])
def test_a_ready_from_another_daemon_does_not_cover_our_own_dead_one(make_node, milliseconds):
    """nvidia-imex-ctl reaches whoever listens on the command port: its words alone are no proof of the unit's own process."""
    node = make_node(config=None)
    node.write("/fake/nvidia-imex-ctl/ready", "READY\n")
    node.script("nvidia-imex-ctl", "q", "file 0 /fake/nvidia-imex-ctl/ready")
    scripted(node, answer())
    node.daemon(die_after=milliseconds)
    run = node.prolog("--settle=6")
    assert_failed(node, run, 5, "the daemon of unit nvidia-imex died" if milliseconds > 1 else "nvidia-imex", unchanged=False)
    assert is_comment_only(node.list()) and node.unit_state()["ActiveState"] in ("failed", "inactive")


@pytest.mark.parametrize("port", [50000, 50005])
def test_a_port_that_somebody_else_holds_is_named_before_anything_is_stopped_or_written(node, port):
    node.stand_in("/usr/bin/python3", "-c", "import os, socket; s = socket.socket(); s.set_inheritable(True); "
                  f"s.bind(('0.0.0.0', {port})); s.listen(); os.execv('/usr/bin/sleep', ['sleep', '1000'])")
    node.wait_for(lambda: f":{port:04X} " in node.sh("cat /proc/net/tcp").stdout, 10, "the listener")
    run = node.prolog()
    assert_failed(node, run, 5, f"TCP port {port} of nvidia-imex is in use though the unit is stopped", "net.ipv4.ip_local_reserved_ports=50000,50005")
    assert "stop" not in node.verbs() and "start" not in node.verbs()


def test_the_daemons_own_config_and_its_ports_are_never_changed(node):
    config = "/etc/nvidia-imex/config.cfg"
    before = (node.lstat(config), node.read_bytes(config))
    assert_done(node, node.prolog())
    assert_done(node, node.prolog())
    after = (node.lstat(config), node.read_bytes(config))
    assert before[1] == after[1] and (before[0].st_ino, before[0].st_mtime_ns) == (after[0].st_ino, after[0].st_mtime_ns)


def test_no_signal_is_sent_to_nudge_a_daemon(make_node):
    node = make_node(config=None)
    scripted(node, answer("DEGRADED", "UNAVAILABLE", "NEVER_CONNECTED"))
    run, lines = node.strace("trace=kill,tkill,tgkill,pidfd_send_signal,execve", "imex-prolog", "--domain-timeout=2")
    assert run.code == 0, run
    assert any("execve" in line and "nvidia-imex-ctl" in line for line in lines), "the trace is empty"
    assert [line for line in lines if "SIGUSR" in line or "SIGHUP" in line] == []
    assert [call["argv"] for call in node.calls("systemctl") if "kill" in call["argv"]] == []


@pytest.mark.parametrize("text,who", [
    (answer("DEGRADED", "UNAVAILABLE", "NEVER_CONNECTED"), "ultra-2 (10.20.0.2) is UNAVAILABLE"),
    (answer("DEGRADED", "READY", "NEVER_CONNECTED"), "not connected: ultra-1 (10.20.0.1) to ultra-2 (10.20.0.2) N"),
    (answer("DEGRADED", "READY", "VERSION_MISMATCH"), "not connected: ultra-1 (10.20.0.1) to ultra-2 (10.20.0.2) !V!")],
    ids=["no daemon", "never connected", "another version"])
def test_a_peer_that_stays_away_is_named_with_its_state(make_node, text, who):
    node = make_node(config=None)
    scripted(node, text)
    run = node.prolog("--domain-timeout=2")
    assert run.code == 0, run
    said = " ".join(text for _, _, text in node.log("WARN"))
    assert re.search(r"the IMEX domain of 2 nodes is not up on this node \(waited [12]\.\d\d s\): " + re.escape(who), said), said
    cure = ("install one version on all of them, in the AMI" if "!V!" in who
            else "run `gpu-prolog validate imex` on the nodes named; see their /var/log/nvidia-imex-prolog.log")
    assert cure in said, said


def test_a_mismatch_that_lasts_is_told_as_one(make_node):
    node = make_node(config=None)
    scripted(node, answer("DEGRADED", "READY", "NODE_MAP_MISMATCH"))
    run = node.prolog("--domain-timeout=2", "--wait-domain=require")
    assert_failed(node, run, 5, "ultra-2 (10.20.0.2) !M!", "a node map mismatch lasts until both sides restart with one list", unchanged=False)


def test_a_daemon_of_the_boot_is_never_trusted(node):
    """It may have started before the node had its address."""
    node.start_unit()
    before = node.unit_state()["MainPID"]
    assert node.list() == OLD_LIST
    assert_done(node, node.prolog())
    assert node.unit_state()["MainPID"] != before


def test_a_prolog_needs_no_variable_but_those_of_the_job(node):
    """slurmd gives a Prolog no PATH, no HOME, no locale; what else it gives may change with a version."""
    names = ("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURMD_NODENAME", "SLURM_SCRIPT_CONTEXT", "SLURM_JOB_OVERSUBSCRIBE", "SLURM_JOB_PARTITION")
    environment = {key: value for key, value in node.environment(SLURM_JOB_OVERSUBSCRIBE="NO").items() if key in names}
    assert set(environment) == set(names)
    assert_done(node, node.prolog(environment=environment))


def test_a_prolog_that_ended_holds_neither_output_nor_process(node):
    """slurmd waits for the end of the output as well: a child that kept it would leave the job in CG."""
    read, write = os.pipe()
    try:
        run = node.prolog(stdout=write, stderr=write)
        assert run.code == 0, run
        os.close(write)
        write = -1
        os.set_blocking(read, False)
        assert os.read(read, 1) == b"", "somebody still holds the output"
    finally:
        for descriptor in (read, write):
            if descriptor >= 0:
                os.close(descriptor)
    assert node.unit_state()["ActiveState"] == "active" and node.leftovers(0.2) == []
