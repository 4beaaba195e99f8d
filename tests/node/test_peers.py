"""Where the addresses come from, what is refused, and who fails for a fault that all nodes share."""

import pytest

from expect import assert_done, assert_failed, assert_told_but_passed, temporary_files
from node import LIST, OLD_LIST

ULTRA = [f"ultra-{i}" for i in range(1, 20)]


# -- sources

@pytest.mark.aarch64
def test_one_getaddrs_is_all_that_is_asked(node):
    assert_done(node, node.prolog())
    (call,) = node.calls("scontrol")
    assert "getaddrs" in call["argv"] and "ultra-[1-2]" in " ".join(call["argv"]) or "ultra-1" in " ".join(call["argv"])


@pytest.mark.aarch64
@pytest.mark.parametrize("action", ["exit 0", "say 0 ultra-1: 10.20.0.1:6818", "say 0 ultra-1: 0.0.0.0:0\\nultra-2: 10.20.0.2:6818",
                                    "say 0 ultra-1: 10.20.0.1:6818\\nultra-2: 10.20.0.2:0", "say 0 ultra-1: [::]:6818\\nultra-2: 10.20.0.2:6818",
                                    "err 1 invalid entity: getaddrs", "say 0 garbage", "exit 139"])
def test_show_node_is_asked_where_getaddrs_has_no_full_answer(node, action):
    node.script("scontrol", "getaddrs", action)
    assert_done(node, node.prolog())
    assert len(node.calls("scontrol", "getaddrs")) == 1
    (shown,) = node.calls("scontrol", "node")
    assert shown["argv"][1:4] in (["-ao", "show", "node"], ["-a", "-o", "show"]), shown["argv"]


AWKWARD = [("ultra-1", "10.20.0.1", 6818, 'Reason=bad NodeAddr=10.9.9.9 [root@2026-05-04T05:50:00] Comment={"a": "NodeName=ultra-2 NodeAddr=8.8.8.8"}'),
           ("ultra-2", "10.20.0.2", 6818, "Comment=first\\nNodeName=ultra-1 Arch=x NodeAddr=9.9.9.9\\nNode ultra-2 not found Extra=x NodeAddr=7.7.7.7")]


def test_comments_and_reasons_of_nodes_fool_nobody(node):
    """A newline in a comment splits the record, so a line of it can look like a record of its own: refused is right, wrong addresses are not."""
    node.script("scontrol", "getaddrs", "exit 0")
    node.nodes([AWKWARD[0], ("ultra-2", "10.20.0.2", 6818, "Comment=x NodeAddr=7.7.7.7")])
    assert_done(node, node.prolog())


def test_a_comment_with_a_record_of_its_own_never_gives_a_wrong_address(node):
    node.script("scontrol", "getaddrs", "exit 0")
    node.nodes(AWKWARD)
    run = node.prolog()
    assert node.list() in (OLD_LIST, b"10.20.0.1\n10.20.0.2\n"), node.list()
    assert run.code in (0, 4), run


def test_show_node_that_fails_once_is_asked_again(node):
    node.script("scontrol", "getaddrs", "err 1 slurm_load_node error: Unable to contact slurm controller (connect failure)")
    node.script("scontrol", "node", "err 1 slurm_load_node error: Unable to contact slurm controller (connect failure)", "ok")
    assert_done(node, node.prolog())
    assert len(node.calls("scontrol", "node")) == 2


def test_a_node_address_that_is_a_name_is_resolved(node):
    node.nodes([("ultra-1", "10.20.0.1"), ("ultra-2", "host-b.internal")])
    node.hosts(**{"host-b.internal": "10.20.0.2"})
    assert_done(node, node.prolog())
    assert [call["argv"][1:] for call in node.calls("getent")] == [["ahosts", "host-b.internal"]]


def test_loopback_answers_of_a_name_are_dropped(node):
    node.nodes([("ultra-1", "host-a"), ("ultra-2", "10.20.0.2")])
    node.hosts(**{"host-a": "127.0.1.1 ::1 10.20.0.1"})
    assert_done(node, node.prolog())


# -- refusals: shared faults fail on the first node of the block only

SHARED = {
    "unknown node": (lambda node: node.nodes([("ultra-1", "10.20.0.1")]), (4,), "ultra-2"),
    "short answer": (lambda node: (node.script("scontrol", "getaddrs", "exit 0"), node.script("scontrol", "node",
                     "say 0 NodeName=ultra-1 Arch=x86_64 NodeAddr=10.20.0.1 NodeHostName=ultra-1")), (4,), "ultra-2"),
    "empty answer": (lambda node: (node.script("scontrol", "getaddrs", "exit 0"), node.script("scontrol", "node", "exit 0")), (3, 4, 5), "ultra-"),
    "no address": (lambda node: node.nodes([("ultra-1", "10.20.0.1"), ("ultra-2", "-")]), (3, 4, 5), "ultra-2"),
    "0.0.0.0": (lambda node: node.nodes([("ultra-1", "10.20.0.1"), ("ultra-2", "0.0.0.0", 0)]), (3, 4, 5), "ultra-2"),
    "unspecified six": (lambda node: node.nodes([("ultra-1", "10.20.0.1"), ("ultra-2", "::", 0)]), (3, 4, 5), "ultra-2"),
    "loopback": (lambda node: node.nodes([("ultra-1", "10.20.0.1"), ("ultra-2", "127.0.0.1")]), (3, 4, 5), "ultra-2"),
    "loopback six": (lambda node: node.nodes([("ultra-1", "10.20.0.1"), ("ultra-2", "::1")]), (3, 4, 5), "ultra-2"),
    "duplicate": (lambda node: node.nodes([("ultra-1", "10.20.0.1"), ("ultra-2", "10.20.0.1")]), (3, 4, 5), "ultra-2"),
    "duplicate own": (lambda node: node.nodes([("ultra-1", "10.20.0.2"), ("ultra-2", "10.20.0.2")]), (3, 4, 5), "ultra-"),
    "unresolvable name": (lambda node: node.nodes([("ultra-1", "10.20.0.1"), ("ultra-2", "nowhere")]), (3, 4, 5), "nowhere"),
    "name with two addresses": (lambda node: (node.nodes([("ultra-1", "10.20.0.1"), ("ultra-2", "twice")]),
                                              node.hosts(twice="10.20.0.2 10.20.0.3")), (3, 4, 5), "twice"),
    "name with loopback only": (lambda node: (node.nodes([("ultra-1", "10.20.0.1"), ("ultra-2", "looped")]),
                                              node.hosts(looped="127.0.1.1")), (3, 4, 5), "looped"),
    "hostile name": (lambda node: node.nodes([("ultra-1", "10.20.0.1"), ("ultra-2", "--help")]), (3, 4, 5), "ultra-2"),
}


@pytest.mark.aarch64
@pytest.mark.parametrize("fault", ["unknown node", "duplicate"])
def test_a_fault_of_the_list_fails_on_the_first_node_of_the_list_on_both_architectures(node, fault):
    prepare, codes, word = SHARED[fault]
    prepare(node)
    assert_failed(node, node.prolog(), codes, word)


@pytest.mark.parametrize("fault", SHARED)
def test_a_fault_that_all_nodes_share_fails_on_the_first_node_of_the_list(node, fault):
    prepare, codes, word = SHARED[fault]
    prepare(node)
    node.start_unit()
    run = node.prolog()
    assert_failed(node, run, codes, word)
    assert temporary_files(node) == []


@pytest.mark.parametrize("fault", [fault for fault in SHARED if fault != "duplicate own"])
def test_a_fault_that_all_nodes_share_is_an_error_in_the_log_of_the_others_and_drains_them_not(make_node, fault):
    node = make_node(index=1)
    prepare, _, word = SHARED[fault]
    prepare(node)
    if fault in ("unknown node", "short answer"):  # seen from the second node, the first one is the stranger
        word = {"unknown node": "ultra-2", "short answer": "ultra-2"}[fault]
    if fault == "duplicate":
        node.nodes([("ultra-1", "10.20.0.2"), ("ultra-2", "10.20.0.2")])
    run = node.prolog()
    assert_told_but_passed(node, run, word)


def test_blame_all_fails_on_every_node(make_node):
    node = make_node(index=1)
    node.nodes([("ultra-2", "10.20.0.2")])
    run = node.prolog("--blame=all")
    assert_failed(node, run, 4, "ultra-1")


def test_blame_all_can_be_set_in_the_config_file(make_node):
    node = make_node(index=1)
    node.nodes([("ultra-2", "10.20.0.2")])
    node.config('[imex-prolog]\nblame = "all"\n')
    assert_failed(node, node.prolog(), 4, "ultra-1")


def test_on_failure_continue_logs_the_same_and_exits_with_0(node):
    node.nodes([("ultra-1", "10.20.0.1")])
    node.config('[imex-prolog]\non-failure = "continue"\n')
    run = node.prolog()
    assert run.code == 0 and run.out == "", run
    assert any("ultra-2" in text for _, _, text in node.log("ERROR"))
    assert node.list() == OLD_LIST


def test_on_failure_continue_stops_a_daemon_that_holds_another_jobs_list(node):
    node.start_unit()
    node.nodes([("ultra-1", "10.20.0.1")])
    run = node.prolog("--on-failure=continue")
    assert run.code == 0, run
    assert node.unit_state()["ActiveState"] in ("inactive", "failed")


@pytest.mark.parametrize("index", [0, 1])
def test_an_own_address_that_this_host_does_not_have_fails_here(make_node, index):
    node = make_node(index=index, own_addresses=False)
    node.ip("addr", "add", "10.20.77.7/16", "dev", "eth0")
    run = node.prolog()
    assert_failed(node, run, (3, 4, 5), f"10.20.0.{index + 1}")


def test_an_own_address_on_the_loopback_interface_counts(make_node):
    node = make_node(own_addresses=False)
    node.ip("addr", "add", "10.20.0.1/32", "dev", "lo")
    assert_done(node, node.prolog())


def test_an_own_address_on_an_interface_that_is_down_does_not_count(make_node):
    node = make_node(own_addresses=False)
    node.ip("link", "add", "down0", "type", "veth", "peer", "name", "down1")
    node.ip("addr", "add", "10.20.0.1/16", "dev", "down0")
    assert_failed(node, node.prolog(), (3, 4, 5), "10.20.0.1")


# -- scontrol itself

def test_scontrol_that_hangs_is_ended_and_time_runs_out(node):
    node.script("scontrol", "getaddrs", "hang-hard")
    node.script("scontrol", "node", "hang-hard")
    run = node.prolog("--deadline=26", limit=60)
    assert_failed(node, run, 6, "scontrol")
    assert run.seconds < 28


def test_getaddrs_that_hangs_is_followed_by_show_node(node):
    node.script("scontrol", "getaddrs", "hang")
    run = node.prolog(limit=60)
    assert_done(node, run)
    assert 8 < run.seconds < 20


def test_a_grandchild_of_scontrol_that_holds_the_output_holds_nobody_up(node):
    node.script("scontrol", "getaddrs", "orphan ok")
    run = node.prolog(limit=30)
    assert run.code == 0 and run.seconds < 15, run
    assert node.list() == b"10.20.0.1\n10.20.0.2\n"


@pytest.mark.parametrize("verb", ["getaddrs", "node"])
def test_a_flood_from_scontrol_is_capped(node, verb):
    node.script("scontrol", "getaddrs", "exit 0" if verb == "node" else f"flood {1 << 30}")
    if verb == "node":
        node.script("scontrol", "node", f"flood {1 << 30}")
    run = node.prolog("--deadline=40", limit=60)
    assert run.usage["maxrss_kb"] < 131072, run.usage  # what is kept must hold the records of the largest job
    if verb == "getaddrs":
        assert run.code == 0, run
        assert node.list() == b"10.20.0.1\n10.20.0.2\n"
    else:
        assert run.code in (4, 6), run
        assert node.list() == OLD_LIST


def test_scontrol_missing_everywhere_is_said(make_node):
    node = make_node(scontrol=None)
    assert_failed(node, node.prolog(), 3, "scontrol")


@pytest.mark.parametrize("harm", ["chmod 777 /opt/slurm/bin/scontrol", "chown 1000 /opt/slurm/bin/scontrol", "chmod 777 /opt/slurm/bin", "chown 1000 /opt/slurm",
                                  "chmod o+w /opt"])
def test_scontrol_that_others_can_change_is_not_run(make_node, harm):
    node = make_node(parent="/usr/local/libexec/launcher")
    node.sh(harm)
    run = node.prolog()
    assert_failed(node, run, 3, "scontrol")
    assert node.calls("scontrol") == []


def test_scontrol_is_found_below_the_pcs_folder_and_the_highest_version_is_taken(make_node):
    node = make_node(parent="/usr/local/libexec/launcher", scontrol="/opt/aws/pcs/scheduler/slurm-25.05/bin/scontrol")
    assert_done(node, node.prolog())
    assert {call["exe"] for call in node.calls("scontrol")} == {"/opt/aws/pcs/scheduler/slurm-25.05/bin/scontrol"}
    node.forget_calls()
    for version in ("slurm-9.11", "slurm-25.11", "slurm-100.01"):
        node.install_tool(f"/opt/aws/pcs/scheduler/{version}/bin/scontrol")
    node.sh("mkdir -p /opt/aws/pcs/scheduler/slurm-999.99/bin /opt/aws/pcs/scheduler/slurm-x/bin")
    assert_done(node, node.prolog())
    assert {call["exe"] for call in node.calls("scontrol")} == {"/opt/aws/pcs/scheduler/slurm-100.01/bin/scontrol"}


@pytest.mark.parametrize("path", ["/opt/slurm/bin/scontrol", "/usr/local/bin/scontrol", "/usr/bin/scontrol"])
def test_scontrol_is_found_in_each_documented_place(make_node, path):
    node = make_node(parent="/usr/local/libexec/launcher", scontrol=path)
    assert_done(node, node.prolog())
    assert {call["exe"] for call in node.calls("scontrol")} == {path}


@pytest.mark.parametrize("name", ["slurmd", "slurmstepd"])
def test_scontrol_beside_the_running_slurmd_comes_first(make_node, name):
    node = make_node(parent=f"/srv/slurm-25/sbin/{name}", scontrol="/srv/slurm-25/bin/scontrol")
    node.install_tool("/opt/slurm/bin/scontrol")
    node.install_tool("/opt/aws/pcs/scheduler/slurm-25.05/bin/scontrol")
    assert_done(node, node.prolog())
    assert {call["exe"] for call in node.calls("scontrol")} == {"/srv/slurm-25/bin/scontrol"}


def test_the_place_of_a_slurmd_that_was_replaced_while_it_runs_is_known(make_node):
    node = make_node(parent="/srv/slurm-25/sbin/slurmd", scontrol="/srv/slurm-25/bin/scontrol")
    node.install_tool("/opt/slurm/bin/scontrol")
    node.imds.mode, node.imds.delay = "slow", 0.7
    run = node.start()
    run.pid()
    node.remove("/srv/slurm-25/sbin/slurmd")
    assert_done(node, run.wait())
    assert {call["exe"] for call in node.calls("scontrol")} == {"/srv/slurm-25/bin/scontrol"}


def test_a_parent_that_is_no_slurmd_leads_nowhere(make_node):
    node = make_node(parent="/srv/user/sbin/slurmd-wrapper", scontrol="/srv/user/bin/scontrol")
    node.install_tool("/opt/slurm/bin/scontrol")
    assert_done(node, node.prolog())
    assert {call["exe"] for call in node.calls("scontrol")} == {"/opt/slurm/bin/scontrol"}


@pytest.mark.parametrize("harm", ["chown 1000", "chmod 777"])
def test_a_slurmd_that_somebody_else_could_have_written_vouches_for_no_neighbour(make_node, harm):
    node = make_node(parent="/srv/user/sbin/slurmd", scontrol="/srv/user/bin/scontrol")
    node.install_tool("/opt/slurm/bin/scontrol")
    node.sh(f"{harm} /srv/user/sbin/slurmd")
    assert_done(node, node.prolog())
    assert {call["exe"] for call in node.calls("scontrol")} == {"/opt/slurm/bin/scontrol"}


def test_the_path_of_the_caller_is_not_used(make_node):
    node = make_node()
    for tool in ("scontrol", "systemctl", "nvidia-imex-ctl", "getent"):
        node.write(f"/srv/evil/{tool}", "#!/bin/sh\ntouch /srv/evil/was-run\n", 0o755)
    assert_done(node, node.prolog(env={"PATH": "/srv/evil"}))
    assert not node.exists("/srv/evil/was-run")


# -- node lists

@pytest.mark.parametrize("index", [0, 1])
def test_nineteen_nodes_without_a_block_map_are_refused_by_the_blame_rule(make_node, index):
    node = make_node(names=ULTRA, index=index)
    run = node.prolog()
    if index == 0:
        assert_failed(node, run, (3, 4, 5), "19")
    else:
        assert_told_but_passed(node, run, "19")


def test_the_limit_of_a_domain_can_be_set(make_node):
    node = make_node(names=ULTRA)
    assert_done(node, node.prolog("--max-domain-nodes=19"))
    node = make_node(names=ULTRA[:3])
    assert_failed(node, node.prolog("--max-domain-nodes=2"), (3, 4, 5))


HOSTILE = ["$(touch /srv/evil)", "`touch /srv/evil`", "--help", "-ao", "ultra-[1-1000000000]", "ultra-[1-2", "ultra-1]", "ultra-[2-1]", "ultra-[a-b]", "[1-2]",
           "ultra-1;touch /srv/evil", "ultra-[1-2]\nultra-3", "ultra-1,ultra-2\x1b[31m", "ultra-[0-99999][0-99999]", "ultra-[[1-2]]", ",", " ", "ultra-1,,ultra-2",
           "../../etc/passwd", "ultra-\xff", "ultra-[1-2]{b1}", "x" * 100000]


OTHER_FIRST = ("ultra-[2-1]", "ultra-[0-99999][0-99999]")


@pytest.mark.parametrize("nodes", HOSTILE, ids=range(len(HOSTILE)))
def test_a_malformed_or_hostile_node_list_writes_nothing(node, nodes):
    node.sh("mkdir /srv")
    node.script("scontrol", "getaddrs", "exit 0")
    run = node.prolog(env={"SLURM_NODELIST": nodes, "SLURM_JOB_NODELIST": nodes})
    # A newline or a doubled comma is a separator in Slurm's own grammar: then the stranger in it is what is refused. Where the list names
    # another node first, that one fails for all; where it names nobody that could exist, nobody else would fail, so this node does.
    if nodes == "ultra-1,,ultra-2" and run.code == 0:
        return
    assert run.code in (3, 4, 5) or nodes in OTHER_FIRST, run
    assert node.log("ERROR") and node.list() == OLD_LIST
    if run.code:
        assert run.err.count("\n") == 1 and "\x1b" not in run.err, run.err
        assert node.list() == OLD_LIST
    assert not node.exists("/srv/evil")
    assert "\x1b" not in "".join(node.log_text())
    assert len(node.log()) < 200
    assert all(len(call["argv"]) < 10 and not any(word in ("--help",) for word in call["argv"]) for call in node.calls("scontrol"))
    assert run.usage["maxrss_kb"] < 65536 and run.seconds < 20


@pytest.mark.parametrize("missing", [("SLURM_JOB_ID", "SLURM_JOBID"), ("SLURM_NODELIST", "SLURM_JOB_NODELIST")])
def test_without_a_job_or_a_node_list_the_surroundings_are_not_as_needed(node, missing):
    run = node.prolog(env={name: None for name in missing})
    assert_failed(node, run, 3, frame=False)


def test_a_node_that_is_not_in_its_own_list_is_refused(node):
    run = node.prolog(env={"SLURMD_NODENAME": "ultra-9"})
    assert run.code in (3, 4, 5), run
    assert node.list() == OLD_LIST
    assert "ultra-9" in run.err


def test_a_list_on_a_refused_node_is_never_touched(node):
    node.nodes([("ultra-1", "10.20.0.1")])
    before = node.lstat(LIST)
    node.prolog()
    after = node.lstat(LIST)
    assert (before.st_ino, before.st_mtime_ns, before.st_mode) == (after.st_ino, after.st_mtime_ns, after.st_mode)


def test_a_refusal_leaves_the_running_daemon_and_makes_no_stop(node):
    node.start_unit()
    node.nodes([("ultra-1", "10.20.0.1")])
    node.prolog()
    assert "stop" not in node.verbs() and "start" not in node.verbs()


def test_a_user_text_forges_no_line(node):
    run = node.prolog(env={"SLURM_JOB_ID": "1\n2026-05-04T06:08:10.580 [ERROR] [PID:1] [JOB:1] forged\x1b[2J", "SLURMD_NODENAME": "ultra-1"})
    assert run.code in (0, 3), run
    text = node.read("/var/log/nvidia-imex-prolog.log", "")
    assert "\x1b" not in text and "\n2026-05-04T06:08:10.580 [ERROR] [PID:1]" not in text
    assert all("\x1b" not in message and "\n" not in message.rstrip("\n") for message in node.syslog.received)
