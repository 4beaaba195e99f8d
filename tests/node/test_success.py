"""The main job on a node where everything is in order."""

import re

import pytest

from expect import CHANGING, assert_channel, assert_done, assert_log_frame
from node import LIST

ULTRA = [f"ultra-{i}" for i in range(1, 19)]


@pytest.mark.aarch64
def test_two_nodes_get_the_list_in_node_order_and_a_restarted_daemon(make_node):
    node = make_node(config=None)
    node.start_unit()
    before = node.unit_state()["MainPID"]
    run = node.prolog()
    assert_done(node, run)
    assert node.list() == b"10.20.0.1\n10.20.0.2\n"
    assert node.unit_state()["MainPID"] not in ("0", before)


@pytest.mark.aarch64
def test_eighteen_nodes_get_eighteen_addresses_in_node_order(make_node):
    node = make_node(names=ULTRA, index=11, config=None)
    run = node.prolog()
    assert_done(node, run)
    assert node.list().decode().split() == [f"10.20.0.{i}" for i in range(1, 19)]


def test_all_nodes_of_a_job_write_the_same_bytes(make_node):
    lists = set()
    for index in (0, 1, 17):
        node = make_node(names=ULTRA, index=index)
        assert_done(node, node.prolog())
        lists.add(node.list())
    assert len(lists) == 1


def test_a_job_of_one_node_gets_a_list_of_one(make_node):
    node = make_node(names=["ultra-7"])
    assert_done(node, node.prolog())
    assert node.list() == b"10.20.0.1\n"


def test_addresses_follow_the_node_list_and_not_the_order_of_the_answer(make_node):
    node = make_node(names=["b2", "a1", "c3"], addresses=["10.20.0.12", "10.20.0.9", "10.20.0.100"])
    node.nodes([("a1", "10.20.0.9"), ("b2", "10.20.0.12"), ("c3", "10.20.0.100")])
    assert_done(node, node.prolog())
    assert node.list() == b"10.20.0.12\n10.20.0.9\n10.20.0.100\n"


def test_addresses_of_ip_version_six_are_written_in_their_canonical_form(make_node):
    node = make_node(names=["a", "b"], addresses=["fd00:0:0::a", "fd00::B"])
    run = node.prolog()
    assert_done(node, run, addresses=["fd00::a", "fd00::b"])


@pytest.mark.parametrize("version", ["24.11", "25.11", "26.05"])
def test_the_environment_of_each_captured_slurm_works(make_node, version):
    node = make_node(slurm_version=version)
    assert_done(node, node.prolog())


def test_a_slurm_before_23_02_6_gives_only_the_old_name_of_the_node_list(node):
    assert_done(node, node.prolog(env={"SLURM_JOB_NODELIST": None}))


def test_a_first_run_without_an_old_list_makes_one(make_node):
    node = make_node(old_list=None)
    assert_done(node, node.prolog())


def test_the_log_has_the_first_and_last_lines_of_the_script_and_syslog_the_same_tag(node):
    node.prolog()
    assert_log_frame(node)
    lines = [line for line in node.log() if set(line[2]) != {"-"}]
    assert {level for level, _, _ in lines} <= {"INFO", "WARN"}
    node.wait_for(lambda: any("PROLOG End" in message for message in node.syslog.received), 5, "the last line in syslog")
    for message in node.syslog.received:
        assert re.match(r"<\d+>", message) and "91_nvidia_imex_prolog" in message, message
    assert any("PROLOG Start JobId=4711" in message for message in node.syslog.received)


def test_the_log_names_the_nodes_and_their_addresses(node):
    node.prolog()
    text = "\n".join(node.log_text())
    for word in ("10.20.0.1", "10.20.0.2", LIST):
        assert word in text, word
    assert "ultra-[1-2]" in text or ("ultra-1" in text and "ultra-2" in text), text


def test_the_daemon_is_stopped_before_the_list_is_written_and_started_after(node):
    node.start_unit()
    assert_done(node, node.prolog())
    verbs = [verb for verb in node.verbs() if verb in CHANGING]
    assert "kill" not in verbs
    assert verbs.index("stop") < verbs.index("start")
    assert "reset-failed" in verbs[: verbs.index("start")]
    written = node.lstat(LIST).st_mtime
    stopped = [call for call in node.calls("systemctl") if "stop" in call["argv"]][0]["time"]
    started = [call for call in node.calls("systemctl") if "start" in call["argv"]][0]["time"]
    assert stopped < written < started
    states = [line.split() for line in node.read("/fake/systemd/states").splitlines()]
    gone = max(float(line[-1]) for line in states if line[0] in ("inactive", "failed"))
    assert gone < written, "the list was written while the daemon ran"


def test_the_daemon_is_asked_and_not_believed_after_the_start(node):
    assert_done(node, node.prolog())
    verbs = node.verbs()
    after = verbs[verbs.index("start") + 1:]
    assert "is-active" in after or "show" in after
    assert [call["argv"][1:] for call in node.calls("nvidia-imex-ctl") if "-q" in call["argv"]], "nvidia-imex-ctl -q was never asked"


def test_children_get_a_clean_environment_their_own_group_and_no_descriptor_of_ours(node):
    run = node.start(env={"LD_PRELOAD": "/tmp/evil.so", "SLURM_CLUSTERS": "other", "SLURM_TIME_FORMAT": "relative", "IFS": "x",
                          "SYSTEMCTL_SKIP_REDIRECT": "1", "PATH": "/tmp/evil", "NOTIFY_SOCKET": "/run/x", "HTTP_PROXY": "http://10.9.9.9"})
    run.wait()
    assert_done(node, run)
    calls = [call for call in node.calls() if call["tool"] != "nvidia-imex"]
    assert {call["tool"] for call in calls} == {"systemctl", "scontrol", "nvidia-imex-ctl"}
    for call in calls:
        names = {entry.split("=", 1)[0] for entry in call["env"]}
        assert names <= {"PATH", "LC_ALL", "SLURM_CONF"}, call["env"]
        assert "LC_ALL=C" in call["env"] and "/tmp" not in " ".join(call["env"])
        assert call["argv"][0].startswith("/"), call["argv"]
        assert call["pgid"] == call["pid"], "not a process group of its own"
        assert call["pdeathsig"] == 9 or call["pdeathsig"] == 15, call["pdeathsig"]
        assert set(call["fds"]) == {"0", "1", "2"}, call["fds"]
        assert call["fds"]["0"] == "/dev/null"
        assert int(call["blocked"], 16) == 0 and int(call["ignored"], 16) == 0, (call["blocked"], call["ignored"])
    assert "SLURM_CONF=/etc/slurm/slurm.conf" in node.calls("scontrol")[0]["env"]


def test_a_requeued_job_runs_again_on_the_same_node(node):
    assert_done(node, node.prolog())
    first = node.unit_state()["MainPID"]
    assert_done(node, node.prolog(env={"SLURM_JOB_RESTART_COUNT": "1"}))
    assert node.unit_state()["MainPID"] != first and len(node.starts()) == 2


def test_seven_jobs_in_a_row_do_not_meet_the_start_limit(node):
    for job in range(7):
        run = node.prolog(env={"SLURM_JOB_ID": str(5000 + job), "SLURM_JOBID": str(5000 + job)})
        assert run.code == 0, run
    assert len(node.starts()) == 7


def test_the_state_is_on_disk_for_the_epilog(node):
    assert_done(node, node.prolog())
    found = [path for path in node.tree() if path.startswith("/run/gpu-prolog/")]
    assert any("4711" in node.read(path, "") for path in found if node.lstat(path).st_size), found
    for path in ["/run/gpu-prolog", *found]:
        assert node.lstat(path).st_uid == 0 and not node.lstat(path).st_mode & 0o022, path


def test_the_umask_of_slurmd_changes_no_mode(node):
    assert_done(node, node.prolog(umask="077"))
    assert_channel(node)


def test_a_path_that_config_cfg_names_for_the_list_is_used(node):
    config = node.read("/etc/nvidia-imex/config.cfg")
    node.write("/etc/nvidia-imex/config.cfg", "# IMEX_NODE_CONFIG_FILE=/etc/decoy\n"
               + config.replace("IMEX_NODE_CONFIG_FILE=/etc/nvidia-imex/nodes_config.cfg", "IMEX_NODE_CONFIG_FILE=/var/lib/imex/nodes.cfg"))
    node.write("/var/lib/imex/nodes.cfg", "10.99.0.1\n")
    run = node.prolog()
    assert run.code == 0, run
    assert node.read("/var/lib/imex/nodes.cfg") == "10.20.0.1\n10.20.0.2\n"
    assert node.list().startswith(b"# the list of an earlier job") and not node.exists("/etc/decoy")
    assert node.starts() == ["10.20.0.1\n10.20.0.2\n"]
