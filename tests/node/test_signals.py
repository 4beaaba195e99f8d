"""TERM and KILL in every step, and at every change a run makes; and the run after that."""

import pytest

from expect import assert_done, assert_whole, temporary_files
from node import OLD_LIST

# A tool whose call the signal meets, and the verb of it; the daemon of an earlier job runs at the beginning.
STEPS = {
    "gate: is-enabled": ("systemctl", "is-enabled"),
    "peers: getaddrs": ("scontrol", "getaddrs"),
    "stop": ("systemctl", "stop"),
    "start: reset-failed": ("systemctl", "reset-failed"),
    "start": ("systemctl", "start"),
    "ready": ("nvidia-imex-ctl", "q"),
}


def hanging(node, tool):
    return [line for line in node.read("/fake/hanging", "").splitlines() if line.startswith(tool)]


@pytest.mark.aarch64
@pytest.mark.parametrize("step", ["peers: getaddrs", "ready"])
def test_term_ends_a_run_on_both_architectures(node, step):
    term(node, *STEPS[step], "hang")


@pytest.mark.parametrize("action", ["hang", "hang-hard"])
@pytest.mark.parametrize("step", STEPS)
def test_term_ends_the_child_leaves_whole_files_and_says_where_it_was(node, step, action):
    term(node, *STEPS[step], action)


def term(node, tool, verb, action):
    node.start_unit()
    node.script(tool, verb, action)
    run = node.start()
    node.wait_for(lambda: hanging(node, tool), 20, f"{tool} {verb} to be called")
    run.send(15)
    run.wait(20)
    assert run.signal == 0 and run.code == 143, run
    assert run.out == "" and run.err.count("\n") <= 1
    assert_whole(node)
    assert temporary_files(node) == []
    assert node.leftovers() == [], "a child was left behind"
    assert any("signal" in text.lower() or "sigterm" in text.lower() for level, _, text in node.log() if level != "INFO"), node.log_text()
    node.script(tool, verb)
    assert_done(node, node.prolog(env={"SLURM_JOB_ID": "4712", "SLURM_JOBID": "4712"}), log=False)


def test_term_during_the_question_for_the_instance_type_ends_the_run(node):
    node.imds.mode = "silent"
    run = node.start()
    node.wait_for(lambda: node.imds.requests, 10, "the question")
    run.send(15)
    run.wait(10)
    assert run.code == 143 and run.signal == 0, run
    assert node.list() == OLD_LIST


def test_term_while_waiting_for_the_lock_ends_the_run(node):
    node.script("nvidia-imex-ctl", "q", "sleep 4000 ok")
    one = node.start()
    node.wait_for(lambda: node.calls("nvidia-imex-ctl"), 20, "the first run")
    two = node.start(env={"SLURM_JOB_ID": "4712", "SLURM_JOBID": "4712"})
    node.wait_for(lambda: any(job == "4712" for _, job, _ in node.log()), 10, "the second run")
    two.send(15)
    assert two.wait(3).code == 143, two
    assert_done(node, one.wait(), log=False)


@pytest.mark.parametrize("step", STEPS)
def test_kill_in_a_step_leaves_whole_files_and_the_next_run_repairs(node, step):
    tool, verb = STEPS[step]
    node.start_unit()
    node.script(tool, verb, "signal-parent 9 hang", "ok")
    run = node.prolog()
    assert run.signal == 9, run
    assert_whole(node)
    assert node.leftovers() == [], "a child outlived us"
    again = node.prolog()
    assert_done(node, again)
    assert temporary_files(node) == []


@pytest.mark.parametrize("verb", ["stop", "start"])
def test_kill_while_a_slow_unit_changes_is_repaired_by_the_next_run(node, verb):
    node.daemon(ignore_term=1 if verb == "stop" else None, never_ready=1 if verb == "start" else None)
    if verb == "stop":
        node.start_unit()
    run = node.start()
    node.wait_for(lambda: node.unit_state()["ActiveState"] == ("deactivating" if verb == "stop" else "activating"), 20, verb)
    run.send(9)
    assert run.wait().signal == 9
    assert node.unit_state()["Job"] != ""
    assert_whole(node)
    node.daemon(ignore_term=None, never_ready=None)
    again = node.prolog("--stop-timeout=2", limit=90)
    assert_done(node, again)


CALLS = ("openat", "mkdir,mkdirat", "mknod,mknodat", "fchmod,fchmodat,chmod", "fsync,fdatasync", "rename,renameat,renameat2", "unlink,unlinkat", "ftruncate",
         "flock")


@pytest.mark.parametrize("calls", CALLS)
def test_kill_at_any_system_call_that_changes_something_leaves_whole_files(node, calls):
    """Run after run, the signal one call later, until a run comes through: never a torn list, and that last run repairs everything."""
    names = [name for name in calls.split(",")]
    node.start_unit()
    # Most of the many opens only read (every process of the node is looked at for a daemon outside of the unit).
    for number in [*range(1, 40), *range(41, 2000, 17)] if calls == "openat" else range(1, 60):
        node.forget_calls()
        tracer = ["/usr/bin/strace", "-D", "-qq", "-o", "/dev/null"]
        for name in names:
            tracer += ["-e", f"inject={name}:signal=KILL:when={number}"]
        run = node.start(tracer=tracer + ["--"]).wait(60)
        assert_whole(node)
        assert node.leftovers() == [], "a child outlived us"
        if run.signal == 0:
            break
        assert run.signal == 9, run
    else:
        pytest.fail("no run came through")
    assert run.code == 0, run
    assert_done(node, run)


def test_term_sent_to_the_whole_group_as_slurmd_does_leaves_nothing_behind(node):
    node.start_unit()
    node.script("scontrol", "getaddrs", "hang")
    run = node.start()
    node.wait_for(lambda: hanging(node, "scontrol"), 20, "scontrol to be called")
    pid = run.pid()
    node.sh(f"kill -TERM -{pid}; sleep 0.01; kill -KILL -{pid}", check=False)
    run.wait(10)
    assert run.signal == 9 or run.code == 143, run
    assert node.leftovers() == [], "a child outlived us"
    assert node.list() == OLD_LIST
