"""The make-believe node itself, tried with plain shell lines: a test on it proves nothing where its surroundings are wrong."""

import os
import re
import stat
import time

import pytest

from node import CHANNEL, LIST, LOG, OLD_LIST, captured_environment, hostlist

CURL_TOKEN = ('T=$(curl -s -m 3 -X PUT -H "X-aws-ec2-metadata-token-ttl-seconds: 60" http://169.254.169.254/latest/api/token); '
              'curl -s -m 3 -H "X-aws-ec2-metadata-token: $T" http://169.254.169.254/latest/meta-data/instance-type')


def test_a_node_sees_its_own_files_devices_and_processes_and_nothing_of_this_machine(bare_node):
    node = bare_node()
    assert node.sh("hostname").stdout.strip() == "ultra-1"
    assert node.sh("cat /sys/class/dmi/id/product_name").stdout == "p6e-gb200.36xlarge\n"
    assert "235 nvidia-caps-imex-channels\n" in node.sh("cat /proc/devices").stdout
    assert not os.path.exists("/fake")
    assert node.sh("test -e /work", check=False).returncode == 1
    node.sh("mknod -m 600 /dev/try c 235 0; echo changed > /etc/hostname; rm /usr/bin/systemctl")
    assert not os.path.exists("/dev/try")
    assert all(pid < 1000 for pid, _, _ in node.processes())


def test_two_nodes_are_independent(bare_node):
    one, two = bare_node(), bare_node(index=1)
    one.sh("systemctl stop nvidia-imex; echo x > /etc/only-here")
    assert not two.exists("/etc/only-here") and two.calls(by_test=True) == []
    assert two.sh("ip -o addr show dev eth0").stdout.count("10.20.0.2/16") == 1


def test_closing_a_node_ends_every_process_in_it(bare_node):
    node = bare_node()
    node.stand_in()
    pid = node.pid
    node.close()
    assert not os.path.exists(f"/proc/{pid}")


def test_the_published_script_runs_on_a_node(bare_node):
    """Written here in the script's steps, as its page shows them: what it needs of a node is there and does what it does on a real one."""
    node = bare_node(scontrol="/usr/bin/scontrol", old_list=None)
    script = r"""#!/bin/bash
    [[ "${SLURM_JOB_OVERSUBSCRIBE}" =~ ^(NO|TOPO)$ ]] || exit 10
    T=$(curl -X PUT -s http://169.254.169.254/latest/api/token -H "X-aws-ec2-metadata-token-ttl-seconds: 21600")
    [[ $(curl -s -H "X-aws-ec2-metadata-token: ${T}" http://169.254.169.254/latest/meta-data/instance-type) =~ ^(p6e-gb200|p6e-gb300) ]] || exit 11
    systemctl is-enabled nvidia-imex &>/dev/null || exit 12
    mkdir -p /dev/nvidia-caps-imex-channels
    mknod /dev/nvidia-caps-imex-channels/channel0 c $(sed -n 's/^ *\([0-9]*\) nvidia-caps-imex-channels$/\1/p' /proc/devices) 0 || exit 13
    scontrol -ao show node "${SLURM_NODELIST}" | sed 's/^.* NodeAddr=\([^ ]*\).*/\1/' > /etc/nvidia-imex/nodes_config.cfg
    timeout 15 systemctl stop nvidia-imex
    timeout 60 systemctl start nvidia-imex || exit 14
    echo done | logger -t 91_nvidia_imex_prolog
    """
    node.program = "/opt/script"
    node.write("/opt/script", script, 0o755)
    run = node.run()
    assert run.code == 0, run
    assert node.list() == b"10.20.0.1\n10.20.0.2\n"
    assert node.starts() == ["10.20.0.1\n10.20.0.2\n"]
    assert node.unit_state()["ActiveState"] == "active"
    node.wait_for(lambda: any("91_nvidia_imex_prolog" in message for message in node.syslog.received), 5, "the syslog message")
    assert node.refusals() == []


def test_the_launcher_gives_what_slurmd_gives_and_nothing_else(bare_node):
    node = bare_node()
    node.program = "/opt/script"
    node.write("/opt/script", "#!/bin/sh\ncat /proc/self/environ; echo; ls -l /proc/self/fd; readlink /proc/$PPID/exe; echo arguments: $#\n", 0o755)
    run = node.run()
    environment = dict(entry.split("=", 1) for entry in run.out.split("\n", 1)[0].split("\0") if entry)
    environment.pop("PWD", None)
    assert environment == node.environment()
    assert "PATH" not in environment and environment["SLURM_SCRIPT_CONTEXT"] == "prolog_slurmd"
    assert "/opt/slurm/sbin/slurmd" in run.out and "arguments: 0" in run.out
    descriptors = re.findall(r" (\d+) -> ", run.out)
    assert descriptors == ["0", "1", "2", "3"]  # 3 is ls reading the folder


def test_the_launcher_tells_codes_signals_and_memory(bare_node):
    node = bare_node()
    node.program = "/opt/script"
    node.write("/opt/script", "#!/bin/sh\necho out; echo err >&2; exit 5\n", 0o755)
    run = node.run()
    assert (run.code, run.out, run.err) == (5, "out\n", "err\n") and run.usage["maxrss_kb"] > 500
    node.write("/opt/script", "#!/bin/sh\nkill -9 $$\n", 0o755)
    assert node.run().code == 137
    node.write("/opt/script", "#!/bin/sh\nexec sleep 100\n", 0o755)
    run = node.start()
    run.send(15)
    assert run.wait(5).code == 143


def test_a_process_left_behind_is_seen(bare_node):
    node = bare_node()
    node.sh("sleep 500 >/dev/null 2>&1 &")
    node.wait_for(lambda: [words for _, _, words in node.leftovers(grace=0)] == ["sleep 500"], 5, "the process to be seen")


@pytest.mark.parametrize("version", ["24.11", "25.11", "26.05"])
def test_the_captured_environment_has_no_path(version):
    environment = captured_environment(version)
    assert "PATH" not in environment and "HOME" not in environment and environment["SLURM_JOB_ID"] == "2"
    assert ("SLURM_JOB_EXCLUSIVE" in environment) == (version == "26.05")


def test_hostlists_are_compressed_as_slurm_does():
    assert hostlist(["ultra-1", "ultra-2", "ultra-3"]) == "ultra-[1-3]"
    assert hostlist(["n08", "n09", "n10", "x"]) == "n[08-10],x"


def test_systemctl_starts_shows_and_stops_the_daemon(bare_node):
    node = bare_node()
    node.write(LIST, "10.20.0.1\n")
    assert node.sh("systemctl is-active nvidia-imex", check=False).stdout == "inactive\n"
    assert node.sh("systemctl start nvidia-imex.service; systemctl is-active nvidia-imex").stdout == "active\n"
    shown = node.sh("systemctl show nvidia-imex --property=MainPID,ActiveState -p SubState -p ControlGroup -p Job").stdout
    values = dict(line.split("=", 1) for line in shown.splitlines())
    assert values["ActiveState"] == "active" and values["SubState"] == "running" and values["Job"] == ""
    assert node.sh(f"cat /sys/fs/cgroup{values['ControlGroup']}/cgroup.procs").stdout.strip() == values["MainPID"]
    assert node.sh(f"readlink /proc/{values['MainPID']}/exe").stdout == "/usr/bin/nvidia-imex\n"
    assert node.sh("systemctl show --value -p ActiveState nvidia-imex").stdout == "active\n"
    assert node.sh("nvidia-imex-ctl -q").stdout == "READY\n"
    assert "Domain State: UP" in node.sh("nvidia-imex-ctl -N").stdout
    node.sh("systemctl stop nvidia-imex")
    assert node.unit_state() == {"ActiveState": "inactive", "SubState": "dead", "MainPID": "0", "Job": ""}
    assert not node.exists("/sys/fs/cgroup/system.slice/nvidia-imex.service")
    failed = node.sh("nvidia-imex-ctl -q", check=False)
    assert failed.returncode == 14 and "error code: 14" in failed.stderr
    assert node.refusals() == []


@pytest.mark.parametrize("state,version,code,out", [
    ("enabled", 252, 0, "enabled\n"), ("disabled", 252, 1, "disabled\n"), ("masked", 252, 1, "masked\n"),
    ("masked-runtime", 252, 1, "masked-runtime\n"), ("linked", 252, 1, "linked\n"), ("static", 252, 0, "static\n"),
    ("generated", 252, 0, "generated\n"), ("not-found", 252, 1, ""), ("not-found", 257, 4, "not-found\n")])
def test_is_enabled_prints_the_word_and_gives_the_code_of_systemd(bare_node, state, version, code, out):
    node = bare_node()
    node.unit(file=state, version=version)
    done = node.sh("systemctl is-enabled nvidia-imex", check=False)
    assert (done.returncode, done.stdout) == (code, out)


def test_a_missing_or_masked_unit_cannot_be_started(bare_node):
    node = bare_node()
    node.unit(file="not-found")
    assert node.sh("systemctl start nvidia-imex", check=False).returncode == 5
    node.unit(file="masked")
    done = node.sh("systemctl start nvidia-imex", check=False)
    assert done.returncode == 1 and "masked" in done.stderr


def test_a_start_waits_behind_a_stop_that_was_given_up(bare_node):
    node = bare_node()
    node.write(LIST, "10.20.0.1\n")
    node.daemon(ignore_term=1)
    node.sh("systemctl start nvidia-imex")
    assert node.sh("timeout 0.5 systemctl stop nvidia-imex", check=False).returncode == 124
    assert node.unit_state()["ActiveState"] == "deactivating" and node.unit_state()["Job"] != ""
    assert node.sh("timeout 0.5 systemctl start nvidia-imex", check=False).returncode == 124
    node.daemon(ignore_term=0)
    node.sh("systemctl kill --signal=KILL nvidia-imex")
    node.wait_for(lambda: node.unit_state()["ActiveState"] == "active", 5, "the start that waited")


def test_kill_ends_a_stop_that_hangs_and_the_unit_is_failed(bare_node):
    node = bare_node()
    node.write(LIST, "10.20.0.1\n")
    node.daemon(ignore_term=1)
    node.sh("systemctl start nvidia-imex; systemctl --no-block stop nvidia-imex; systemctl kill -s KILL nvidia-imex")
    node.wait_for(lambda: node.unit_state()["ActiveState"] == "failed", 5, "failed")
    assert node.sh("systemctl show nvidia-imex -p Result --value").stdout == "signal\n"
    node.sh("systemctl reset-failed nvidia-imex")
    assert node.unit_state()["ActiveState"] == "inactive"


def test_a_hanging_start_stays_queued_until_a_stop_cancels_it(bare_node):
    node = bare_node()
    node.write(LIST, "10.20.0.1\n")
    node.daemon(never_ready=1)
    assert node.sh("timeout 0.3 systemctl start nvidia-imex", check=False).returncode == 124
    assert node.unit_state()["ActiveState"] == "activating"
    assert " start " in node.sh("systemctl list-jobs --no-legend").stdout
    node.sh("systemctl stop nvidia-imex")
    assert node.unit_state()["ActiveState"] == "inactive" and "No jobs" in node.sh("systemctl list-jobs").stdout


def test_the_sixth_start_within_ten_seconds_is_refused_until_reset_failed(bare_node):
    node = bare_node()
    node.write(LIST, "10.20.0.1\n")
    for _ in range(5):
        node.sh("systemctl start nvidia-imex; systemctl stop nvidia-imex")
    assert node.sh("systemctl start nvidia-imex", check=False).returncode == 1
    assert node.sh("systemctl show nvidia-imex -p Result --value").stdout == "start-limit-hit\n"
    node.sh("systemctl reset-failed nvidia-imex; systemctl start nvidia-imex")


def test_the_daemon_fails_lies_and_dies_as_told(bare_node):
    node = bare_node()
    node.write(LIST, "10.20.0.1\n")
    node.daemon(exit=3)
    assert node.sh("systemctl start nvidia-imex", check=False).returncode == 1
    assert node.unit_state()["ActiveState"] == "failed"
    node.daemon(exit=None, die_after=50)
    node.sh("systemctl start nvidia-imex")
    node.wait_for(lambda: node.unit_state()["ActiveState"] == "failed", 5, "the death of the daemon")
    node.daemon(die_after=None)
    node.unit(start="lies")
    node.sh("systemctl start nvidia-imex")
    assert node.unit_state()["ActiveState"] != "active"
    node.unit(start="ok")
    node.write(LIST, "# nothing\n")
    node.sh("systemctl start nvidia-imex")
    assert node.unit_state()["ActiveState"] == "inactive"  # an empty list: exit 0 and nothing runs
    node.write(LIST, OLD_LIST)
    assert node.sh("systemctl start nvidia-imex", check=False).returncode == 1  # no own address in it


def test_kill_without_effect_and_a_process_left_in_the_unit(bare_node):
    node = bare_node()
    node.write(LIST, "10.20.0.1\n")
    node.daemon(leftover=1)
    node.sh("systemctl start nvidia-imex; systemctl stop nvidia-imex")
    left = node.sh("cat /sys/fs/cgroup/system.slice/nvidia-imex.service/cgroup.procs").stdout.split()
    assert node.unit_state()["ActiveState"] == "inactive" and len(left) == 1
    node.unit(kill="noeffect")
    node.sh("systemctl kill --signal=KILL nvidia-imex")
    assert node.sh(f"kill -0 {left[0]}", check=False).returncode == 0
    node.unit(kill="ok")
    node.sh("systemctl kill --kill-whom=all --signal=SIGKILL nvidia-imex")
    node.wait_for(lambda: not node.exists("/sys/fs/cgroup/system.slice/nvidia-imex.service"), 5, "an empty unit")


def test_scripted_actions_follow_each_other_and_the_last_one_stays(bare_node):
    node = bare_node()
    node.script("systemctl", "is-enabled", "exit 1", "say 0 strange", "ok")
    codes = [node.sh("systemctl is-enabled nvidia-imex", check=False) for _ in range(4)]
    assert [(done.returncode, done.stdout) for done in codes] == [(1, ""), (0, "strange\n"), (0, "enabled\n"), (0, "enabled\n")]
    node.script("systemctl", "is-enabled", "hang")
    assert node.sh("timeout 0.2 systemctl is-enabled nvidia-imex", check=False).returncode == 124


def test_what_nobody_set_up_is_refused_and_noted(bare_node):
    node = bare_node()
    assert node.sh("/opt/slurm/bin/scontrol update NodeName=x", check=False).returncode == 97
    node.sh("systemctl daemon-reexec; systemctl show nvidia-imex -p NoSuch", check=False)
    assert len(node.refusals()) == 3


def test_scontrol_answers_as_captured(bare_node):
    node = bare_node()
    node.nodes([("ultra-1", "10.20.0.1"), ("ultra-2", "10.20.0.2", 6818, "Comment=c NodeAddr=8.8.8.8"), ("named", "named"), ("zero", "0.0.0.0", 0)])
    scontrol = "/opt/slurm/bin/scontrol "
    assert node.sh(scontrol + "getaddrs ultra-[2,1]").stdout == "ultra-1: 10.20.0.1:6818\nultra-2: 10.20.0.2:6818\n"
    assert node.sh(scontrol + "getaddrs ultra-1,nosuch").stdout == "ultra-1: 10.20.0.1:6818\n"
    assert node.sh(scontrol + "getaddrs ultra-1,named").stdout == ""
    assert node.sh(scontrol + "getaddrs zero").stdout == "zero: 0.0.0.0:0\n"
    shown = node.sh(scontrol + "-a -o show node ultra-[2,1],nosuch", check=False)
    assert shown.returncode == 1
    assert [line.split(" ")[0] for line in shown.stdout.splitlines()] == ["NodeName=ultra-2", "NodeName=ultra-1", "Node"]
    assert "Comment=c NodeAddr=8.8.8.8" in shown.stdout
    assert node.sh(scontrol + "show hostnames n[08-10]").stdout == "n08\nn09\nn10\n"
    node.script("scontrol", "node", "flood 200000")
    assert len(node.sh(scontrol + "-ao show node ultra-1").stdout) >= 200000


def test_getent_knows_the_names_of_the_test(bare_node):
    node = bare_node()
    node.hosts(named="10.20.0.7 127.0.1.1")
    out = node.sh("getent ahosts named").stdout.splitlines()
    assert len(out) == 6 and out[0].split() == ["10.20.0.7", "STREAM", "named"]
    assert node.sh("getent ahosts other", check=False).returncode == 2


def test_every_call_is_recorded_with_its_surroundings(bare_node):
    node = bare_node()
    node.sh("A=b systemctl is-active nvidia-imex 7</dev/null", check=False)
    (call,) = node.calls("systemctl", "is-active", by_test=True)
    assert call["argv"][1:] == ["is-active", "nvidia-imex"] and "A=b" in call["env"] and call["fds"]["7"] == "/dev/null"
    assert call["umask"] == 0o22 and call["exe"] == "/usr/bin/systemctl"


def test_instance_metadata_wants_a_token_as_the_second_version_does(bare_node):
    node = bare_node()
    assert node.sh(CURL_TOKEN).stdout == "p6e-gb200.36xlarge"
    url = "http://169.254.169.254/latest/"
    code = "curl -s -m 3 -o /dev/null -w '%{http_code}' "
    assert node.sh(code + url + "meta-data/instance-type").stdout == "401"
    assert node.sh(code + "-X PUT " + url + "api/token").stdout == "400"
    assert node.sh(code + "-X PUT -H 'X-Forwarded-For: x' -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' " + url + "api/token").stdout == "403"
    assert node.sh(code + "-X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 21601' " + url + "api/token").stdout == "400"
    assert [request["method"] for request in node.imds.requests][:2] == ["PUT", "GET"]


def test_instance_metadata_fails_as_told(bare_node):
    node = bare_node()
    url = "http://169.254.169.254/latest/meta-data/instance-type"
    node.imds.mode, node.imds.status = "status", 503
    assert node.sh("curl -s -m 3 -o /dev/null -w '%{http_code}' " + url).stdout == "503"
    node.imds.mode = "silent"
    assert node.sh("curl -s -m 0.5 " + url, check=False).returncode == 28
    node.imds.mode = "drip"
    assert node.sh("curl -s -m 1 " + url, check=False).returncode == 28
    node.imds.mode = "big"
    assert node.sh(CURL_TOKEN + " | wc -c").stdout.strip() == str(1 << 26)
    down = bare_node(imds=False)
    assert down.sh("curl -s -m 3 " + url, check=False).returncode == 7


def test_syslog_messages_are_kept_and_an_unread_socket_fills_up(bare_node):
    node = bare_node()
    node.sh("logger -t tag hello")
    node.wait_for(lambda: any("hello" in message for message in node.syslog.received), 5, "the message")
    node.set_syslog("unread")
    assert node.sh("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do timeout 0.3 logger -t tag $i || exit 9; done",
                   check=False).returncode == 9
    node.set_syslog("absent")
    assert not node.exists("/dev/log")


def test_the_tree_shows_every_change(bare_node):
    node = bare_node()
    before = node.tree()
    assert node.tree() == before
    for change in ("touch /etc/x", "mkdir /run/y", "chmod 600 /etc/hosts", "mknod /dev/z c 235 0", "echo > /var/log/w", "rm /etc/x"):
        earlier = node.tree()
        time.sleep(0.01)
        node.sh(change)
        assert node.tree() != earlier, change


def test_a_process_of_another_job_is_alive_in_its_cgroup(bare_node):
    node = bare_node()
    pid, procs = node.job_process(99)
    assert node.read(procs) == f"{pid}\n" and "job_99" in procs
    assert node.sh(f"kill -0 {pid}").returncode == 0


def test_a_made_channel_is_a_device_nobody_answers(bare_node):
    node = bare_node()
    node.sh(f"mkdir {os.path.dirname(CHANNEL)}; mknod -m 666 {CHANNEL} c 235 0")
    info = node.lstat(CHANNEL)
    assert stat.S_ISCHR(info.st_mode) and os.major(info.st_rdev) == 235
    assert "No such device or address" in node.sh(f"cat {CHANNEL}", check=False).stderr
    assert not node.exists(LOG)
