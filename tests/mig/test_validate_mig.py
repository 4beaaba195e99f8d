"""validate mig, its --gate, and validate job, on make-believe nodes."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

import mignode
from mignode import STATUS_LIB, STATUS_RUN

MIX_WORDS = "3g.71gb:1,2g.35gb:1,1g.18gb:2"


def gate(node, **kw):
    return node.run("validate", "mig", "--gate", **kw)


def validate(node, *words, **kw):
    r = node.run("validate", "mig", *words, **kw)
    assert r.changing() == [], "validate changed a GPU: %r" % r
    assert node.reboots() == []
    return r


@pytest.fixture
def ready(make_node):
    node = make_node("H200", "H200")
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0, r
    return node


# ------------------------------------------------------------------ the gate
def test_the_gate_is_open_after_a_run_that_went_well_and_asks_no_gpu(ready):
    r = gate(ready)
    assert r.code == 0 and r.calls == [], r


def test_the_gate_is_shut_where_nothing_ran_in_this_boot(make_node):
    node = make_node("H200")
    r = gate(node)
    assert r.code == 1 and "mig-setup" in r.out + r.err, r


def test_the_gate_is_shut_for_a_status_of_an_earlier_boot(ready):
    text = ready.get(STATUS_RUN)
    ready.boot()
    assert gate(ready).code == 1          # /run is empty, /var/lib tells of the boot before
    ready.sh("mkdir -p /run/gpu-prolog; cp %s %s" % (STATUS_LIB, STATUS_RUN))
    assert ready.get(STATUS_RUN) is not None and json.loads(text)["boot_id"] != ready.boot_id
    r = gate(ready)
    assert r.code == 1 and "boot" in (r.out + r.err), r


@pytest.mark.parametrize("damage", ["", "{", "null", "[]", "{}", "\x00" * 64])
def test_the_gate_is_shut_for_a_damaged_status(ready, damage):
    with open(ready.host(STATUS_RUN), "w") as f:
        f.write(damage)
    r = gate(ready)
    assert r.code == 1, r


NOT_BELIEVED = {
    "a link": ("mv $S /run/good.json; ln -s /run/good.json $S", "symbolic link"),
    "a pipe": ("rm $S; mkfifo $S", "pipe"),
    "a folder": ("rm $S; mkdir $S", "folder"),
    "another user's": ("chown 1000 $S", "does not belong to root"),
    "writable by others": ("chmod 666 $S", "can be written"),
    "writable by a group": ("chmod 664 $S", "can be written"),
    "a folder of another user": ("chown 1000 /run/gpu-prolog", "does not belong to root"),
    "a folder that all can write": ("chmod 777 /run/gpu-prolog", "can be written"),
    "a folder that is a link": ("mv /run/gpu-prolog /run/elsewhere; ln -s /run/elsewhere /run/gpu-prolog", "symbolic link"),
    "result failed": ("sed -i 's/\"result\": \"[a-z]*\"/\"result\": \"failed\"/' $S", "failed"),
    "a GPU failed": ("sed -i '0,/\"state\": \"right\"/s//\"state\": \"failed\"/' $S", "failed"),
    "another schema": ("sed -i 's/\"schema\": 1/\"schema\": 99/' $S", "99"),
    "a key twice": ("sed -i 's/\"exit_code\": 0/\"exit_code\": 5, \"exit_code\": 0/' $S", "twice"),
    "a GPU only planned": ("sed -i '0,/\"state\": \"right\"/s//\"state\": \"planned\"/' $S", "planned"),
    "a GPU of a state that nobody knows": ("sed -i '0,/\"state\": \"right\"/s//\"state\": \"perfect\"/' $S", "perfect"),
    "a mode that is off": ("sed -i '0,/\"mode_current\": \"Enabled\"/s//\"mode_current\": \"Disabled\"/' $S", "Disabled"),
    "no GPUs": ("sed -i 's/\"gpus\"/\"cards\"/' $S", "gpus"),
    "a dry run's": ("sed -i 's/\"schema\": 1,/\"schema\": 1, \"dry_run\": true,/' $S", "dry run"),
    "a NUL at the end": ("printf '\\000' >>$S", "damaged"),
    "cut": ("truncate -s 100 $S", "damaged"),
}


@pytest.mark.parametrize("case", NOT_BELIEVED)
def test_the_gate_is_shut_for_a_status_that_is_not_to_be_believed_and_validate_says_the_same(ready, case):
    change, word = NOT_BELIEVED[case]
    done = ready.sh("set -e; S=%s; %s" % (STATUS_RUN, change))
    assert done.returncode == 0, done
    r = gate(ready, timeout=10)
    assert r.code == 1 and word in r.out and r.calls == [], r
    assert "mig-setup" in r.out and r.seconds < 3
    r = validate(ready, "--json")
    [check] = [c for c in json.loads(r.out)["checks"] if c["check"] == "mig-setup"]
    assert r.code == 1 and check["result"] == "fail" and word in check["found"] and check["cure"], r
    assert "has not run" not in check["found"]


def test_the_gate_is_shut_after_a_failure_and_says_which(make_node):
    node = make_node("H200", "H200")
    node.rule("-cgi", dict(fail_item=1, reason="Insufficient Resources"), times=99)
    assert node.mig_setup("--layout", MIX_WORDS).code == 5
    r = gate(node)
    assert r.code == 1 and r.calls == [], r
    assert "Insufficient Resources" in r.out + r.err
    assert "10:00.0" in (r.out + r.err).lower()


@pytest.mark.parametrize("case", ["pending", "driver", "layout"])
def test_the_gate_is_shut_after_every_kind_of_failure_with_a_word_about_it(make_node, case):
    if case == "pending":
        node = make_node("A100-40")
        assert node.mig_setup("--layout", "9,9").code == 7
        word = "pending"
    elif case == "driver":
        node = make_node("H200", not_ready=[dict(exit=9, calls=10 ** 6)])
        assert node.mig_setup("--layout", MIX_WORDS, "--driver-timeout", "1s").code == 3
        word = "driver"
    else:
        node = make_node("H200")
        assert node.mig_setup("--layout", "3g.71gb:3").code == 2
        word = "3g.71gb"
    r = gate(node)
    assert r.code == 1 and word in (r.out + r.err).lower(), r


def test_the_gate_is_open_where_mig_is_not_supported_and_that_is_allowed(make_node):
    node = make_node("L4")
    assert node.mig_setup("--layout", "1g.18gb:7", "--if-supported").code == 0
    assert gate(node).code == 0


def test_the_gate_opens_again_when_a_later_run_went_well(make_node):
    node = make_node("H200")
    node.rule("-cgi", dict(fail_item=1, reason="Insufficient Resources"), times=1)
    first = node.mig_setup("--layout", MIX_WORDS)
    assert node.mig_setup("--layout", MIX_WORDS).code == 0, first
    assert gate(node).code == 0


REFUSED = {
    "a typo": (["--layout", "3g.71g:1"], 2),
    "a layout that cannot fit": (["--layout", "3g.71gb:3"], 2),
    "a selection that fits no GPU": (["--layout", "7=" + MIX_WORDS], 2),
    "no layout": ([], 2),
    "no time": (["--layout", MIX_WORDS, "--deadline", "0"], 2),
    "a board without check": (["--layout", MIX_WORDS, "--board", "x"], 2),
    "a file that is not there": (["--layout-file", "/etc/none"], 2),
    "slurmd runs": (["--layout", "7g.141gb:1"], 5),
    "the lock is held": (["--layout", MIX_WORDS, "--deadline", "1s"], 6),
    "words while the lock is held": (["--layout", MIX_WORDS, "--board", "x"], 2),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_run_that_touched_nothing_for_its_words_or_the_lock_leaves_a_good_status_of_this_boot(ready, case):
    words, code = REFUSED[case]
    before = ready.get(STATUS_RUN), ready.get(STATUS_LIB)
    if case == "slurmd runs":
        ready.start_slurmd()
    if "lock" in case:
        ready.children.append(ready.enter(["/usr/bin/flock", "/run/gpu-prolog/mig.lock", "/bin/sleep", "1000"]))
        assert ready.sh("for i in 1 2 3 4 5 6 7 8 9; do flock -n /run/gpu-prolog/mig.lock true || exit 0; sleep 0.2; done; exit 1").returncode == 0
    r = ready.mig_setup(*words)
    assert r.code == code and r.changing() == [], r
    assert (ready.get(STATUS_RUN), ready.get(STATUS_LIB)) == before
    assert gate(ready).code == 0
    if "lock" not in case:
        assert validate(ready).code == 0


@pytest.mark.parametrize("case", [c for c in REFUSED if "lock" not in c])
def test_without_a_status_of_this_boot_a_refused_run_tells_why_the_gate_is_shut(ready, case):
    words, code = REFUSED[case]
    ready.boot()
    if case == "slurmd runs":
        ready.start_slurmd()
    r = ready.mig_setup(*words)
    assert r.code == code, r
    status = ready.status()
    assert status["boot_id"] == ready.boot_id and status["result"] == "failed" and status["exit_code"] == code, status
    r = gate(ready)
    assert r.code == 1 and status["message"][:60] in r.out, r
    if case != "slurmd runs":      # the next words tell of themselves
        r = ready.mig_setup("--layout", "9g.1gb")
        assert r.code == 2 and "9g.1gb" in gate(ready).out, r


def test_a_refused_run_does_not_hide_a_failure_of_this_boot(make_node):
    node = make_node("H200", "H200")
    node.rule("-cgi", dict(fail_item=1, reason="Insufficient Resources"), times=99)
    assert node.mig_setup("--layout", MIX_WORDS).code == 5
    assert node.mig_setup("--layout", "3g.71g:1").code == 2
    r = gate(node)
    assert r.code == 1 and "Insufficient Resources" in r.out, r


def test_a_run_killed_before_its_first_change_leaves_the_good_status_and_one_killed_later_does_not(ready):
    for match, code in (("-lgip", 0), ("-cgi|-dci", 1)):
        ready.rule(match, dict(hang="before"))
        p = ready.enter([mignode.BINARY, "mig-setup", "--layout", "7g.141gb:1"], env=ready.BOOT_ENV, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seen = len(mignode.fake.calls(ready.state_file))
        for _ in range(400):
            time.sleep(0.02)
            if any(re.search(match, " ".join(c["argv"])) for c in mignode.fake.calls(ready.state_file)[seen:]):
                break
        else:
            raise AssertionError("never called")
        ready.kill_all()
        p.wait()
        assert gate(ready).code == code, match
    assert "did not finish" in gate(ready).out


def test_a_run_for_another_gpu_does_not_open_the_gate_over_a_failed_one(make_node):
    node = make_node("H200", "H200")
    node.rule("-cgi", dict(fail_item=2, gpu=node.gpu(0)["bus"]), times=9)
    assert node.mig_setup("--layout", MIX_WORDS).code == 5
    node.edit(lambda s: s.update(rules=[]))
    for words in (["--layout", "1=" + MIX_WORDS], ["--layout", "1=7g.141gb:1"], ["--layout", "1=none"]):
        r = node.mig_setup(*words)
        assert r.code == 0 and "every selected GPU" in r.err, r
        assert "was not selected and is still not right" in r.err and node.gpu(0)["bus"].lower() in r.err.lower(), r
        status = node.status()
        assert status["exit_code"] == 0 and [g["state"] for g in status["gpus"]] == ["failed", "right"], status
        r = gate(node)
        assert r.code == 1 and "GPU 0" in r.out and "rolled back" in r.out, r
        assert validate(node).code == 1
    node.rule("--query-gpu", dict(exit=255), times=1)    # nor does one that fails before it comes to it
    assert node.mig_setup("--layout", MIX_WORDS).code == 4
    assert node.mig_setup("--layout", "1=" + MIX_WORDS).code == 0 and gate(node).code == 1
    r = node.mig_setup("--layout", "0=" + MIX_WORDS)
    assert r.code == 0 and gate(node).code == 0, r
    assert [g["state"] for g in node.status()["gpus"]] == ["right", "unselected"]


def test_a_run_for_another_gpu_does_not_open_the_gate_over_one_that_a_killed_run_had_begun(make_node):
    node = make_node("H200", "H200")
    node.rule("-cgi", dict(hang="before"))
    p = node.enter([mignode.BINARY, "mig-setup", "--layout", MIX_WORDS], env=node.BOOT_ENV, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(400):
        time.sleep(0.02)
        if any("-cgi" in c["argv"] for c in mignode.fake.calls(node.state_file)):
            break
    node.kill_all()
    p.wait()
    assert node.mig_setup("--layout", "1=" + MIX_WORDS).code == 0
    r = gate(node)
    assert r.code == 1 and "GPU 0" in r.out and "did not finish" in r.out, r
    assert node.mig_setup("--layout", MIX_WORDS).code == 0 and gate(node).code == 0


def test_the_gates_json_is_one_object(ready):
    r = gate(ready)
    j = ready.run("validate", "mig", "--gate", "--json")
    assert (r.code, j.code) == (0, 0)
    assert isinstance(json.loads(j.out), dict)


@pytest.mark.parametrize("words", [["mig", "--gate", "--layout", "9"], ["mig", "--gate", "--layout-file", "/etc/x"], ["mig", "--gate", "--requeue"], ["job", "--gate"], ["--gate"],
                                   ["cluster", "--layout", "9"], ["mig", "--max-requeues", "2"]])
def test_words_that_the_check_does_not_look_at_are_2(ready, words):
    r = ready.run("validate", *words)
    assert r.code == 2 and ("goes with" in r.err or "looks at" in r.err), r
    assert r.out == "" and r.calls == []


def test_a_dry_run_neither_opens_nor_shuts_the_gate(make_node):
    node = make_node("H200")
    assert node.mig_setup("--layout", MIX_WORDS, "--dry-run").code == 0
    assert gate(node).code == 1
    assert node.mig_setup("--layout", MIX_WORDS).code == 0
    assert node.mig_setup("--layout", "3g.71gb:3", "--dry-run").code == 2
    assert gate(node).code == 0


# ------------------------------------------------------------------ validate mig
@pytest.mark.parametrize("boards,gpus", [(["L4", "L4"], "2 of NVIDIA L4, driver"), (["L4", "H200"], "1 of NVIDIA H200, 1 of NVIDIA L4, driver")])
def test_gpus_that_if_supported_passed_over_are_not_judged_and_every_product_is_named(make_node, boards, gpus):
    node = make_node(*boards)
    assert node.mig_setup("--layout", MIX_WORDS, "--if-supported").code == 0
    for words in ([], ["--layout", MIX_WORDS]):
        r = validate(node, "--json", *words)
        assert r.code == 0, r
        checks = {c["check"]: c for c in json.loads(r.out)["checks"]}
        assert gpus in checks["gpus"]["found"], checks
        assert checks["layout"]["result"] == ("ok" if "H200" in boards else "skipped"), checks
    if "H200" in boards:      # the other GPU is judged all the same
        assert validate(node, "--layout", "7g.141gb:1").code == 1


def test_a_right_node_is_valid(ready):
    r = validate(ready)
    assert r.code == 0, r
    assert "fail" not in r.out.lower().split(), r


def test_its_json_has_every_check_with_name_result_and_advice(ready):
    r = validate(ready, "--json")
    assert r.code == 0, r
    doc = json.loads(r.out)
    checks = doc["checks"]
    assert checks and all({"name"} <= set(c) for c in checks)
    text = json.dumps(doc)
    assert "ok" in text


def test_a_layout_given_in_words_is_what_is_compared(ready):
    assert validate(ready, "--layout", MIX_WORDS).code == 0
    r = validate(ready, "--layout", "7g.141gb:1")
    assert r.code == 1 and "7g.141gb" in r.out, r


def test_a_gpu_that_differs_from_the_layout_of_the_status_is_found_and_named(ready):
    ready.sh("nvidia-smi mig -i 1 -dci; nvidia-smi mig -i 1 -dgi; nvidia-smi mig -i 1 -cgi 0 -C")
    r = validate(ready)
    assert r.code == 1 and "1b:00.0" in r.out.lower() and "7g.141gb" in r.out, r


def test_a_pending_mode_is_found(make_node):
    node = make_node("A100-40")
    node.mig_setup("--layout", "9,9")
    r = validate(node)
    assert r.code == 1 and "pending" in r.out.lower(), r


def test_a_gpu_that_is_on_but_empty_is_found(ready):
    ready.sh("nvidia-smi mig -i 0 -dci; nvidia-smi mig -i 0 -dgi")
    r = validate(ready)
    assert r.code == 1 and "10:00.0" in r.out.lower(), r


def test_a_gpu_instance_without_a_compute_instance_is_found(ready):
    bare = ready.gpu(1)["gis"][-1]["id"]
    assert "Successfully destroyed" in ready.sh("nvidia-smi mig -i 1 -gi %d -dci" % bare).stdout
    r = validate(ready)
    assert r.code == 1 and "compute instance" in r.out.lower() and "1b:00.0" in r.out.lower(), r


def test_missing_caps_files_are_found(ready):
    ready.behave(caps_never=True)
    ready.sh("rm /dev/nvidia-caps/nvidia-cap1?*")
    r = validate(ready)
    assert "nvidia-cap" in r.out, r
    assert validate(ready, "--strict").code == 1


def test_mode_off_where_a_layout_is_wanted_is_found(ready):
    ready.boot()          # a Hopper loses everything
    r = validate(ready, "--layout", MIX_WORDS)
    assert r.code == 1, r


def test_a_missing_driver_is_a_finding(make_node):
    node = make_node("H200", not_ready=[dict(exit=9, calls=10 ** 6)])
    r = validate(node, "--layout", MIX_WORDS)
    assert r.code == 1 and "driver" in r.out.lower(), r
    assert node.modprobes() == [], "validate loaded a module"


def test_no_nvidia_smi_is_a_finding(make_node):
    node = make_node("H200", prepare=lambda n: os.unlink(os.path.join(n.folder, "bin", "nvidia-smi")))
    r = validate(node, "--layout", MIX_WORDS)
    assert r.code == 1 and "nvidia-smi" in r.out, r


def test_insufficient_permissions_is_a_finding_and_not_empty(ready):
    ready.rule("-lgi( |$)", dict(exit=4, stdout="Failed to display GPU instances: Insufficient Permissions\nNo GPU instances found: Insufficient Permissions\n"), times=99)
    r = validate(ready)
    assert r.code == 1 and "Insufficient Permissions" in r.out, r


def test_a_lost_gpu_is_a_finding(ready):
    ready.edit(lambda s: s["gpus"][1].update(lost=True))
    r = validate(ready)
    assert r.code == 1 and "1b:00.0" in r.out.lower(), r


def test_it_leaves_no_file_behind(ready):
    import test_mig_setup
    before = test_mig_setup.files_of(ready)
    validate(ready)
    gate(ready)
    assert test_mig_setup.files_of(ready) == before


def test_validate_without_a_word_looks_at_mig_where_mig_was_set_up(ready):
    ready.sh("nvidia-smi mig -i 0 -dci; nvidia-smi mig -i 0 -dgi")
    r = ready.run("validate")
    assert r.code == 1 and "10:00.0" in r.out.lower() and "mig" in r.out, r
    assert r.changing() == []


def test_a_hanging_nvidia_smi_is_a_finding_in_time(ready):
    ready.rule(".*", dict(hang="before", term="ignore"), times=99)
    r = validate(ready, timeout=150)
    assert r.code == 1 and "nvidia-smi" in r.out and r.seconds < 130, r


def slurm(node, gres, reason=None):
    node.script("bin/scontrol", """#!/bin/sh
echo "$*" >>/var/lib/fake-nvidia-smi/scontrol.calls
case "$*" in *node*) echo 'NodeName=gpu-1 Arch=x86_64 CoresPerSocket=48 CPUAlloc=0 CPUEfctv=192 CPUTot=192 CPULoad=0.10 AvailableFeatures=(null) ActiveFeatures=(null) Gres=%s NodeAddr=10.0.0.1 NodeHostName=gpu-1 Version=25.11.2 State=IDLE %s' ;; esac
""" % (gres, "Reason=%s" % reason if reason else ""))


@pytest.mark.parametrize("configured,word", [("gpu:3g.71gb:2,gpu:2g.35gb:2,gpu:1g.18gb:4", None), ("gpu:3g.71gb:2(S:0),gpu:2g.35gb:2(S:0-1),gpu:1g.18gb:4(S:1)", None),
                                             ("gpu:3g.71gb:2,gpu:2g.35gb:2,gpu:1g.18gb:7", "1g.18gb"), ("gpu:h200:2", "h200")])
def test_the_gres_that_slurm_has_for_the_node_is_compared_with_what_exists(make_node, configured, word):
    node = make_node("H200", "H200", prepare=lambda n: slurm(n, configured))
    assert node.mig_setup("--layout", MIX_WORDS).code == 0
    r = validate(node)
    assert any("node" in line for line in node.lines("scontrol.calls")), r
    assert r.code == (1 if word else 0), r
    assert word is None or word in r.out


ALL_OF_MIX = "gpu:3g.71gb:2,gpu:2g.35gb:2,gpu:1g.18gb:4"


@pytest.mark.parametrize("rows,layout,result", [
    ([("3g.71gb", 2), ("2g.35gb", 2), ("1g.18gb", 4)], MIX_WORDS, "ok"), ([], MIX_WORDS, "fail"), ([("7g.141gb", 8)], MIX_WORDS, "fail"), ([("3g.71gb", 2)], MIX_WORDS, "fail"),
    ([("3g.71gb", 20)], MIX_WORDS, "fail"), ([("nvidia_h200", 2)], "7g.141gb", "fail"), ([("nvidia_h200", 2)], "none", "ok"), ([("7g.141gb", 2)], "7g.141gb", "ok")])
def test_what_slurmd_itself_sees_is_compared_by_type_with_what_exists(make_node, rows, layout, result):
    def prepare(n):
        slurm(n, ALL_OF_MIX)
        text = "".join("slurmd: Gres Name=gpu Type=%s Count=%d ID=7696487 File=/dev/nvidia0 Links=(null)\n" % row for row in rows)
        n.script("sbin/slurmd", "#!/bin/sh\ncat <<'X'\n%sX\nexit 0\n" % text)
    node = make_node("H200", "H200", prepare=prepare)
    assert node.mig_setup("--layout", layout).code == 0
    r = validate(node, "--json")
    [check] = [c for c in json.loads(r.out)["checks"] if c["check"] == "slurmd gres"]
    assert check["result"] == result and bool(check["cure"]) == (result == "fail"), r
    if result == "fail":
        assert r.code == 1, r


def test_caps_files_that_are_other_devices_are_found(ready):
    ready.sh("cd /dev/nvidia-caps; for f in nvidia-cap*; do rm $f; mknod -m 444 $f c 99 ${f#nvidia-cap}; done")
    r = validate(ready)
    assert "it is device 99:" in r.out and "not 241:" in r.out, r
    assert validate(ready, "--strict").code == 1


def test_while_mig_setup_is_at_work_it_is_said_and_no_nvidia_smi_is_run_beside_it(ready):
    held = ready.enter(["/bin/sh", "-c", "exec 9>>/run/gpu-prolog/mig.lock; flock 9; echo 'mig-setup, pid 4711' >&9; echo up; exec sleep 60"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        assert held.stdout.readline() == "up\n"
        r = validate(ready)
        assert r.code == 1 and "mig-setup is at work (mig-setup, pid 4711)" in r.out and r.calls == [], r
    finally:
        os.kill(ready.inner(held), signal.SIGKILL)
        held.wait(timeout=10)
    assert gate(ready).code == 0


# ------------------------------------------------------------------ validate job
def job(node, env, *words):
    return node.run("validate", "job", *words, env=dict({"PATH": "/usr/bin"}, **env))


IN_JOB = dict(SLURM_JOB_ID="17", SLURM_JOBID="17", SLURM_PROCID="0", SLURM_NODEID="0")


def test_a_job_with_a_mig_device_is_fine(make_node):
    r = job(make_node("H200"), dict(IN_JOB, SLURM_GPUS="1", SLURM_JOB_GPUS="0", CUDA_VISIBLE_DEVICES="MIG-e7aa6185-06d5-53e9-a4d9-00f7670f741e"))
    assert r.code == 0, r


def test_an_empty_list_of_devices_is_what_a_job_on_a_powered_down_node_gets_and_fails(make_node):
    r = job(make_node("H200"), dict(IN_JOB, CUDA_VISIBLE_DEVICES=""))
    assert r.code == 1 and "CUDA_VISIBLE_DEVICES" in r.out, r


@pytest.mark.parametrize("name", ["SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS"])
def test_no_list_of_devices_fails_where_the_job_asked_for_gpus(make_node, name):
    r = job(make_node("H200"), dict(IN_JOB, **{name: "1"}))
    assert r.code == 1, r


def test_outside_a_job_it_cannot_run(make_node):
    assert job(make_node("H200"), {}).code == 3


def test_requeue_asks_scontrol_once_from_the_first_process_and_at_most_three_times(make_node):
    def with_scontrol(n):
        n.script("bin/scontrol", "#!/bin/sh\necho \"$*\" >>/var/lib/fake-nvidia-smi/scontrol.calls\n")
    node = make_node("H200", prepare=with_scontrol)
    requeues = lambda: [l for l in node.lines("scontrol.calls") if l.startswith("requeue")]
    empty = dict(IN_JOB, CUDA_VISIBLE_DEVICES="")
    assert job(node, dict(empty, SLURM_PROCID="3"), "--requeue").code == 1 and requeues() == []
    assert job(node, dict(empty, SLURM_RESTART_COUNT="3"), "--requeue").code == 1 and requeues() == []
    assert job(node, empty, "--requeue").code == 1 and requeues() == ["requeue 17"]
    assert job(node, dict(IN_JOB, CUDA_VISIBLE_DEVICES="MIG-x"), "--requeue").code == 0 and len(requeues()) == 1


@pytest.mark.parametrize("body,code,result,word", [
    ("exec sleep 100", 1, "fail", "no end after"),
    ("exec yes flood", 1, "fail", "bytes"),
    ("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", 0, "warn", "Unable to contact"),
    ("echo 'JobId=17 JobName=x AllocTRES=cpu=1,gres/gpu=0 TresPerNode=gres/gpu:0'", 0, "skipped", "nothing says"),
    ("echo 'JobId=17 JobName=x AllocTRES=cpu=1,gres/gpu:1g.18gb=1'", 1, "fail", "gres/gpu:1g.18gb=1")])
def test_without_a_list_of_devices_scontrol_decides_and_one_that_gives_no_answer_is_told(make_node, body, code, result, word):
    node = make_node("H200", prepare=lambda n: n.script("bin/scontrol", "#!/bin/sh\n" + body + "\n"))
    r = job(node, IN_JOB, "--json")
    assert r.code == code, r
    [check] = [c for c in json.loads(r.out)["checks"] if c["check"] == "gpu"]
    assert check["result"] == result and word in check["found"], r
    assert r.seconds < 20
    assert job(node, IN_JOB, "--strict").code == (0 if result == "skipped" else 1)


@pytest.mark.parametrize("devices,code", [("-1", 1), (",", 1), ("-1,0", 1), ("NoDevFiles", 1), ("0", 0), ("0,-1", 0), ("MIG-x", 0)])
def test_a_list_whose_first_entry_is_no_device_fails(make_node, devices, code):
    r = job(make_node("H200"), dict(IN_JOB, CUDA_VISIBLE_DEVICES=devices))
    assert r.code == code and devices in r.out, r


def test_a_shell_of_salloc_and_a_job_id_of_0_ask_for_no_requeue(make_node):
    node = make_node("H200", prepare=lambda n: n.script("bin/scontrol", "#!/bin/sh\necho \"$*\" >>/var/lib/fake-nvidia-smi/scontrol.calls\n"))
    r = job(node, dict(SLURM_JOB_ID="17", CUDA_VISIBLE_DEVICES=""), "--requeue")
    assert r.code == 1 and "salloc" in r.out, r
    r = job(node, dict(IN_JOB, SLURM_JOB_ID="0", CUDA_VISIBLE_DEVICES=""), "--requeue")
    assert r.code == 3, r
    assert [l for l in node.lines("scontrol.calls") if l.startswith("requeue")] == []
    assert job(node, dict(SLURM_JOB_ID="17", SLURM_STEP_ID="4294967291", CUDA_VISIBLE_DEVICES=""), "--requeue").code == 1
    assert node.lines("scontrol.calls") == ["requeue 17"]
