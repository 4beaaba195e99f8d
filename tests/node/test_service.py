"""The unit: stop, write, start, ready, and what each of them gets when systemd or the daemon misbehaves."""

import re

import pytest

from expect import CHANGING, assert_done, assert_failed, assert_whole, is_comment_only, temporary_files, wanted_list
from node import LIST, OLD_LIST


def assert_failed_after_stop(node, run, codes, *words):
    """As any failure; and the list holds only comments, so that nothing starts into a stale domain."""
    assert_failed(node, run, codes, *words, unchanged=False)
    assert node.list() and is_comment_only(node.list()), node.list()
    assert node.lstat(LIST).st_mode & 0o777 == 0o644
    assert temporary_files(node) == []


# -- is-enabled

@pytest.mark.aarch64
def test_is_enabled_that_never_says_a_word_fails_here(node):
    node.script("systemctl", "is-enabled", "exit 1")
    run = node.prolog()
    assert_failed(node, run, 5, "nvidia-imex")
    assert len(node.calls("systemctl", "is-enabled")) == 2


@pytest.mark.parametrize("words", ["Failed to connect to bus: No such file or directory", "Failed to get unit file state for nvidia-imex.service: Connection timed out",
                                   "Failed to retrieve unit state: Access denied", "System has not been booted with systemd as init system (PID 1). Can't operate."])
def test_a_systemd_that_cannot_be_asked_is_no_missing_unit(node, words):
    node.script("systemctl", "is-enabled", f"err 1 {words}")
    assert_failed(node, node.prolog(), 5, "nvidia-imex")


def test_is_enabled_that_hangs_is_asked_twice_and_fails(node):
    node.script("systemctl", "is-enabled", "hang")
    run = node.prolog(limit=60)
    assert_failed(node, run, 5, "is-enabled")
    assert len(node.calls("systemctl", "is-enabled")) == 2 and run.seconds < 30


def test_is_enabled_that_hangs_once_is_asked_again(node):
    node.script("systemctl", "is-enabled", "hang", "ok")
    assert_done(node, node.prolog(limit=60))


def test_systemctl_missing_is_said(node):
    node.remove("/usr/bin/systemctl")
    assert_failed(node, node.prolog(), 3, "systemctl")


# -- stop

def test_a_stop_that_hangs_is_ended_through_the_unit_and_the_run_goes_on(node):
    node.daemon(ignore_term=1)
    node.start_unit()
    node.daemon(ignore_term=None)
    old = node.unit_state()["MainPID"]
    run = node.prolog(limit=90)
    assert_done(node, run)
    kills = [call["argv"][1:] for call in node.calls("systemctl", "kill")]
    assert kills and any("KILL" in word for word in kills[0]) and any(word.startswith("nvidia-imex") for word in kills[0]), kills
    assert node.unit_state()["MainPID"] != old and node.sh(f"test -d /proc/{old}", check=False).returncode == 1
    assert run.seconds < 30


def test_a_stop_whose_client_hangs_is_ended_and_the_state_is_asked(node):
    node.start_unit()
    node.script("systemctl", "stop", "hang")
    assert_done(node, node.prolog("--stop-timeout=2", limit=90))


def test_a_daemon_that_kill_does_not_end_fails_here(node):
    node.daemon(ignore_term=1)
    node.start_unit()
    node.unit(kill="noeffect")
    run = node.prolog("--stop-timeout=2", limit=90)
    assert_failed(node, run, 5, "nvidia-imex")
    assert node.list() == OLD_LIST, "the list was written while the daemon runs"
    assert "start" not in [verb for verb in node.verbs() if verb in CHANGING]
    assert run.seconds < 60


def test_a_process_left_in_the_unit_is_ended_before_the_start(node):
    node.daemon(leftover=1)
    node.start_unit()
    node.daemon(leftover=None)
    left = node.read("/fake/imex/leftover").split()[0]
    node.remove("/fake/imex/leftover")
    run = node.prolog("--stop-timeout=2", limit=90)
    assert_done(node, run)
    assert node.sh(f"test -d /proc/{left}", check=False).returncode == 1


def test_a_daemon_outside_of_the_unit_is_named_and_not_killed(node):
    node.daemon(no_strict=1)
    node.sh("setsid /usr/bin/nvidia-imex -c /etc/nvidia-imex/config.cfg </dev/null >/dev/null 2>&1 &")
    pid = node.wait_for(lambda: node.read("/fake/imex/pid", "").strip(), 5, "the daemon")
    run = node.prolog(limit=60)
    assert_failed(node, run, 5, pid)
    assert node.sh(f"test -d /proc/{pid}", check=False).returncode == 0
    assert node.list() == OLD_LIST


def test_a_job_left_queued_by_a_dead_run_is_cancelled_first(node):
    node.write(LIST, "10.20.0.1\n")
    node.daemon(never_ready=1)
    node.sh("systemctl --no-block start nvidia-imex")
    assert node.unit_state()["Job"] != ""
    node.daemon(never_ready=None)
    node.write(LIST, OLD_LIST)
    assert_done(node, node.prolog())


def test_a_stop_left_in_progress_by_a_dead_run_does_not_hold_the_start_back(node):
    node.daemon(ignore_term=1)
    node.start_unit()
    node.daemon(ignore_term=None)
    node.sh("systemctl --no-block stop nvidia-imex")
    run = node.prolog("--stop-timeout=2", limit=90)
    assert_done(node, run)


def test_a_failed_unit_starts_again(node):
    node.daemon(exit=1)
    node.sh("systemctl start nvidia-imex", check=False)
    node.daemon(exit=None)
    assert_done(node, node.prolog())


def test_a_unit_at_its_start_limit_starts_all_the_same(node):
    node.write(LIST, "10.20.0.1\n")
    node.sh("for i in 1 2 3 4 5 6; do systemctl start nvidia-imex; systemctl stop nvidia-imex; done; true")
    node.write(LIST, OLD_LIST)
    assert_done(node, node.prolog())


def test_persist_dat_is_not_touched(node):
    node.write("/run/nvidia-imex/persist.dat", "kept")
    node.daemon(ignore_term=1)
    node.start_unit()
    node.daemon(ignore_term=None)
    before = node.lstat("/run/nvidia-imex/persist.dat")
    assert_done(node, node.prolog("--stop-timeout=2", limit=90))
    assert node.read("/run/nvidia-imex/persist.dat") == "kept" and node.lstat("/run/nvidia-imex/persist.dat").st_mtime_ns == before.st_mtime_ns


def test_persist_dat_is_moved_aside_after_a_kill_where_that_is_wanted(node):
    node.write("/run/nvidia-imex/persist.dat", "kept")
    node.daemon(ignore_term=1)
    node.start_unit()
    node.daemon(ignore_term=None)
    assert_done(node, node.prolog("--drop-persist", "--stop-timeout=2", limit=90))
    assert not node.exists("/run/nvidia-imex/persist.dat")
    assert any(node.read(path) == "kept" for path in node.tree() if path.startswith("/run/nvidia-imex/")), "it is gone and not aside"


# -- start

@pytest.mark.aarch64
def test_a_start_that_fails_fails_here_and_leaves_only_comments(node):
    node.start_unit()
    node.daemon(exit=1)
    assert_failed_after_stop(node, node.prolog(), 5, "nvidia-imex")


def test_a_start_that_hangs_runs_out_of_time_and_its_queued_job_is_cancelled(node):
    node.daemon(never_ready=1)
    run = node.prolog("--deadline=26", limit=60)
    assert_failed_after_stop(node, run, 6, "start")
    state = node.unit_state()
    assert state["Job"] == "" and state["ActiveState"] in ("inactive", "failed"), state
    verbs = node.verbs()
    assert "stop" in verbs[verbs.index("start"):]
    assert run.seconds < 28


def test_a_start_that_is_told_to_have_worked_is_not_believed(node):
    node.unit(start="lies")
    assert_failed_after_stop(node, node.prolog(), 5, "nvidia-imex")


def test_a_daemon_that_ends_with_0_at_once_is_not_believed(node):
    node.daemon(exit=0)
    assert_failed_after_stop(node, node.prolog(), 5, "nvidia-imex")


@pytest.mark.aarch64
def test_a_daemon_that_dies_right_after_the_start_fails_here(node):
    node.daemon(die_after=100)
    node.script("nvidia-imex-ctl", "q", "say 0 INITIALIZING")
    run = node.prolog("--ready-timeout=6")
    assert_failed_after_stop(node, run, 5)
    assert run.seconds < 15


# -- ready

@pytest.mark.parametrize("word", ["INITIALIZING", "STARTING_AUTH_SERVER", "INIT_GPU", "SHUTTING_DOWN", "UNAVAILABLE", "SOMETHING_NEW", "READY_NOT", "ready soon"])
def test_a_daemon_that_is_never_ready_runs_out_of_time(node, word):
    node.script("nvidia-imex-ctl", "q", f"say 0 {word}")
    run = node.prolog("--ready-timeout=2")
    assert_failed(node, run, 6, unchanged=False)
    assert run.seconds < 12
    assert_whole(node)


@pytest.mark.parametrize("word", ["WAITING_FOR_PEERS", "WAITING_FOR_RECOVERY"])
def test_a_daemon_that_waits_for_its_peers_goes_on(node, word):
    node.script("nvidia-imex-ctl", "q", f"say 0 {word}")
    assert_done(node, node.prolog("--ready-timeout=3"))


@pytest.mark.aarch64
def test_ready_is_waited_for(node):
    node.script("nvidia-imex-ctl", "q", "err 14 Query Status returned error code: 14", "say 0 INITIALIZING", "say 0 INIT_GPU", "say 0 READY")
    assert_done(node, node.prolog())
    assert len([call for call in node.calls("nvidia-imex-ctl") if "-q" in call["argv"]]) >= 4


@pytest.mark.parametrize("action", ["err 14 Query Status returned error code: 14", "say 14 Query Status returned error code: 14", "say 0 Query Status returned error code: 14",
                                    "exit 255", "exit 0", "exit 139"])
def test_a_control_tool_that_gives_no_word_is_not_yet_and_then_out_of_time(node, action):
    node.script("nvidia-imex-ctl", "q", action)
    run = node.prolog("--ready-timeout=2")
    assert_failed(node, run, 6, unchanged=False)
    assert_whole(node)


def test_a_control_tool_that_hangs_is_ended_and_time_runs_out(node):
    node.script("nvidia-imex-ctl", "q", "hang-hard")
    run = node.prolog("--ready-timeout=3")
    assert_failed(node, run, 6, unchanged=False)
    assert run.seconds < 15


def test_a_control_tool_that_hangs_once_is_asked_again(node):
    node.script("nvidia-imex-ctl", "q", "hang", "ok")
    run = node.prolog()
    assert_done(node, run)
    assert run.seconds < 15


def test_without_the_control_tool_the_process_and_its_port_are_looked_at(make_node):
    node = make_node(imex_ctl=False)
    assert_done(node, node.prolog())
    assert any("nvidia-imex-ctl" in text for _, _, text in node.log("WARN")), node.log_text()


def test_with_the_command_service_switched_off_the_process_and_its_port_are_looked_at(node):
    config = node.read("/etc/nvidia-imex/config.cfg").replace("IMEX_CMD_ENABLED=1", "IMEX_CMD_ENABLED=0")
    node.write("/etc/nvidia-imex/config.cfg", config)
    assert_done(node, node.prolog())
    assert any("IMEX_CMD_ENABLED" in text for _, _, text in node.log("WARN")), node.log_text()
    assert node.calls("nvidia-imex-ctl") == []


def test_without_the_control_tool_a_daemon_without_a_port_is_not_ready(make_node):
    node = make_node(imex_ctl=False)
    node.daemon(no_port=1)
    run = node.prolog("--ready-timeout=2")
    assert_failed(node, run, (5, 6), unchanged=False)


# -- time

@pytest.mark.parametrize("key", ["PrologEpilogTimeout", "PrologTimeout"])
def test_the_deadline_stays_below_the_limit_of_slurm(node, key):
    node.set_slurm_conf(**{key: 30})
    node.daemon(never_ready=1)
    run = node.prolog(limit=60)
    assert_failed(node, run, 6, unchanged=False)
    assert run.seconds < 27, run.seconds
    assert node.unit_state()["ActiveState"] in ("inactive", "failed")


# -- two at once

def test_two_runs_on_one_node_go_one_after_the_other(node):
    node.start_unit()
    node.script("nvidia-imex-ctl", "q", "sleep 300 ok")
    one = node.start()
    two = node.start(env={"SLURM_JOB_ID": "4712", "SLURM_JOBID": "4712"})
    assert one.wait().code == 0, one
    assert two.wait().code == 0, two
    pids = [call["ppid"] for call in node.calls() if any(verb in call["argv"] for verb in ("stop", "start", "-q", "reset-failed"))]
    changes = sum(1 for before, after in zip(pids, pids[1:]) if before != after)
    assert len(set(pids)) == 2 and changes == 1, f"the two runs mixed their steps: {pids}"
    assert node.list() == wanted_list(node) and len(node.starts()) == 3
    jobs = {job for _, job, _ in node.log()}
    assert jobs == {"4711", "4712"}


def test_a_lock_that_is_held_too_long_names_its_holder(node):
    node.script("nvidia-imex-ctl", "q", "hang", "ok")
    node.script("systemctl", "start", "sleep 9000 ok")
    one = node.start()
    node.wait_for(lambda: node.calls("systemctl", "start"), 10, "the first run to start the unit")
    two = node.prolog("--deadline=93", env={"SLURM_JOB_ID": "4712", "SLURM_JOBID": "4712"})
    assert two.code == 6, two
    assert "4711" in two.err or str(one.pid()) in two.err, two.err
    assert two.seconds < 8
    one.wait(60)
    assert one.code == 0, one
    assert re.search(rb"10\.20\.0\.1\n10\.20\.0\.2\n", node.list())
