"""Words, contexts, names, options and the config file."""

import json
import re

import pytest

from expect import CHANGING, assert_done, assert_failed, assert_untouched
from node import CHANNEL, LIST, OLD_LIST

HAND = {"SLURM_SCRIPT_CONTEXT": None}


# -- which command

@pytest.mark.aarch64
def test_without_a_word_a_context_or_a_name_there_is_short_help_on_stderr(node):
    run = node.run(env=HAND)
    assert run.code == 2 and run.out == "" and "imex-prolog" in run.err, run
    assert node.calls() == [] and not node.exists("/var/log/nvidia-imex-prolog.log")


@pytest.mark.parametrize("context", ["prolog_slurmctld", "epilog_slurmctld", "prolog_task", "epilog_task", "prolog_srun", "PROLOG_SLURMD"])
def test_another_context_is_refused(node, context):
    run = node.run(env={"SLURM_SCRIPT_CONTEXT": context})
    assert run.code == 2 and run.out == "", run
    assert_untouched(node)


def test_the_epilog_context_is_served_by_the_same_path(node):
    run = node.run(env={"SLURM_SCRIPT_CONTEXT": "epilog_slurmd"})
    assert run.code == 0 and (run.out, run.err) == ("", ""), run
    assert_untouched(node)


@pytest.mark.parametrize("name", ["91_nvidia_imex_prolog.sh", "91_nvidia_imex_prolog", "imex-prolog", "90-imex-prolog.bin"])
def test_without_a_context_the_own_file_name_decides(node, name):
    node.sh(f"mkdir -p /etc/slurm/prolog.d; ln -s {node.program} /etc/slurm/prolog.d/{name}")
    assert_done(node, node.run(env=HAND, argv0=f"/etc/slurm/prolog.d/{name}"))


@pytest.mark.aarch64
def test_a_link_with_the_name_of_the_script_is_a_drop_in(node):
    node.sh(f"mkdir -p /etc/slurm/prolog.d; ln -s {node.program} /etc/slurm/prolog.d/91_nvidia_imex_prolog.sh")
    assert_done(node, node.run(argv0="/etc/slurm/prolog.d/91_nvidia_imex_prolog.sh"))


def test_the_context_comes_before_the_name(node):
    node.sh(f"ln -s {node.program} /opt/imex_epilog")
    assert_done(node, node.run(argv0="/opt/imex_epilog"))
    node.sh(f"ln -s {node.program} /opt/imex_prolog")
    assert node.run(argv0="/opt/imex_prolog", env={"SLURM_SCRIPT_CONTEXT": "prolog_slurmctld"}).code == 2


def test_the_word_that_is_found_stands_in_front_of_the_arguments(node):
    node.sh(f"ln -s {node.program} /opt/91_nvidia_imex_prolog.sh")
    run = node.run("--dry-run", env=HAND, argv0="/opt/91_nvidia_imex_prolog.sh")
    assert run.code == 0, run
    assert_untouched(node)


@pytest.mark.parametrize("word,context", [("imex-prolog", "epilog_slurmd"), ("imex-epilog", "prolog_slurmd"), ("imex-prolog", "prolog_slurmctld"),
                                          ("imex-prolog", "prolog_task")])
def test_a_word_in_another_context_than_its_own_is_refused(node, word, context):
    run = node.run(word, env={"SLURM_SCRIPT_CONTEXT": context})
    assert run.code == 2, run
    assert_untouched(node)


@pytest.mark.parametrize("words", [["no-such-word"], ["imex-prolog", "--no-such-option"], ["imex-prolog", "surplus"], ["--no-such-option", "imex-prolog"],
                                   ["imex-prolog", "--blame=sometimes"], ["imex-prolog", "--deadline=soon"], ["imex-prolog", "--ready-timeout=-1"],
                                   ["imex-prolog", "--max-domain-nodes=x"], ["imex-prolog", "--config"]])
def test_wrong_words_are_2(node, words):
    run = node.run(*words)
    assert run.code == 2 and run.out == "" and run.err, run
    assert_untouched(node)


@pytest.mark.aarch64
def test_version_names_the_version_the_commit_and_the_architecture(node, product):
    for words in (["--version"], ["imex-prolog", "--version"]):
        run = node.run(*words, env=HAND)
        assert run.code == 0 and run.err == "", run
        assert "gpu-prolog" in run.out and product.architecture in run.out and re.search(r"\d+\.\d+", run.out), run.out
    assert_untouched(node)


def test_help_is_printed_with_the_exit_codes(node):
    run = node.run("--help", env=HAND)
    assert run.code == 0 and run.err == "", run
    for code in ("0", "1", "2", "3", "4", "5", "6", "7", "70", "128"):
        assert re.search(rf"(?m)^\s*{code}\b", run.out), f"no line for exit code {code}"
    run = node.run("imex-prolog", "--help", env=HAND)
    assert run.code == 0 and "--blame" in run.out and "--deadline" in run.out, run


@pytest.mark.parametrize("words", [["--config", "/etc/x.toml", "imex-prolog"], ["imex-prolog", "--config", "/etc/x.toml"], ["--config=/etc/x.toml", "imex-prolog"]])
def test_global_options_stand_before_or_after_the_word(node, words):
    node.write("/etc/x.toml", "[imex-prolog]\nwait-domain = 'off'\nmax-domain-nodes = 1\n")
    assert_failed(node, node.run(*words), (3, 4, 5))


@pytest.mark.parametrize("level", ["debug", "info", "warn", "error"])
def test_a_log_level_prints_nothing_under_slurmd_on_success(node, level):
    assert_done(node, node.run("imex-prolog", f"--log-level={level}"), log=False)


@pytest.mark.parametrize("value", ["30", "30s", "1m", "2m"])
def test_durations_are_seconds_or_have_a_unit(node, value):
    assert_done(node, node.run("imex-prolog", f"--ready-timeout={value}"))


# -- by hand

@pytest.mark.parametrize("job", [4711, 99])
def test_by_hand_beside_a_running_job_nothing_is_changed(node, job):
    node.start_unit()
    pid, _ = node.job_process(job)
    run = node.run("imex-prolog", env=HAND)
    assert run.code == 3 and run.err, run
    assert str(job) in run.err or str(pid) in run.err
    assert_untouched(node)
    assert node.unit_state()["ActiveState"] == "active"


def test_by_hand_with_force_it_goes(node):
    node.job_process(4711)
    run = node.run("imex-prolog", "--force", env=HAND)
    assert run.code == 0, run
    assert node.list() == b"10.20.0.1\n10.20.0.2\n"


def test_by_hand_a_dry_run_is_always_allowed(node):
    node.job_process(4711)
    run = node.run("imex-prolog", "--dry-run", env=HAND)
    assert run.code == 0, run
    assert_untouched(node)


def test_by_hand_the_extern_step_is_no_running_job(node):
    node.job_process(4711, step="step_extern/user/task_special")
    run = node.run("imex-prolog", env=HAND)
    assert run.code == 0, run
    assert node.list() == b"10.20.0.1\n10.20.0.2\n"


def test_not_root_is_3(node):
    run = node.run("imex-prolog", env=HAND, tracer=["/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"])
    assert run.code == 3 and "root" in run.err, run
    assert_untouched(node)


# -- config file

@pytest.mark.aarch64
def test_the_config_file_sets_options_of_the_command_and_global_ones(node):
    node.nodes([("ultra-1", "10.20.0.1")])
    node.config('# comment\nlog-level = "debug"\n\n[imex-prolog]\non-failure = "continue"\nready-timeout = "7s"\nmax-domain-nodes = 4\n')
    run = node.prolog()
    assert run.code == 0 and node.log("ERROR"), run


def test_a_word_on_the_command_line_comes_before_the_config_file(node):
    node.nodes([("ultra-1", "10.20.0.1")])
    node.config('[imex-prolog]\non-failure = "continue"\n')
    assert_failed(node, node.prolog("--on-failure=fail"), 4, "ultra-2")


BROKEN = {
    "unknown key": "[imex-prolog]\nno-such-key = 1\n",
    "unknown global key": "no-such-key = 1\n",
    "unknown section": "[no-such-section]\nblame = 'all'\n",
    "a key of another section": "blame = 'all'\n",
    "no toml": "this is no line of toml\n",
    "no toml in a section": "[imex-prolog]\nblame\n",
    "an unclosed section": "[imex-prolog\nblame = 'all'\n",
    "a wrong value": "[imex-prolog]\nblame = 'sometimes'\n",
    "binary": "\x00\x01\x02",
}


@pytest.mark.parametrize("what", BROKEN)
def test_an_error_in_the_config_file_is_told_where_the_gate_says_go(node, what):
    node.config(BROKEN[what])
    run = node.prolog()
    assert run.code == 2 and run.out == "" and run.err.count("\n") == 1, run
    assert "gpu-prolog.toml" in run.err, run.err
    assert_untouched(node)


@pytest.mark.parametrize("harm", ["chmod 666", "chmod 664", "chown 1000"])
def test_a_config_file_that_others_can_change_is_an_error(node, harm):
    node.config("[imex-prolog]\nblame = 'all'\n")
    node.sh(f"{harm} /etc/gpu-prolog.toml")
    run = node.prolog()
    assert run.code == 2 and "gpu-prolog.toml" in run.err, run
    assert_untouched(node)


def test_an_explicit_config_file_must_exist_and_an_absent_one_is_fine(node):
    run = node.prolog("--config", "/etc/not-there.toml")
    assert run.code == 2 and "/etc/not-there.toml" in run.err, run
    node.write("/etc/other.toml", "[imex-prolog]\nblame = 'all'\n")
    assert_done(node, node.run("--config", "/etc/other.toml", "imex-prolog"), log=False)


def test_a_section_never_runs_its_command(node):
    node.config("[imex-prolog]\nblame = 'all'\n[imex-epilog]\n")
    run = node.run(env=HAND)
    assert run.code == 2 and "imex-prolog" in run.err, run
    assert node.run("--version", env=HAND).code == 0
    assert_untouched(node)


def test_the_list_of_instance_types_can_be_set(make_node):
    node = make_node(instance_type="p9-x.48xlarge", dmi="p9-x.48xlarge")
    help_text = node.run("imex-prolog", "--help", env=HAND).out
    option = re.search(r"--(instance-type[a-z-]*)", help_text)
    assert option, "no option for the list of instance types in --help"
    node.config(f'[imex-prolog]\n{option[1]} = ["p9-x", "p9-y"]\n')
    assert_done(node, node.prolog())


# -- dry run

def test_a_dry_run_changes_nothing_at_all_and_prints_the_steps(node):
    node.start_unit()
    node.syslog.received.clear()
    before = node.tree()
    usr = node.sh("find /.usr/upper -newer /fake/ready 2>/dev/null", check=False).stdout
    run = node.run("imex-prolog", "--dry-run")
    assert run.code == 0, run
    after = node.tree()
    assert before == after, sorted(set(before.items()) ^ set(after.items()))
    assert node.sh("find /.usr/upper -newer /fake/ready 2>/dev/null", check=False).stdout == usr
    assert node.syslog.received == []
    assert [verb for verb in node.verbs() if verb in CHANGING] == []
    text = (run.out + run.err).lower()
    for word in ("channel", "10.20.0.1", "stop", "start"):
        assert word in text, f"the steps do not say {word!r}: {text}"


def test_a_dry_run_does_not_wait_for_a_domain_that_it_only_imagines_to_settle(make_node):
    node = make_node(config=None)
    run = node.run("imex-prolog", "--dry-run", "--json", "--settle=40", "--domain-timeout=50")
    assert run.code == 0, run
    took = {step["name"]: step["took_ms"] for step in json.loads(run.out)["steps"]}
    assert took["domain"] < 10_000, took


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_dry_run_of_a_skip_says_so_and_is_0(node, by_hand):
    before = node.tree()
    run = node.run("imex-prolog", "--dry-run", env={"SLURM_JOB_OVERSUBSCRIBE": "OK", **(HAND if by_hand else {})})
    assert run.code == 0 and "exclusive" in (run.out + run.err).lower(), run
    assert node.tree() == before


@pytest.mark.parametrize("fault,code", [("major", 5), ("scontrol", 3), ("peer", 4), ("config", 2)])
def test_a_dry_run_ends_as_the_first_failing_check_says(make_node, fault, code):
    node = make_node(channel_major=None if fault == "major" else "235", scontrol=None if fault == "scontrol" else "/opt/slurm/bin/scontrol")
    if fault == "peer":
        node.nodes([("ultra-1", "10.20.0.1")])
    if fault == "config":
        node.config("[imex-prolog]\nno-such-key = 1\n")
    before = node.tree()
    run = node.run("imex-prolog", "--dry-run")
    assert run.code == code, run
    assert node.tree() == before


# -- json

def one_object(run):
    value = json.loads(run.out)
    assert isinstance(value, dict), run.out
    return value


@pytest.mark.aarch64
def test_json_is_one_object_on_stdout_for_success_skip_and_failure(node):
    run = node.run("imex-prolog", "--json")
    done = one_object(run)
    assert run.code == 0 and 0 in done.values(), done
    skipped = one_object(node.run("--json", "imex-prolog", env={"SLURM_JOB_OVERSUBSCRIBE": "OK"}))
    assert 0 in skipped.values() and set(done) & set(skipped), skipped
    node.nodes([("ultra-1", "10.20.0.1")])
    run = node.run("imex-prolog", "--json")
    failed = one_object(run)
    assert run.code == 4 and 4 in failed.values() and "ultra-2" in json.dumps(failed), failed


def test_json_with_a_dry_run_is_still_one_object(node):
    before = node.tree()
    run = node.run("imex-prolog", "--json", "--dry-run")
    assert run.code == 0
    one_object(run)
    assert node.tree() == before


# -- root

def other_root(node, top="/srv/root"):
    node.sh(f"mkdir -p {top}/etc {top}/proc/driver {top}/sys {top}/dev {top}/var/log {top}/run {top}/usr/bin {top}/opt {top}/var/spool/slurmd; "
            f"cp -a /etc/nvidia-imex /etc/slurm /etc/gpu-prolog.toml {top}/etc/; cp -a /sys/class {top}/sys/; cp /proc/devices {top}/proc/devices; cp -a /opt/slurm {top}/opt/; "
            f"cp -a /usr/bin/systemctl /usr/bin/nvidia-imex-ctl /usr/bin/getent {top}/usr/bin/; mknod -m 666 {top}/dev/null c 1 3")
    return top


def test_with_another_root_files_are_written_inside_and_tools_run_only_from_there(node):
    top = other_root(node)
    before = {path: entry for path, entry in node.tree().items() if not path.startswith("/srv")}
    # The make-believe systemd is the kernel's, so to speak: its daemon reads the node's own list, which is given the own address here.
    node.write(LIST, "10.20.0.1\n")
    before[LIST] = node.tree()[LIST]
    run = node.run("--root", top, "imex-prolog")
    assert run.code == 0, run
    assert node.read(top + LIST) == "10.20.0.1\n10.20.0.2\n"
    assert node.exists(top + CHANNEL) and node.read(top + "/var/log/nvidia-imex-prolog.log")
    assert {call["exe"] for call in node.calls() if call["tool"] != "nvidia-imex"} == {
        top + "/opt/slurm/bin/scontrol", top + "/usr/bin/systemctl", top + "/usr/bin/nvidia-imex-ctl"}
    assert node.imds.requests == [], "the metadata service was asked though the variable is not set"
    after = {path: entry for path, entry in node.tree().items() if not path.startswith("/srv")}
    changed = {path for path in set(before) | set(after) if before.get(path) != after.get(path)} - {"/", "/etc/nvidia-imex"}
    changed = {path for path in changed if not path.startswith("/sys/fs/cgroup")}  # the unit of the make-believe systemd
    assert changed == set(), changed


def test_with_another_root_a_tool_outside_of_it_is_not_run(node):
    top = other_root(node)
    node.remove(top + "/opt/slurm/bin/scontrol")
    run = node.run("--root", top, "imex-prolog")
    assert run.code == 3 and "scontrol" in run.err, run
    assert node.calls("scontrol") == []
    assert node.read(top + LIST).encode() == OLD_LIST


def test_with_another_root_the_firmware_and_the_driver_are_those_of_that_root(node):
    top = other_root(node)
    node.sh(f"printf 'p5.48xlarge\\n' > {top}/sys/class/dmi/id/product_name")
    run = node.run("--root", top, "imex-prolog")
    assert run.code == 0 and node.read(top + LIST).encode() == OLD_LIST, run
    assert "p5.48xlarge" in node.read(top + "/var/log/nvidia-imex-prolog.log")


def test_links_inside_another_root_do_not_lead_out_of_it(node):
    top = other_root(node)
    node.sh(f"rm -rf {top}/etc/nvidia-imex; ln -s /etc/nvidia-imex {top}/etc/nvidia-imex")
    node.run("--root", top, "imex-prolog")
    assert node.list() == OLD_LIST


def test_a_skip_by_hand_changes_nothing(node):
    run = node.run("imex-prolog", env={**HAND, "SLURM_JOB_OVERSUBSCRIBE": "OK"})
    assert run.code == 0, run
    assert_untouched(node)
