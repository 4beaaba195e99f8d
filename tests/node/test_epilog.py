"""imex-epilog on make-believe nodes: it stops what this job run's prolog started, and nothing else."""

import pytest

from expect import CHANGING, is_comment_only, temporary_files
from node import LIST, OLD_LIST

EPILOG = {"SLURM_SCRIPT_CONTEXT": "epilog_slurmd"}


def epilog(node, *args, limit=90, **env):
    return node.run(*(("imex-epilog",) + args if args else ()), env={**EPILOG, **env}, limit=limit)


def prepared(node, **env):
    assert node.prolog(env=env).code == 0
    node.forget_calls()


def changes(node):
    return [verb for verb in node.verbs() if verb in CHANGING]


@pytest.mark.aarch64
def test_the_epilog_stops_the_daemon_and_leaves_only_comments(node):
    prepared(node)
    run = epilog(node)
    assert run.code == 0 and (run.out, run.err) == ("", ""), run
    assert node.unit_state()["ActiveState"] == "inactive"
    assert node.list() and is_comment_only(node.list()) and temporary_files(node) == []
    assert "kill" not in changes(node) and "start" not in changes(node)


def test_a_second_epilog_does_nothing(node):
    prepared(node)
    epilog(node)
    node.forget_calls()
    run = epilog(node)
    assert run.code == 0 and changes(node) == [], run


def test_an_epilog_without_a_prolog_does_nothing(node):
    node.start_unit()
    run = epilog(node)
    assert run.code == 0 and (run.out, run.err) == ("", ""), run
    assert changes(node) == [] and node.unit_state()["ActiveState"] == "active" and node.list() == OLD_LIST


def test_an_epilog_that_is_given_only_this_node_stops_the_daemon_all_the_same(node):
    prepared(node)
    run = epilog(node, SLURM_NODELIST="ultra-1", SLURM_JOB_NODELIST="ultra-1", SLURM_JOB_NUM_NODES="1")
    assert run.code == 0 and node.unit_state()["ActiveState"] == "inactive", run


@pytest.mark.parametrize("other", [{"SLURM_JOB_ID": "4710", "SLURM_JOBID": "4710"}, {"SLURM_JOB_SLUID": "s000OTHER"}, {"SLURM_JOB_RESTART_COUNT": "3"},
                                   {"SLURM_JOB_RESTART_COUNT": "1", "SLURM_JOB_START_TIME": "1796099999"}])
def test_the_epilog_of_another_job_or_run_leaves_the_daemon(node, other):
    prepared(node)
    run = epilog(node, **other)
    assert run.code == 0, run
    assert changes(node) == [] and node.unit_state()["ActiveState"] == "active"
    assert node.list() == b"10.20.0.1\n10.20.0.2\n"


def test_what_only_one_side_knows_does_not_keep_the_epilog_from_its_work(node):
    prepared(node)
    run = epilog(node, SLURM_JOB_SLUID=None, SLURM_JOB_RESTART_COUNT=None, SLURM_JOB_START_TIME=None)
    assert run.code == 0 and node.unit_state()["ActiveState"] == "inactive", run


def test_a_daemon_that_was_restarted_by_hand_is_not_ours(node):
    prepared(node)
    node.sh("systemctl stop nvidia-imex; systemctl start nvidia-imex")
    node.forget_calls()
    run = epilog(node)
    assert run.code == 0 and changes(node) == [], run
    assert node.unit_state()["ActiveState"] == "active"


@pytest.mark.aarch64
def test_an_epilog_of_a_job_that_is_not_exclusive_costs_no_child(node):
    node.start_unit()
    run = epilog(node, SLURM_JOB_OVERSUBSCRIBE="OK")
    assert run.code == 0 and node.calls() == [] and node.imds.requests == [], run
    assert node.list() == OLD_LIST


def test_an_epilog_on_another_instance_type_does_nothing(make_node):
    node = make_node(instance_type="p5.48xlarge", dmi="p5.48xlarge")
    run = epilog(node)
    assert run.code == 0 and node.calls() == [] and (run.out, run.err) == ("", ""), run


def test_mode_keep_leaves_the_daemon_and_the_list(node):
    prepared(node)
    run = epilog(node, "--mode=keep")
    assert run.code == 0 and changes(node) == [], run
    assert node.list() == b"10.20.0.1\n10.20.0.2\n" and node.unit_state()["ActiveState"] == "active"


def test_mode_self_restarts_with_the_own_address_only(node):
    prepared(node)
    run = epilog(node, "--mode=self")
    assert run.code == 0, run
    assert node.list() == b"10.20.0.1\n" and node.unit_state()["ActiveState"] == "active"
    assert node.starts()[-1] == "10.20.0.1\n"


def test_a_daemon_that_ignores_term_is_killed_and_the_epilog_is_content(node):
    node.daemon(ignore_term=1)
    prepared(node)
    run = epilog(node, "--stop-timeout=2")
    assert run.code == 0 and node.unit_state()["ActiveState"] in ("inactive", "failed"), run
    assert is_comment_only(node.list())


def test_a_daemon_that_will_not_die_fails_the_epilog(node):
    node.daemon(ignore_term=1)
    prepared(node)
    node.unit(kill="noeffect")
    run = epilog(node, "--stop-timeout=2")
    assert run.code == 5 and run.err.count("\n") == 1, run
    assert node.list() == b"10.20.0.1\n10.20.0.2\n", "written while the daemon runs"


def test_an_epilog_beside_the_prolog_of_the_next_job_does_not_wait_and_does_not_stop_it(node):
    prepared(node)
    node.script("nvidia-imex-ctl", "q", "sleep 3000 ok")
    following = node.start(env={"SLURM_JOB_ID": "4712", "SLURM_JOBID": "4712"})
    node.wait_for(lambda: node.calls("nvidia-imex-ctl"), 20, "the next job's prolog to wait for its daemon")
    run = epilog(node)
    assert run.code == 0 and run.seconds < 2.5, run
    assert following.wait().code == 0, following
    assert node.unit_state()["ActiveState"] == "active" and node.list() == b"10.20.0.1\n10.20.0.2\n"


def test_a_job_after_an_epilog_starts_from_nothing(node):
    for job in ("5001", "5002", "5003"):
        env = {"SLURM_JOB_ID": job, "SLURM_JOBID": job}
        assert node.prolog(env=env).code == 0
        assert node.list() == b"10.20.0.1\n10.20.0.2\n"
        assert epilog(node, **env).code == 0
        assert is_comment_only(node.list())
    assert len(node.starts()) == 3


def test_an_epilog_finishes_what_a_killed_prolog_began(node):
    node.start_unit()
    node.script("systemctl", "start", "signal-parent 9 hang", "ok")
    assert node.prolog().signal == 9
    node.script("systemctl", "start")
    run = epilog(node)
    assert run.code == 0, run
    assert node.unit_state()["ActiveState"] == "inactive" and is_comment_only(node.list())


@pytest.mark.parametrize("spoil", ["echo '{{{' > /run/gpu-prolog/imex.json", "chown 1000 /run/gpu-prolog/imex.json", "chmod 777 /run/gpu-prolog"])
def test_with_a_damaged_state_the_daemon_is_left_alone_and_the_log_says_why_and_what_to_do(node, spoil):
    prepared(node)
    node.sh(spoil)
    run = epilog(node)
    assert run.code == 0 and (run.out, run.err) == ("", ""), run
    assert changes(node) == [] and node.unit_state()["ActiveState"] == "active" and node.list() == b"10.20.0.1\n10.20.0.2\n"
    (told,) = [text for _, _, text in node.log("WARN") if "is damaged" in text]
    assert told.startswith("nothing is stopped: the state file /run/gpu-prolog/imex.json is damaged: ") and "systemctl stop nvidia-imex" in told, told
    assert not any("made a domain here since the boot" in line for line in node.log_text())
    node.sh("chmod 755 /run/gpu-prolog")  # a prolog would refuse it
    run = node.prolog(env={"SLURM_JOB_ID": "4712", "SLURM_JOBID": "4712"})
    assert run.code == 0 and epilog(node, SLURM_JOB_ID="4712", SLURM_JOBID="4712").code == 0
    assert node.unit_state()["ActiveState"] == "inactive", node.log_text()


def test_the_epilog_writes_no_other_file_than_the_daemons_own_list_whatever_the_state_says(node):
    prepared(node)
    before = node.read("/etc/passwd")
    node.write("/run/gpu-prolog/imex.json", node.read("/run/gpu-prolog/imex.json").replace(LIST, "/etc/passwd"))
    run = epilog(node)
    assert run.code == 0 and node.read("/etc/passwd") == before and is_comment_only(node.list()), run


def test_a_dry_run_of_the_epilog_changes_nothing(node):
    prepared(node)
    node.syslog.received.clear()
    before = node.tree()
    run = epilog(node, "--dry-run")
    assert run.code == 0 and node.tree() == before and changes(node) == [], run
    assert node.lstat(LIST).st_size == 20
