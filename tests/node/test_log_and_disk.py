"""Full disks, read-only folders, traps at the log's path, deaf syslogs and closed descriptors."""

import os
import socket
import stat

import pytest

from expect import assert_done, assert_failed, assert_skipped, temporary_files
from node import LIST, LOG, OLD_LIST


@pytest.mark.aarch64
def test_a_full_disk_under_etc_fails_here_and_leaves_the_list_as_it_was(node):
    node.start_unit()
    node.sh("cp -a /etc/nvidia-imex /root/x; mount -t tmpfs -o size=32k imex /etc/nvidia-imex; cp -a /root/x/. /etc/nvidia-imex/; "
            "cat /dev/zero > /etc/nvidia-imex/filler", check=False)
    run = node.prolog()
    assert_failed(node, run, 5, "/etc/nvidia-imex")
    assert node.list() == OLD_LIST and temporary_files(node) == ["filler"]


def test_a_read_only_etc_fails_here_and_leaves_the_list_as_it_was(node):
    node.sh("mount --bind /etc/nvidia-imex /etc/nvidia-imex; mount -o remount,bind,ro /etc/nvidia-imex")
    run = node.prolog()
    assert_failed(node, run, 5, "/etc/nvidia-imex")
    node.sh("umount /etc/nvidia-imex")
    assert node.list() == OLD_LIST and temporary_files(node) == []


def test_a_link_at_the_place_of_the_list_is_not_written_through(node):
    node.remove(LIST)
    node.write("/etc/secret", "secret\n", 0o600)
    os.symlink("../secret", node.path(LIST))
    run = node.prolog()
    assert node.read("/etc/secret") == "secret\n" and stat.S_IMODE(node.lstat("/etc/secret").st_mode) == 0o600
    if run.code == 0:
        assert_done(node, run)
    else:
        assert_failed(node, run, 5, LIST, unchanged=False)


def test_a_list_with_wrong_mode_and_owner_is_replaced(node):
    node.sh(f"chmod 600 {LIST}; chown 1000 {LIST}")
    assert_done(node, node.prolog())


@pytest.mark.aarch64
def test_a_full_disk_under_var_log_never_fails_a_job(node):
    node.sh("mount -t tmpfs -o size=16k log /var/log; cat /dev/zero > /var/log/filler", check=False)
    run = node.prolog()
    assert_done(node, run, log=False)
    assert any("PROLOG End" in message for message in node.syslog.received)


def test_a_read_only_var_log_never_fails_a_job(node):
    node.sh("mount -t tmpfs -o ro log /var/log")
    assert_done(node, node.prolog(), log=False)


def test_a_missing_var_log_never_fails_a_job(node):
    node.remove("/var/log")
    assert_done(node, node.prolog(), log=False)


@pytest.mark.parametrize("trap", ["ln -s /etc/target {0}", "ln -s target {0}", "mkfifo {0}", "mkdir {0}", "mknod {0} c 1 7", "ln /etc/target {0}; rm {0}; ln -s /dev/full {0}"])
def test_a_trap_at_the_place_of_the_log_is_not_written_to(node, trap):
    node.write("/etc/target", "target\n")
    node.write("/var/log/target", "target\n")
    node.sh(trap.format(LOG))
    run = node.prolog(limit=20)
    assert_done(node, run, log=False)
    assert node.read("/etc/target") == "target\n" and node.read("/var/log/target") == "target\n"


def test_an_existing_log_is_only_ever_appended_to(node):
    node.write(LOG, "2026-05-03T00:00:00.000 [INFO] [PID:1] [JOB:1] before\n", 0o600)
    before = node.lstat(LOG)
    assert node.prolog().code == 0
    after = node.lstat(LOG)
    assert (before.st_ino, stat.S_IMODE(before.st_mode)) == (after.st_ino, stat.S_IMODE(after.st_mode))
    assert node.log_text()[0].endswith("before") and len(node.log_text()) > 3


@pytest.mark.parametrize("how", ["absent", "unread"])
def test_a_syslog_that_is_not_there_or_reads_nothing_delays_nobody(make_node, how):
    node = make_node(syslog=how)
    run = node.prolog()
    assert_done(node, run)
    assert run.seconds < 5
    for job in range(4):  # by now its queue is full, many times over
        run = node.prolog(env={"SLURM_JOB_ID": str(4800 + job), "SLURM_JOBID": str(4800 + job)})
        assert run.code == 0 and run.seconds < 5, run


def test_a_syslog_socket_that_is_no_socket_is_nobodys_problem(make_node):
    node = make_node(syslog="absent")
    node.write("/dev/log", "a plain file")
    assert_done(node, node.prolog())
    assert node.read("/dev/log") == "a plain file"


def test_a_syslog_that_wants_a_stream_is_nobodys_problem(make_node):
    node = make_node(syslog="absent")
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.bind(node.path("/dev/log"))
    stream.listen(0)
    assert_done(node, node.prolog())
    stream.close()


@pytest.mark.aarch64
@pytest.mark.parametrize("closed", [("in",), ("out",), ("err",), ("in", "out", "err")], ids="+".join)
def test_closed_standard_descriptors_change_nothing(node, closed):
    how = {{"in": "stdin", "out": "stdout", "err": "stderr"}[name]: "closed" for name in closed}
    assert_done(node, node.prolog(**how))
    for call in node.calls():
        if call["tool"] in ("systemctl", "scontrol", "nvidia-imex-ctl"):
            assert set(call["fds"]) == {"0", "1", "2"} and call["fds"]["0"] == "/dev/null", call["fds"]


def test_a_failure_with_closed_standard_error_is_told_in_the_log_and_by_the_code(make_node):
    node = make_node(channel_major=None)
    run = node.prolog(stderr="closed", stdin="closed", stdout="closed")
    assert run.code == 5 and node.log("ERROR"), run
    assert node.list() == OLD_LIST


def test_a_failure_with_a_full_standard_error_keeps_its_code(make_node):
    node = make_node(channel_major=None)
    assert node.prolog(stderr="full", stdout="full").code == 5


def test_a_reader_that_went_away_is_no_signal_to_us(node):
    read, write = os.pipe()
    os.close(read)
    node.nodes([("ultra-1", "10.20.0.1")])
    run = node.start(stderr=write, stdout=write)
    os.close(write)
    assert run.wait().code == 4, run


def test_people_on_a_terminal_see_the_steps(node):
    master, slave = os.openpty()
    run = node.start("imex-prolog", stderr=slave, stdout=slave, env={"SLURM_SCRIPT_CONTEXT": None})
    os.close(slave)
    run.wait()
    os.set_blocking(master, False)
    seen = b""
    try:
        while True:
            seen += os.read(master, 65536)
    except OSError:
        pass
    os.close(master)
    assert run.code == 0, run
    text = seen.decode(errors="replace").lower()
    assert text.count("\n") >= 5, text
    assert any(word in text for word in ("channel", "start", "write")), text


def test_a_skip_with_no_place_to_log_is_still_0(make_node):
    node = make_node(syslog="absent", instance_type="p5.48xlarge", dmi="p5.48xlarge")
    node.remove("/var/log")
    run = node.prolog()
    assert run.code == 0 and (run.out, run.err) == ("", "")


def test_a_read_only_run_folder_fails_here_and_changes_nothing(node):
    node.sh("mount --bind /run /run; mount -o remount,bind,ro /run")
    run = node.prolog()
    assert_failed(node, run, (3, 5), "/run")
    node.sh("umount /run")


def test_the_log_of_a_skip_has_its_frame(node):
    assert_skipped(node, node.prolog(env={"SLURM_JOB_OVERSUBSCRIBE": "OK"}), "exclusive")
    assert "PROLOG Start JobId=4711" in node.log_text()[0]
