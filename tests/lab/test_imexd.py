"""The semantics of the make-believe nvidia-imex, one by one, on loopback addresses. Times run at a tenth."""

import itertools
import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest

import tools

SCALE = 0.1
PATIENCE = 30.0
# Below the range from which the kernel draws the ports of outgoing connections (32768 to 60999): there another daemon's connection may hold
# the very port that a daemon wants to listen on.
_ports = itertools.count(12000 + (os.getpid() % 200) * 100, 2)


class Node:
    def __init__(self, domain, index):
        self.domain = domain
        self.address = f"127.0.7.{index + 1}"
        self.folder = domain.folder / f"node{index}"
        self.folder.mkdir()
        self.config = self.folder / "config.cfg"
        self.list = self.folder / "nodes_config.cfg"
        self.log = self.folder / "nvidia-imex.log"
        self.process = None
        self.more_config = {}

    def write(self, addresses, header=""):
        self.list.write_text(header + "".join(a + "\n" for a in addresses))
        keys = {
            "DAEMONIZE": 0, "SERVER_PORT": self.domain.port, "IMEX_CMD_PORT": self.domain.port + 1, "IMEX_CMD_ENABLED": 1,
            "BIND_INTERFACE_IP": self.address, "IMEX_CMD_BIND_INTERFACE_IP": self.address,
            "LOG_FILE_NAME": self.log, "IMEX_NODE_CONFIG_FILE": self.list, **self.more_config,
        }
        self.config.write_text("# made by a test\n" + "".join(f"{k}={v}\n" for k, v in keys.items()))

    def environment(self, faults=""):
        return {"IMEX_TIME_SCALE": str(SCALE), "IMEX_RUN_DIR": str(self.folder / "run"), "IMEX_FAULTS": faults,
                "IMEX_LAB_FILE": "/nonexistent"}

    def start(self, faults=""):
        self.process = subprocess.Popen([self.domain.daemon, "-c", str(self.config)], env=self.environment(faults))
        return self

    def restart(self, faults=""):
        self.end()
        return self.start(faults)

    def end(self):
        self.process.terminate()
        assert self.process.wait(PATIENCE) == 0

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)

    def ctl(self, *words, faults="", limit=PATIENCE):
        return subprocess.run([self.domain.ctl, "-c", str(self.config), *words], env=self.environment(faults), text=True,
                              capture_output=True, timeout=limit)

    def word(self):
        return self.ctl("-q").stdout.strip()

    def report(self):
        done = self.ctl("-N", "-j")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def cell(self, there):
        """What this node says of its own connection to `there`."""
        report = self.report()
        own = next(n for n in report["nodes"].values() if n["host"] == self.address)
        return next(c["status"] for c in own["connections"].values() if c["host"] == there.address)

    def story(self):
        """What became of this node, for a failed test's message."""
        end = "not started" if self.process is None else f"exit {self.process.poll()}"
        log = self.log.read_text().splitlines() if self.log.exists() else []
        return f"{self.address} port {self.domain.port} ({end}) says {self.word()!r}, last logged {log[-2:]}"

    def said(self, text):
        return text in self.log.read_text()


class Domain:
    def __init__(self, folder, count):
        self.folder = folder
        self.port = next(_ports)
        self.daemon = folder / "nvidia-imex"
        self.ctl = folder / "nvidia-imex-ctl"
        for name in (self.daemon, self.ctl):
            name.symlink_to(tools.imexd())
        self.nodes = [Node(self, i) for i in range(count)]
        self.addresses = [n.address for n in self.nodes]
        for node in self.nodes:
            node.write(self.addresses)

    def up(self):
        report = self.nodes[0].report()
        return report is not None and report["status"] == "UP"


@pytest.fixture
def domain(tmp_path):
    made = []

    def make(count):
        made.append(Domain(tmp_path, count))
        return made[-1]

    yield make
    for one in made:
        for node in one.nodes:
            if node.process is not None and node.process.poll() is None:
                node.kill()


def until(condition, what, limit=PATIENCE):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"never: {what() if callable(what) else what}")


def all_started(one):
    for node in one.nodes:
        node.start()
    until(one.up, lambda: "domain UP; " + "; ".join(node.story() for node in one.nodes))
    return one.nodes


# --- start ---------------------------------------------------------------------------------------------------------------

def test_three_equal_lists_become_one_domain_that_is_up(domain):
    nodes = all_started(domain(3))
    assert [n.word() for n in nodes] == ["READY"] * 3
    assert all(a.cell(b) == "CONNECTED" for a in nodes for b in nodes)


def test_the_node_id_is_the_index_of_the_line_and_comments_do_not_count(domain):
    one = domain(2)
    for node in one.nodes:
        node.write(one.addresses, header="## made by a tool\n\n# another comment\n")
    nodes = all_started(one)
    assert nodes[0].said("Identified this node as ID 0, using bind IP of '127.0.7.1'")
    assert nodes[1].said("Identified this node as ID 1, using bind IP of '127.0.7.2'")


def test_a_list_without_an_own_address_refuses_to_start(domain):
    node = domain(1).nodes[0]
    node.write(["127.0.7.8", "127.0.7.9"])
    node.start()
    assert node.process.wait(PATIENCE) == 1
    assert node.said("No matching network interface found for any IP addresses in the node configuration file " + str(node.list))


def test_without_a_bind_address_the_first_own_address_in_the_list_is_taken(domain):
    node = domain(1).nodes[0]
    node.more_config = {"BIND_INTERFACE_IP": ""}
    node.write(["127.0.7.9", "127.0.0.1"])
    node.start()
    until(lambda: node.log.exists() and node.said("Identified this node as ID 1, using bind IP of '127.0.0.1'"), "own address found")


def test_a_missing_node_list_fails_and_an_empty_one_ends_with_0_and_no_daemon(domain):
    node = domain(1).nodes[0]
    node.list.unlink()
    node.start()
    assert node.process.wait(PATIENCE) == 1
    assert node.said("Failed to read node configuration file")
    node.write([], header="# nothing\n")
    node.start()
    assert node.process.wait(PATIENCE) == 0
    assert node.ctl("-q").returncode == 1


def test_a_second_daemon_is_refused_while_the_first_lives(domain):
    node = domain(1).nodes[0].start()
    until(lambda: node.word() == "READY", "READY")
    second = subprocess.run([node.domain.daemon, "-c", str(node.config)], env=node.environment(), timeout=PATIENCE)
    assert second.returncode == 1
    assert node.said("Failed to allocate Imex session. Error: NV_ERR_IN_USE")
    assert node.word() == "READY"


def test_a_port_that_another_program_holds_stops_the_start(domain):
    node = domain(1).nodes[0]
    with socket.socket() as other:
        other.bind((node.address, node.domain.port))
        other.listen()
        node.start()
        assert node.process.wait(PATIENCE) == 1
    assert node.said(f"Failed to bind to 127.0.7.1:{node.domain.port}: Address already in use")


def test_a_forking_start_returns_when_the_daemon_runs_and_fails_when_it_cannot(domain):
    node = domain(1).nodes[0]
    node.more_config = {"DAEMONIZE": 1}
    node.write([node.address])
    done = subprocess.run([node.domain.daemon, "-c", str(node.config)], env=node.environment("die_after=20"), timeout=PATIENCE)
    assert done.returncode == 0
    assert node.word() in ("INITIALIZING", "INIT_GPU", "READY")
    again = subprocess.run([node.domain.daemon, "-c", str(node.config)], env=node.environment(), timeout=PATIENCE)
    assert again.returncode == 1
    until(lambda: node.ctl("-q").returncode == 1, "the daemon ended by itself")


def test_words_of_the_start_come_in_order(domain):
    node = domain(1).nodes[0].start("slow_ready=6")
    seen = []
    until(lambda: (seen.append(node.word()) or seen[-1]) == "READY", "READY")
    assert [w for w, _ in itertools.groupby(w for w in seen if "error" not in w)] == ["INITIALIZING", "INIT_GPU", "READY"]


def test_never_ready_stays_initializing(domain):
    node = domain(1).nodes[0].start("never_ready=1")
    until(lambda: node.word() == "INITIALIZING", "it answers")
    time.sleep(0.3)
    assert node.word() == "INITIALIZING"
    assert node.report()["status"] == "DOWN"


def test_the_list_is_read_at_the_start_only(domain):
    one = domain(2)
    nodes = all_started(one)
    nodes[0].write([nodes[0].address])
    nodes[0].process.send_signal(signal.SIGUSR1)
    time.sleep(0.3)
    # the daemon still has two nodes, though its file says one
    assert len(nodes[0].report()["nodes"]) == 2
    until(one.up, "UP again with the old list")


# --- identity ------------------------------------------------------------------------------------------------------------

def test_the_order_of_the_list_is_part_of_the_identity(domain):
    one = domain(2)
    one.nodes[1].write(list(reversed(one.addresses)))
    a, b = (n.start() for n in one.nodes)
    until(lambda: a.word() == "READY" and b.word() == "READY", "both READY: readiness does not ask for peers")
    until(lambda: a.cell(b) == "NODE_MAP_MISMATCH" and b.cell(a) == "NODE_MAP_MISMATCH", "both sides blocked")
    assert a.said("Node configuration mapping mismatch") and b.said("Node configuration mapping mismatch")
    assert a.report()["status"] == "DOWN"


def test_a_met_difference_blocks_each_side_until_that_side_restarts(domain):
    one = domain(2)
    a, b = one.nodes
    b.write([b.address, a.address])  # the stale list
    a.start(), b.start()
    until(lambda: a.report() and a.cell(b) == "NODE_MAP_MISMATCH", "blocked")
    b.write(one.addresses)
    b.restart()
    until(lambda: b.word() == "READY", "the peer is back with our list")
    time.sleep(0.5)
    assert a.cell(b) == "NODE_MAP_MISMATCH"   # a met the difference and keeps the block
    assert b.cell(a) == "NEVER_CONNECTED"     # b, restarted, did not meet it but is refused
    a.restart()
    until(one.up, "cured by restarting the side that was blocked")


def test_the_side_that_is_called_is_blocked_as_well_as_the_one_that_calls(domain):
    one = domain(2)
    a, b = one.nodes
    a.start("backoff=300")  # after its first attempt it does not call for half a minute
    until(lambda: a.word() == "READY", "READY")
    b.write([b.address, a.address])
    b.start()
    until(lambda: b.report() and b.cell(a) == "NODE_MAP_MISMATCH", "the caller is blocked")
    assert a.cell(b) == "NODE_MAP_MISMATCH"


def test_a_mismatch_blocks_one_pair_and_leaves_the_others_connected(domain):
    one = domain(3)
    a, b, c = one.nodes
    c.write([c.address, a.address, b.address])
    for node in one.nodes:
        node.start()
    until(lambda: a.report() and a.cell(b) == "CONNECTED" and a.cell(c) == "NODE_MAP_MISMATCH", "one pair good, one blocked")
    assert b.cell(a) == "CONNECTED"
    until(lambda: a.report()["status"] == "DEGRADED", "DEGRADED")


def test_a_peer_that_is_not_in_the_list_is_a_mismatch_for_the_one_who_asks(domain):
    one = domain(3)
    a, b, c = one.nodes
    b.write([b.address, c.address])     # an earlier job without a
    a.write([a.address, b.address])
    a.start(), b.start()
    until(lambda: a.report() and a.cell(b) == "NODE_MAP_MISMATCH", "blocked")
    assert b.said("127.0.7.1 is not in our node configuration file")


def test_the_same_list_again_connects_to_the_old_daemon_as_if_it_were_the_new_one(domain):
    one = domain(2)
    a, b = all_started(one)
    a.restart()  # the next job has the same list; b has not restarted yet
    until(one.up, "UP though b is the daemon of the earlier job")
    b.restart()
    until(lambda: b.word() == "READY" and one.up(), "UP again after b's own restart")
    assert a.said("Connection lost to node 1") or a.said("Received notification of shutdown from node 1")


def test_where_refusal_blocks_the_pair_needs_both_sides_restarted(domain):
    one = domain(2)
    a, b = one.nodes
    b.write([b.address, a.address])
    a.start("refusal_blocks=1"), b.start("refusal_blocks=1")
    until(lambda: a.report() and a.cell(b) == "NODE_MAP_MISMATCH", "blocked")
    b.write(one.addresses)
    b.restart("refusal_blocks=1")
    until(lambda: b.report() and b.cell(a) == "NODE_MAP_MISMATCH", "the refused side is blocked as well")


def test_another_version_is_met_as_version_mismatch_on_both_sides(domain):
    one = domain(2)
    a, b = one.nodes
    a.start(), b.start("version=580.95")
    until(lambda: a.report() and a.cell(b) == "VERSION_MISMATCH" and b.cell(a) == "VERSION_MISMATCH", "!V! on both sides")
    report = a.report()
    assert report["nodes"]["1"]["status"] == "UNAVAILABLE"
    assert report["status"] == "DOWN"
    assert "!V!" in a.ctl("-N").stdout


def test_a_daemon_that_does_not_match_the_driver_aborts(domain):
    node = domain(1).nodes[0].start("driver_version=580.95")
    assert node.process.wait(PATIENCE) == 1
    assert node.said("is not matching with current GPU driver version 580.95")


# --- connections ---------------------------------------------------------------------------------------------------------

def test_a_peer_that_comes_late_is_found_by_trying_again(domain):
    one = domain(2)
    a, b = one.nodes
    a.start()
    until(lambda: a.word() == "READY", "READY alone")
    assert a.cell(b) == "NEVER_CONNECTED"
    time.sleep(0.4)
    b.start()
    until(one.up, "UP")
    assert a.said("Attempting connection for target node 1, attempt #2")


def test_attempts_follow_the_backoff_and_usr1_cuts_it_short_once_in_five_seconds(domain):
    one = domain(2)
    a, b = one.nodes
    a.start("backoff=300")
    until(lambda: a.word() == "READY", "READY")
    b.start()
    until(lambda: b.word() == "READY", "READY")
    time.sleep(0.3)
    assert a.cell(b) == "NEVER_CONNECTED"  # the next attempt is 30 s away
    a.process.send_signal(signal.SIGUSR1)
    until(lambda: a.cell(b) == "CONNECTED", "connected by the nudge")
    a.process.send_signal(signal.SIGUSR1)
    until(lambda: a.said("Ignoring SIGUSR1"), "the second nudge came too early")
    time.sleep(0.5)
    a.process.send_signal(signal.SIGUSR1)
    until(lambda: a.log.read_text().count("restarting all outgoing connections") == 2, "a later nudge is taken")


def test_a_peer_that_is_killed_is_recovering_and_one_that_ends_gracefully_is_disconnected(domain):
    one = domain(3)
    a, b, c = all_started(one)
    b.kill()
    until(lambda: a.cell(b) == "RECOVERING", "R")
    assert a.said("Connection lost to node 1")
    c.end()
    until(lambda: a.cell(c) == "DISCONNECTED", "D")
    assert a.said("Received notification of shutdown from node 2")
    assert a.report()["status"] == "DOWN"   # nobody is left


def test_one_dead_node_of_three_degrades_the_domain_and_its_row_is_invalid(domain):
    one = domain(3)
    a, b, c = all_started(one)
    c.kill()
    until(lambda: a.report()["status"] == "DEGRADED", "DEGRADED")
    row = a.report()["nodes"]["2"]
    assert row["status"] == "UNAVAILABLE" and row["version"] == ""
    assert {cell["status"] for cell in row["connections"].values()} == {"INVALID"}


def test_usr1_drops_and_reopens_connections_that_were_up(domain):
    one = domain(2)
    a, b = all_started(one)
    a.process.send_signal(signal.SIGUSR1)
    until(lambda: a.log.read_text().count("Connection established to node 1") == 2, "opened again")
    until(one.up, "UP")


# --- the end, clean and unclean -------------------------------------------------------------------------------------------

def test_a_graceful_end_leaves_no_persist_file_and_the_next_start_is_ready_alone(domain):
    one = domain(2)
    a, b = all_started(one)
    assert (a.folder / "run" / "persist.dat").exists()
    b.end()
    a.restart()
    assert a.said("Persistence file does not exist")
    until(lambda: a.word() == "READY", "READY without the peer")


def test_after_a_kill_with_the_same_list_it_waits_for_the_earlier_peers(domain):
    one = domain(2)
    a, b = all_started(one)
    a.kill(), b.end()
    a.start()
    until(lambda: a.word() == "WAITING_FOR_RECOVERY", "WAITING_FOR_RECOVERY")
    assert a.report()["status"] == "DOWN"
    b.start()
    until(one.up, "UP once the peer is back")


def test_after_a_kill_with_another_list_the_persist_file_is_dropped(domain):
    one = domain(3)
    a, b, c = all_started(one)
    a.kill()
    a.write([a.address, c.address])
    a.start()
    until(lambda: a.word() == "READY", "READY")
    assert a.said("Persistence file belongs to another node configuration")


def test_after_a_kill_quorum_none_does_not_wait(domain):
    one = domain(2)
    a, b = all_started(one)
    a.kill(), b.end()
    a.more_config = {"IMEX_WAIT_FOR_QUORUM": "NONE"}
    a.write(one.addresses)
    a.start()
    until(lambda: a.word() == "READY", "READY")


def test_full_quorum_of_older_releases_waits_for_every_peer(domain):
    one = domain(2)
    a, b = one.nodes
    a.more_config = {"IMEX_WAIT_FOR_QUORUM": "FULL"}
    a.write(one.addresses)
    a.start()
    until(lambda: a.word() == "WAITING_FOR_PEERS", "WAITING_FOR_PEERS")
    b.start()
    until(lambda: a.word() == "READY", "READY")


def test_a_hanging_stop_ignores_term_and_dies_by_kill(domain):
    node = domain(1).nodes[0].start("stop_hang=1")
    until(lambda: node.word() == "READY", "READY")
    node.process.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        node.process.wait(0.5)
    assert node.word() == "READY"
    node.kill()


def test_a_daemon_told_to_die_ends_without_a_word(domain):
    one = domain(2)
    a, b = one.nodes
    a.start(), b.start("die_after=10")
    until(one.up, "UP")
    assert b.process.wait(PATIENCE) == 1
    until(lambda: a.cell(b) == "RECOVERING", "R: no notice was sent")


# --- faults ---------------------------------------------------------------------------------------------------------------

def test_a_hung_daemon_answers_nobody_and_does_not_hold_up_the_others(domain):
    one = domain(2)
    a, b = one.nodes
    a.start(), b.start("hang_after=10")
    until(one.up, "UP")
    until(lambda: a.report()["nodes"]["1"]["status"] == "UNAVAILABLE", "the hung peer is silent")
    assert a.cell(b) == "CONNECTED"  # its socket is still open
    begin = time.monotonic()
    done = b.ctl("-q", "-t", "300")
    assert done.returncode == 1 and time.monotonic() - begin < 5
    assert a.report()["status"] == "DEGRADED"
    b.process.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        b.process.wait(0.3)
    b.kill()


def test_a_blocked_command_port_gives_connected_peers_that_are_unavailable_without_a_version(domain):
    one = domain(2)
    a, b = one.nodes
    a.start(), b.start("cmd_blocked=1")
    until(lambda: a.report() and a.report()["status"] == "DEGRADED", "DEGRADED")
    report = a.report()
    assert a.cell(b) == "CONNECTED" and b.cell(a) == "CONNECTED"
    assert report["nodes"]["1"]["status"] == "UNAVAILABLE" and report["nodes"]["1"]["version"] == ""
    assert {c["status"] for c in report["nodes"]["1"]["connections"].values()} == {"INVALID"}
    assert b.word() == "READY" and b.report()["status"] == "UP"  # b itself sees nothing wrong


def test_a_switched_off_command_port_answers_nobody_and_the_daemon_works(domain):
    one = domain(2)
    a, b = one.nodes
    b.more_config = {"IMEX_CMD_ENABLED": 0}
    b.write(one.addresses)
    a.start(), b.start()
    until(lambda: a.report() and a.report()["status"] == "DEGRADED", "DEGRADED")
    assert a.cell(b) == "CONNECTED"
    assert b.ctl("-q").returncode == 1


def test_a_hanging_ctl_never_answers(domain):
    node = domain(1).nodes[0].start()
    until(lambda: node.word() == "READY", "READY")
    with pytest.raises(subprocess.TimeoutExpired):
        node.ctl("-N", faults="ctl_hang=1", limit=0.5)


def test_a_start_that_hangs_never_returns_and_one_that_fails_says_so(domain):
    node = domain(1).nodes[0].start("start_hang=1")
    with pytest.raises(subprocess.TimeoutExpired):
        node.process.wait(0.4)
    node.kill()
    node.start("start_fail=1")
    assert node.process.wait(PATIENCE) == 1


# --- nvidia-imex-ctl --------------------------------------------------------------------------------------------------------

def test_no_daemon_is_error_14(domain):
    done = domain(1).nodes[0].ctl("-q")
    assert done.returncode == 1
    assert done.stdout == "Query Status returned error code: 14\n"


def test_an_unreadable_configuration_or_list_is_exit_255(domain):
    node = domain(1).nodes[0].start()
    until(lambda: node.word() == "READY", "READY")
    node.list.unlink()
    done = node.ctl("-N")
    assert done.returncode == 255 and "Failed to read node configuration file" in done.stderr
    node.config.unlink()
    done = node.ctl("-q")
    assert done.returncode == 255 and "Failed to read configuration file" in done.stderr


def test_the_text_has_the_form_of_the_published_sample(domain):
    nodes = all_started(domain(11))
    text = nodes[0].ctl("-N").stdout
    legend, _, rest = text.partition("\n\n")
    assert legend.splitlines() == [
        "Connectivity Table Legend:",
        "I - Invalid - Node wasn't reachable, no connection status available",
        "N - Never Connected",
        "R - Recovering - Connection was lost, but clean up has not yet been triggered.",
        "D - Disconnected - Connection was lost, and clean up has been triggreed.",
        "A - Authenticating - If GSSAPI enabled, client has initiated mutual authentication.",
        "!V! - Version mismatch, communication disabled.",
        "!M! - Node map mismatch, communication disabled.",
        "C - Connected - Ready for operation",
    ]
    lines = rest.splitlines()
    assert re.fullmatch(r"[1-9]\d?/[1-9]\d?/20\d\d \d\d:\d\d:\d\d\.\d{3}", lines[0])
    assert lines[1] == "Nodes:"
    assert lines[2] == "Node #0   - 127.0.7.1       - READY                - Version: 570.172"
    assert lines[12] == "Node #10  - 127.0.7.11      - READY                - Version: 570.172"
    assert lines[13] == ""
    assert lines[14] == " Nodes From\\To  0   1   2   3   4   5   6   7   8   9   10"
    assert lines[15] == "       0        C   C   C   C   C   C   C   C   C   C   C"
    assert lines[25] == "      10        C   C   C   C   C   C   C   C   C   C   C"
    assert lines[26:] == ["", "Domain State: UP"]


def test_json_has_the_keys_that_readers_use(domain):
    nodes = all_started(domain(2))
    report = json.loads(nodes[1].ctl("-N", "-j", "-H").stdout)
    assert report["status"] == "UP" and set(report) == {"nodes", "timestamp", "status"}
    node = report["nodes"]["1"]
    assert node["host"] == "127.0.7.2" and node["status"] == "READY" and node["version"] == "570.172"
    assert node["hostName"] == socket.gethostname()
    assert node["connections"]["0"] == {"host": "127.0.7.1", "status": "CONNECTED", "changed": True}
    assert "hostName" not in nodes[1].report()["nodes"]["0"]
    # DCGM takes the last "status" of the text for the state of the domain
    text = nodes[1].ctl("-N", "-j").stdout
    assert text[text.rindex('"status":'):].startswith('"status":"UP"')


def test_another_daemon_can_be_asked_by_address_and_port(domain):
    one = domain(3)
    a, b, c = one.nodes
    b.write([b.address, c.address])
    b.start()
    until(lambda: b.word() == "READY", "READY")
    done = subprocess.run([one.ctl, "-i", b.address, str(one.port + 1), "-N", "-j"], env=a.environment(), capture_output=True, text=True,
                          timeout=PATIENCE)
    assert done.returncode == 0
    assert [n["host"] for n in json.loads(done.stdout)["nodes"].values()] == [b.address, c.address]


def test_an_older_ctl_knows_no_json_and_unknown_words_are_usage_errors(domain):
    node = domain(1).nodes[0].start()
    until(lambda: node.word() == "READY", "READY")
    assert node.ctl("-N", "-j", faults="ctl_no_json=1").returncode == 255
    assert node.ctl("-q", "-j").returncode == 255
    assert node.ctl("-N", "--frobnicate").returncode == 255


def test_a_unix_socket_can_be_asked_as_well(domain):
    node = domain(1).nodes[0]
    path = node.folder / "cmd.sock"
    node.more_config = {"IMEX_CMD_UNIX_DOMAIN_PATH": path}
    node.write([node.address])
    node.start()
    until(lambda: node.word() == "READY", "READY over the socket of the configuration")
    assert node.ctl(f"--u={path}", "-q").stdout == "READY\n"
    assert node.ctl("-u", str(path), "-q").stdout == "READY\n"


def test_the_version_is_said(domain):
    node = domain(1).nodes[0]
    done = subprocess.run([node.domain.daemon, "--version"], env=node.environment("version=580.95.05"), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "IMEX version is: 580.95.05\n")


def test_a_star_round_the_own_address_is_possible(domain):
    node = domain(1).nodes[0].start()
    until(lambda: node.word() == "READY", "READY")
    assert "Node #0   * 127.0.7.1       * READY                - Version: 570.172" in node.ctl("-N", faults="local_star=1").stdout


def test_an_idle_domain_of_18_costs_next_to_nothing(domain):
    nodes = all_started(domain(18))

    def used():
        return sum(sum(map(int, open(f"/proc/{n.process.pid}/stat").read().rsplit(")", 1)[1].split()[11:13])) for n in nodes)

    begin = used()
    time.sleep(1)
    assert used() - begin <= 30  # ticks of 10 ms, 18 daemons together; one that spins uses a hundred by itself
