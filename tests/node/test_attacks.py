"""What others may have left, taken or written at the paths, variables and limits that the program meets."""

import stat

import pytest

from expect import assert_done, assert_failed, assert_untouched, temporary_files

RUN = "/run/gpu-prolog"
LOCK = RUN + "/imex.lock"


def test_a_user_cannot_take_the_lock_and_keep_every_prolog_waiting(node):
    assert_done(node, node.prolog())
    assert stat.S_IMODE(node.lstat(LOCK).st_mode) == 0o600
    tried = node.sh(f"setpriv --reuid=65534 --regid=65534 --clear-groups flock --nonblock {LOCK} true", check=False)
    assert tried.returncode != 0 and "permission denied" in tried.stderr.lower(), tried


TRAPS = ["mkfifo {0}", "ln -s /nowhere {0}", "ln -s {0} {0}", "mknod {0} c 1 3"]


@pytest.mark.parametrize("path, trap", [(RUN, trap) for trap in [*TRAPS, "echo x > {0}"]] + [(LOCK, trap) for trap in [*TRAPS, "mkdir {0}"]])
def test_what_stands_in_the_place_of_the_lock_is_named_with_a_cure(node, path, trap):
    node.sh((f"mkdir -p {RUN}; " if path == LOCK else "") + trap.format(path))
    assert_failed(node, node.prolog(), 3, f"remove {path}")
    assert_untouched(node)


@pytest.mark.parametrize("trap", ["ln -s gpu-prolog.d {0}", "mkdir {0}", "mkfifo {0}"])
def test_a_config_file_that_is_no_file_is_not_cured_by_chown(node, trap):
    node.remove("/etc/gpu-prolog.toml")
    node.sh(trap.format("/etc/gpu-prolog.toml"))
    run = node.prolog()
    assert_failed(node, run, 2, "/etc/gpu-prolog.toml is no regular file", "in its place")
    assert "chown" not in run.err
    assert_untouched(node)


def limited(node, seconds):
    """slurmd kills a prolog after PrologTimeout; ours ends 5 s before, cleaned up."""
    node.set_slurm_conf(PrologTimeout=seconds)


@pytest.mark.parametrize("verb, action", [("is-enabled", "hang"), ("show", "hang"), ("stop", "hang-hard"), ("start", "hang-hard")])
def test_a_hanging_systemctl_never_takes_a_run_past_slurms_own_limit(node, verb, action):
    limited(node, 10)
    node.start_unit()
    node.script("systemctl", verb, action)
    run = node.prolog(limit=60)
    assert run.code in (5, 6) and run.usage["seconds"] < 10, run
    node.script("systemctl", verb)
    assert temporary_files(node) == []


def test_a_silent_imds_leaves_the_job_its_time(node):
    limited(node, 10)
    node.imds.mode = "silent"
    assert_done(node, node.prolog())


def test_another_jobs_process_is_not_waited_for_past_the_limit(node):
    whole_look = 5  # s: what the look takes where there is time
    limited(node, 8)
    node.job_process(99)
    run = node.prolog()
    assert run.code == 0 and run.usage["seconds"] < whole_look, run
    assert node.log("ERROR")
    assert_untouched(node)


def test_a_dry_run_does_not_say_that_its_intended_outcome_is_there(node):
    run = node.prolog("--dry-run")
    assert run.code == 0, run
    outcome = run.out.splitlines()[-1]
    assert outcome.startswith("outcome: a real run would end with: "), outcome
    assert_untouched(node)
