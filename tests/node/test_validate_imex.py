"""validate imex: every finding with the words that a person reads, and that looking changes nothing."""

import json
import os
import re
import time

import pytest

import expect
from expect import assert_done
from node import CHANNEL, CHANNEL_DIR, LIST, OLD_LIST
from test_domain import answer, scripted

RUN = "/run/gpu-prolog"
STATE = RUN + "/imex.json"


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
    fabric(node, "0, Completed, Success")
    assert_done(node, node.prolog())
    assert node.run(env={"SLURM_SCRIPT_CONTEXT": "epilog_slurmd"}).code == 0
    told = findings(node, 0)
    assert told["unit"]["found"] == "nvidia-imex is inactive, as it may be while no job has a domain here"
    assert told["node list"]["found"] == f"{LIST} (0 nodes) is empty, as it is between jobs"


@pytest.fixture
def booted(make_node):
    """A healthy node before its first job: /dev and /run are as a boot leaves them."""
    node = make_node(old_list=b"# nothing\n")
    driver(node)
    fabric(node, "0, Completed, Success")
    return node


def test_before_the_first_job_only_the_channel_is_a_finding_and_it_is_said_that_this_is_usual(booted):
    told = findings(booted, 1)
    assert {check for check, one in told.items() if one["result"] not in ("ok", "skipped")} == {"channel"}, told
    assert_finds(booted, "channel", "fail", f"{CHANNEL}: missing, as it is from a boot until the first exclusive job, whose prolog makes it", "mknod")
    booted.sh(re.search(r"by hand, as root: `(.*)`", told["channel"]["cure"])[1])
    booted.remove(LIST)
    assert findings(booted, 0)["node list"]["found"] == f"{LIST} is not there; the first exclusive job's prolog makes it"
    booted.write(LIST, OLD_LIST)
    assert_finds(booted, "node list", "warn", f"{LIST} (2 nodes) has none of this host's addresses; no daemon runs with it", "the next exclusive job's prolog writes it anew")


def test_a_channel_that_is_missing_while_a_daemon_runs_without_a_job_is_a_finding(booted):
    booted.start_unit()
    booted.write(LIST, "10.20.0.1\n")
    booted.sh("systemctl start nvidia-imex")
    assert_finds(booted, "channel", "fail", f"{CHANNEL}: missing", "mknod")


# -- driver, versions, fabric

def test_a_driver_that_is_not_loaded_is_a_finding(healthy):
    healthy.remove("/proc/driver/nvidia/version")
    assert_finds(healthy, "driver", "fail", "the NVIDIA driver is not loaded (/proc/driver/nvidia/version)", "modprobe nvidia")


def test_a_driver_that_tells_no_version_is_told_as_that(healthy):
    healthy.write("/proc/driver/nvidia/version", "garbage\n")
    assert_finds(healthy, "driver", "fail", "/proc/driver/nvidia/version tells no version: garbage", "dmesg")


def test_a_missing_nvidia_imex_is_to_be_installed_and_one_that_others_may_write_is_not(healthy):
    os.chmod(healthy.path("/usr/bin/nvidia-imex"), 0o777)
    assert_finds(healthy, "version", "fail", "cannot use the tool /usr/bin/nvidia-imex: not trusted, since /usr/bin/nvidia-imex: others than root may write it (mode 0777)",
                 "make /usr/bin/nvidia-imex root's and writable by root only (chown root, chmod go-w)")
    assert "install" not in findings(healthy, 1)["version"]["cure"]
    healthy.remove("/usr/bin/nvidia-imex")
    assert_finds(healthy, "version", "fail", "nvidia-imex is not there: looked at /usr/bin/nvidia-imex", "install the nvidia-imex package of the driver's version")


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


@pytest.mark.parametrize("program,found", [(None, "nvidia-smi is not there: looked at /usr/bin/nvidia-smi"), ("exit 0", "nvidia-smi printed nothing"),
                                           ("echo No devices were found", "nvidia-smi lists no GPU: No devices were found")],
                         ids=["missing", "empty", "no device"])
def test_an_nvidia_smi_that_shows_no_gpu_is_a_finding_and_told_as_what_it_is(healthy, program, found):
    healthy.remove("/usr/bin/nvidia-smi")
    if program:
        healthy.write("/usr/bin/nvidia-smi", f"#!/bin/sh\n{program}\n", 0o755)
    assert_finds(healthy, "fabric", "fail", found, "dmesg" if program else "install nvidia-smi")


# -- channel

@pytest.mark.parametrize("command,fault", [(f"rm {CHANNEL}", "missing"), (f"chmod 600 {CHANNEL}", "mode 0600 instead of 0666"),
                                           (f"rm {CHANNEL}; mknod -m 666 {CHANNEL} c 234 0", "device 234:0 instead of 235:0"),
                                           (f"rm {CHANNEL}; mknod -m 666 {CHANNEL} c 235 1", "device 235:1 instead of 235:0"),
                                           (f"rm {CHANNEL}; ln -s /dev/null {CHANNEL}", "no character device"),
                                           (f"rm {CHANNEL}; mkdir {CHANNEL}", "no character device"), (f"rm -r {CHANNEL_DIR}", "missing")])
def test_a_wrong_channel_is_a_finding(healthy, command, fault):
    healthy.sh(command)
    assert_finds(healthy, "channel", "fail", f"{CHANNEL}: {fault}", "the next exclusive job's prolog repairs it")
    cure = re.search(r"by hand, as root: `(.*)`", findings(healthy, 1)["channel"]["cure"])[1]
    healthy.sh("umask 077; " + cure)
    assert_finds(healthy, "channel", "ok", f"{CHANNEL} is right")
    expect.assert_channel(healthy)


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


# -- unit

@pytest.mark.parametrize("word,cure", [("disabled", "`systemctl enable nvidia-imex` (in the AMI)"),
                                       ("masked", "`systemctl unmask nvidia-imex`, then `systemctl enable nvidia-imex` (in the AMI)"),
                                       ("masked-runtime", "`systemctl unmask --runtime nvidia-imex`, then "),
                                       ("not-found", "install the nvidia-imex package of the driver's version, then ")])
def test_a_unit_that_is_not_enabled_is_a_finding_with_the_cure_that_fits(healthy, word, cure):
    healthy.unit(file=word)
    assert_finds(healthy, "unit", "fail", f"nvidia-imex is {word}: the prolog skips IMEX on this node")
    assert findings(healthy, 1)["unit"]["cure"].startswith(cure)


def test_a_daemon_that_died_during_the_job_is_a_finding(healthy):
    healthy.kill(healthy.unit_state()["MainPID"], 9)
    healthy.wait_for(lambda: healthy.unit_state()["ActiveState"] == "failed", 10, "the unit to fail")
    one = findings(healthy, 1)["unit"]
    assert one["found"].startswith("nvidia-imex is not running though the prolog of job 4711 started it: "), one
    assert "a daemon does not restart itself (the unit has no Restart=)" in one["cure"]


@pytest.mark.parametrize("job", [True, False], ids=["job", "no job"])
@pytest.mark.parametrize("action,said", [("err 1 Failed to connect to bus", "exit 1: Failed to connect to bus"), ("say 0 nonsense", "exit 0: nonsense"),
                                         ("hang-hard", "no end after ")], ids=["fails", "garbage", "hangs"])
def test_a_systemctl_show_without_an_answer_is_a_finding_and_the_daemon_is_not_called_dead(healthy, action, said, job):
    if not job:
        healthy.remove(STATE)
    healthy.script("systemctl", "show", action)
    run = healthy.run("validate", "imex", "--json")
    assert run.code == 1 and run.seconds < 20, run
    told = {one["check"]: one for one in json.loads(run.out)["checks"]}
    assert told["unit"]["result"] == "fail", told
    assert told["unit"]["found"].startswith("systemctl show does not tell what runs in unit nvidia-imex: " + said), told["unit"]
    assert "systemctl is-system-running" in told["unit"]["cure"]
    assert (told["ports"]["result"], told["domain"]["result"], told["channel"]["result"]) == ("ok", "ok", "ok"), told


def test_without_systemctl_nobody_says_that_the_daemon_does_not_run(healthy):
    healthy.remove("/usr/bin/systemctl")
    assert_finds(healthy, "unit", "fail", "systemctl is not there: looked at /usr/bin/systemctl, /bin/systemctl", "install it")
    told = findings(healthy, 1)
    assert (told["ports"]["result"], told["domain"]["result"]) == ("ok", "ok"), told
    healthy.kill(healthy.processes()[0][0], 9)  # the daemon
    told = findings(healthy, 1)
    assert told["ports"]["found"] == "nobody listens on 50000 (SERVER_PORT), 50005 (IMEX_CMD_PORT), but it is not known whether the daemon runs", told["ports"]
    assert told["domain"]["result"] == "skipped" and told["domain"]["found"].endswith("; it is not known whether the daemon runs"), told["domain"]


def test_an_active_unit_without_a_process_is_a_finding(booted):
    booted.script("systemctl", "show", "say 0 ActiveState=active\\nSubState=exited\\nResult=success\\nMainPID=0\\nControlPID=0\\nJob=\\nControlGroup=")
    one = findings(booted, 1)["unit"]
    assert one["found"].startswith("nvidia-imex is active, but no daemon lives in it: "), one


# -- the state file

def test_a_damaged_state_is_a_finding_and_nobody_says_that_no_job_runs(healthy):
    healthy.write(STATE, "{{{")
    assert_finds(healthy, "state", "fail", f"the state file {STATE} is damaged: it is no JSON object; whether a job has a domain here cannot be told from it",
                 "remove it once no job runs here (a folder: make it root's, mode 0755); no epilog stops the daemon until then")
    healthy.kill(healthy.unit_state()["MainPID"], 9)
    healthy.wait_for(lambda: healthy.unit_state()["ActiveState"] == "failed", 10, "the unit to fail")
    one = findings(healthy, 1)["unit"]
    assert (one["result"], one["found"]) == ("warn", "nvidia-imex is failed; whether a job needs it is not known (state)"), one


@pytest.mark.parametrize("spoil,why", [(f"chown 1000 {STATE}", f"{STATE} does not belong to root"), (f"chmod 666 {STATE}", f"{STATE} can be written by group or others"),
                                       (f"chmod 777 {RUN}", f"{RUN} can be written by group or others"), (f"chown 1000 {RUN}", f"{RUN} does not belong to root"),
                                       (f"mv {STATE} /tmp/x; ln -s /tmp/x {STATE}", f"{STATE} is a symbolic link, not a file")])
def test_a_state_that_others_could_have_written_is_damaged(healthy, spoil, why):
    healthy.sh(spoil)
    assert_finds(healthy, "state", "fail", f"the state file {STATE} is damaged: {why}; whether a job has a domain here cannot be told from it")


# -- node list, ports

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


@pytest.mark.parametrize("text,found", [("10.20.0.2\n10.20.0.1\n", " (2 nodes) is not the list that the daemon runs with: its node #0 is 10.20.0.1, not 10.20.0.2"),
                                        ("10.20.0.1\n", " (1 node) is not the list that the daemon runs with: it holds 2 nodes")], ids=["swapped", "cut"])
def test_a_node_list_that_the_daemon_does_not_run_with_is_a_finding_whatever_its_time_says(healthy, text, found):
    before = healthy.lstat(LIST)
    healthy.write(LIST, text)
    os.utime(healthy.path(LIST), ns=(before.st_atime_ns, before.st_mtime_ns))
    assert_finds(healthy, "node list", "fail", LIST + found, "restart the job")


def test_a_list_that_is_not_the_prologs_is_a_finding_also_where_the_daemon_was_started_with_it(healthy):
    healthy.sh("systemctl stop nvidia-imex")
    healthy.write(LIST, "10.20.0.1\n")
    healthy.sh("systemctl start nvidia-imex")
    assert_finds(healthy, "node list", "fail", f"{LIST} (1 node) is not the list that the prolog of job 4711 wrote (2 nodes)", "restart the job")


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


def test_a_missing_control_tool_is_a_finding_and_one_that_is_turned_off_a_warning(healthy):
    healthy.remove("/usr/bin/nvidia-imex-ctl")
    assert_finds(healthy, "domain", "fail", "the domain cannot be looked at: nvidia-imex-ctl is not there: looked at /usr/bin/nvidia-imex-ctl",
                 "install nvidia-imex-ctl, which comes with the nvidia-imex package")
    config = healthy.read("/etc/nvidia-imex/config.cfg")
    healthy.write("/etc/nvidia-imex/config.cfg", config.replace("IMEX_CMD_ENABLED=1", "IMEX_CMD_ENABLED=0"))
    assert_finds(healthy, "domain", "warn", "the domain cannot be looked at: IMEX_CMD_ENABLED=0 in /etc/nvidia-imex/config.cfg", "IMEX_CMD_ENABLED=1")


def rack(size, **cells):
    """A domain of so many nodes as the first one sees it; `cells`: row_column=word, and `statuses` of nodes that are not READY."""
    statuses = cells.pop("statuses", {})
    addresses = [f"10.20.0.{i + 1}" for i in range(size)]
    return json.dumps({"nodes": {str(i): {
        "status": statuses.get(i, "READY"), "host": addresses[i], "version": "" if i in statuses else "580.95.05",
        "connections": {str(k): {"host": addresses[k], "status": cells.get(f"c{i}_{k}", "CONNECTED")} for k in range(size)}} for i in range(size)},
        "status": "DEGRADED"})


def of_size(node, size):
    """The node's list and what it noted of it, of so many nodes."""
    addresses = [f"10.20.0.{i + 1}" for i in range(size)]
    node.write(LIST, "".join(address + "\n" for address in addresses))
    os.utime(node.path(LIST), (1e9, 1e9))
    state = json.loads(node.read(STATE))
    state["addresses"] = addresses
    node.write(STATE, json.dumps(state))


def failed(node):
    run = node.run("validate", "imex", "--json")
    assert run.code == 1, run
    return [(one["check"], one["found"], one["cure"]) for one in json.loads(run.out)["checks"] if one["result"] == "fail"]


def test_a_whole_rack_behind_a_blocked_command_port_is_one_fail(healthy):
    of_size(healthy, 18)
    scripted(healthy, rack(18, statuses={i: "UNAVAILABLE" for i in range(1, 18)}))
    assert [(check, found) for check, found, _ in failed(healthy)] == [
        ("command port", "17 peers are connected but tell no status (nodes 1-17): TCP port 50005 (IMEX_CMD_PORT) is blocked between the nodes?")]


@pytest.mark.parametrize("own", ["CONNECTED", "INVALID"])
def test_one_dead_node_of_a_rack_is_one_fail_whatever_it_shows_of_itself(healthy, own):
    of_size(healthy, 18)
    apart = {f"c{i}_7": "NEVER_CONNECTED" for i in range(18) if i != 7} | {f"c7_{i}": "INVALID" for i in range(18)}
    scripted(healthy, rack(18, statuses={7: "UNAVAILABLE"}, **{**apart, "c7_7": own}))
    (check, found, cure), = failed(healthy)
    assert (check, found) == ("connections", "node #7 (10.20.0.8) is UNAVAILABLE; none of its 17 peers can use it")
    assert cure.startswith("on that node: `systemctl status nvidia-imex`"), cure
    assert findings(healthy, 1)["domain"] | {"cure": ""} == {"name": "imex domain", "subject": "imex", "check": "domain", "result": "skipped",
                                                             "found": "18 nodes, state DEGRADED: see the lines above", "cure": ""}


@pytest.mark.parametrize("word,cell,cure", [("NODE_MAP_MISMATCH", "!M!", "compare /etc/nvidia-imex/nodes_config.cfg on both nodes"),
                                            ("VERSION_MISMATCH", "!V!", "install the same nvidia-imex version on every node"),
                                            ("AUTHENTICATING", "A", "compare IMEX_AUTH_* in config.cfg on both nodes")])
def test_what_the_daemons_refuse_a_peer_is_told_also_while_it_is_not_ready(healthy, word, cell, cure):
    of_size(healthy, 4)
    refused = {f"c{i}_3": word for i in range(3)} | {f"c3_{i}": "INVALID" for i in range(3)}
    scripted(healthy, rack(4, statuses={3: "UNAVAILABLE"}, **refused))
    (check, found, told), = failed(healthy)
    assert check == "connections" and found.startswith(f"node #3 (10.20.0.4) is not connected with 3 of its peers (0-2): {cell}, "), found
    assert found.endswith(" (node #3 is UNAVAILABLE)") and cure in told, (found, told)


def test_a_domain_whose_state_is_down_is_no_domain_whatever_its_table_shows(healthy):
    scripted(healthy, answer("DOWN"))
    assert_finds(healthy, "domain", "fail", "2 nodes, every pair shown as connected, but the domain state is DOWN", "restart the job")


def test_peers_behind_a_blocked_command_port_are_told_as_such(healthy):
    scripted(healthy, answer("DEGRADED", "UNAVAILABLE", None))
    assert_finds(healthy, "command port", "fail", "1 peer is connected but tells no status (node 1): TCP port 50005 (IMEX_CMD_PORT) is blocked between the nodes?",
                 "open port 50005 between the nodes in the security group, beside 50000")


def test_a_peer_without_a_daemon_is_told_with_its_address(healthy):
    scripted(healthy, answer("DEGRADED", "UNAVAILABLE", "NEVER_CONNECTED"))
    assert_finds(healthy, "connections", "fail", "node #1 (10.20.0.2) is UNAVAILABLE; its only peer cannot use it", "on that node: `systemctl status nvidia-imex`")


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
    fabric(node, "0, Completed, Success")
    node.sh(f"mkdir -m 755 {CHANNEL_DIR}; mknod -m 666 {CHANNEL} c 235 0")
    told, merged = by_srun(node, 0)
    assert merged["lists"] == [] and merged["nodes"][0]["list"] is None, merged
    assert ("node lists", "warn", "no node of job 4711 holds a node list: no prolog has made a domain for it") in told, told
    assert_done(node, node.prolog())
    told, merged = by_srun(node, 0)
    assert merged["nodes"] == [{"node": "ultra-1", "answered": True, "list": merged["lists"][0]["list"], "place": 0, "daemon": "READY", "version": "580.95.05"}], merged
    assert (merged["lists"][0]["holders"], merged["lists"][0]["pairs"], merged["lists"][0]["not_connected"]) == (["ultra-1"], 0, []), merged
    assert [one for one in told if one[1] == "warn"] == [], told
    assert any(check == "node lists" and found.endswith("(1 node) is held by ultra-1") for check, _, found in told), told
