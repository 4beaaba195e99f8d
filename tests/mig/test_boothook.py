"""mig-setup at boot, with real cloud-init and real systemd: the samples that are shipped, run as they are (only the layout
is replaced), on machines whose GPUs are make-believe."""
import json
import os
import re
import subprocess

import pytest

import machine
import mignode

P4D = {"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 2}
P4D_WORDS = "3g.20gb:1,2g.10gb:1,1g.5gb:2"
H200 = {"3g.71gb": 1, "2g.35gb": 1, "1g.18gb": 2}
H200_WORDS = "3g.71gb:1,2g.35gb:1,1g.18gb:2"


def shipped(what):
    """The one shipped file that is a boothook, a unit or the gate, found by what it is."""
    tests = {"boothook": lambda name, text: text.startswith("#cloud-boothook") and "mig-setup" in text,
             "unit": lambda name, text: name.endswith(".service") and "mig-setup" in text,
             "gate": lambda name, text: name.endswith(".conf") and "ExecCondition=" in text and "--gate" in text}
    found = []
    listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", mignode.PROJECT, "ls-files", "--cached", "--others", "--exclude-standard"], stdout=subprocess.PIPE, text=True).stdout.splitlines()
    if not listed:
        listed = [os.path.relpath(os.path.join(d, f), mignode.PROJECT) for d, dirs, files in os.walk(mignode.PROJECT) for f in files if "/." not in d]
    for name in listed:
        path = os.path.join(mignode.PROJECT, name)
        if name.startswith(("tests/", "src/", ".")) or not os.path.isfile(path) or os.path.getsize(path) > 20000:
            continue
        try:
            text = open(path).read()
        except UnicodeDecodeError:
            continue
        if tests[what](name, text):
            found.append((name, text))
    assert found, "no %s is shipped" % what
    return found[0]


def with_layout(text, layout):
    """The sample with another layout in it."""
    new, n = re.subn(r"(--layout[= ])('[^']*'|\"[^\"]*\"|\S+)", lambda m: m.group(1) + "'" + layout + "'", text)
    if n == 0:
        new, n = re.subn(r"(?m)^(\s*(?:layout|LAYOUT)=).*$", lambda m: m.group(1) + "'" + layout + "'", text)
    assert n, "no layout to replace in the sample:\n" + text
    return new


def install_binary(m, text):
    for place in set(re.findall(r"(?<![\w.])(/[\w./-]*/gpu-prolog)(?![\w.-])", text)):
        os.makedirs(os.path.dirname(m.path(place)), exist_ok=True)
        m.copy(mignode.BINARY, place)


@pytest.fixture
def make_machine():
    machines = []

    def make(boards, how, layout, gate=True, **words):
        how, _, suite = how.partition(" on ")
        m = machine.Machine(boards, suite=suite or "trixie", cloud_init=words.pop("cloud_init", how == "boothook"), **words)
        machines.append(m)
        name, text = shipped(how)
        text = with_layout(text, layout)
        install_binary(m, text)
        if how == "boothook":
            m.boothook(text)
        else:
            unit = os.path.basename(name)
            m.write("/etc/systemd/system/" + unit, text)
            wanted = re.findall(r"(?m)^(WantedBy|RequiredBy)=(.*)$", text)
            assert wanted, "the unit cannot be enabled"
            for kind, targets in wanted:
                for target in targets.split():
                    folder = m.path("/etc/systemd/system/%s.%s" % (target, "wants" if kind == "WantedBy" else "requires"))
                    os.makedirs(folder, exist_ok=True)
                    os.symlink("/etc/systemd/system/" + unit, os.path.join(folder, unit))
        if gate:
            _, drop_in = shipped("gate")
            install_binary(m, drop_in)
            m.write("/etc/systemd/system/slurmd.service.d/10-gate.conf", drop_in)
        return m

    yield make
    for m in machines:
        m.close()


def last_call_end(m):
    return max([c.get("t1", c["t0"]) for c in m.calls()] or [0])


def only_reboots(m):
    return [c for c in m.systemctl_calls() if "reboot" in c.split()]     # cloud-init calls it too


@pytest.mark.parametrize("what", ["boothook", "unit", "gate"])
def test_a_sample_is_shipped_and_the_samples_allow_one_reboot(what):
    _, text = shipped(what)
    if what != "gate":
        assert "--reboot=if-pending" in text or "--reboot if-pending" in text


@pytest.mark.parametrize("how", ["boothook", "boothook on bookworm", "unit"])
def test_the_first_boot_sets_up_the_second_changes_nothing_and_slurmd_starts_after(make_machine, how):
    m = make_machine(["H200", "H200"], how, H200_WORDS, boots_itself=False)
    assert m.start() == "up"
    assert m.layouts() == [H200, H200], m.console()
    assert m.wait_for(lambda: m.slurmd_starts())
    assert m.slurmd_starts()[0] >= last_call_end(m), "slurmd was there before the work was done"
    first = len(m.calls())
    m.stop()
    assert m.start() == "up"       # the GPUs kept their state: as after a soft reboot
    second = m.calls()[first:]
    assert second and len(second) <= 3, second
    assert not any(mignode.is_change(c["argv"]) for c in second), second
    assert m.wait_for(lambda: len(m.slurmd_starts()) == 2)
    assert only_reboots(m) == []


@pytest.mark.parametrize("how", ["boothook", "unit"])
def test_what_a_real_boot_lost_is_made_again(make_machine, how):
    m = make_machine(["H200"], how, H200_WORDS)
    for boot in (1, 2):
        assert m.start() == "up"
        assert m.layouts() == [H200] and m.wait_for(lambda: len(m.slurmd_starts()) == boot), m.console()
        m.stop()
    assert only_reboots(m) == []


@pytest.mark.parametrize("how", ["boothook", "boothook on bookworm", "unit"])
def test_a_pending_p4d_reboots_once_and_comes_up_right(make_machine, how):
    m = make_machine(["A100-40"] * 2, how, P4D_WORDS)
    assert m.start() == "reboot", m.console()
    assert m.slurmd_starts() == [], "slurmd started on a node that was about to reboot"
    assert only_reboots(m) == ["--no-block reboot"]
    assert m.start() == "up", m.console()
    assert m.layouts() == [P4D, P4D]
    assert m.wait_for(lambda: len(m.slurmd_starts()) == 1)
    assert only_reboots(m) == ["--no-block reboot"]
    m.stop()
    assert m.start() == "up" and m.layouts() == [P4D, P4D]      # A100 keeps the mode: the next boot needs no reboot
    assert only_reboots(m) == ["--no-block reboot"]


@pytest.mark.parametrize("how", ["boothook", "unit"])
def test_a_gpu_that_stays_pending_costs_one_reboot_and_then_keeps_slurmd_away_with_the_reason(make_machine, how):
    m = make_machine(["A100-40"], how, P4D_WORDS)
    m.edit(lambda s: [g.update(stuck=True) for g in s["gpus"]])
    assert m.start() == "reboot", m.console()
    assert m.start() == "up", m.console()
    assert only_reboots(m) == ["--no-block reboot"]
    assert m.slurmd_starts() == [] and m.show("slurmd", "ActiveState") == "inactive"
    gate = m.run("/usr/local/sbin/gpu-prolog", "validate", "mig", "--gate")
    assert gate.returncode == 1 and "pending" in (gate.stdout + gate.stderr).lower(), gate
    m.stop()
    assert m.start() == "up" and only_reboots(m) == ["--no-block reboot"]


@pytest.mark.parametrize("how", ["boothook", "boothook on bookworm", "unit"])
@pytest.mark.parametrize("case", ["layout", "half-way"])
def test_a_failing_setup_lets_the_boot_go_on_and_the_gate_and_validate_explain_it(make_machine, how, case):
    m = make_machine(["H200", "H200"], how, "3g.71gb:3" if case == "layout" else H200_WORDS)
    word = "3g.71gb" if case == "layout" else "Insufficient Resources"
    if case == "half-way":
        m.edit(lambda s: s["rules"].append(dict(match="-cgi", times=99, do=dict(fail_item=1, reason="Insufficient Resources"))))
    assert m.start() == "up", m.console()
    assert m.layouts() == [{}, {}]
    assert m.slurmd_starts() == [] and m.show("slurmd", "ActiveState") == "inactive", m.show("slurmd", "ActiveState")
    gate = m.run("/usr/local/sbin/gpu-prolog", "validate", "mig", "--gate")
    assert gate.returncode == 1 and word in gate.stdout + gate.stderr, gate
    full = m.run("/usr/local/sbin/gpu-prolog", "validate", "mig")
    assert full.returncode == 1, full
    assert m.status() is not None and word in json.dumps(m.status())
    # The way out: make it right by hand, then start slurmd.
    m.edit(lambda s: s.update(rules=[]))
    r = m.run("/usr/local/sbin/gpu-prolog", "mig-setup", "--layout", H200_WORDS)
    assert r.returncode == 0, r
    assert m.run("/usr/bin/systemctl.real", "start", "slurmd").returncode == 0
    assert m.wait_for(lambda: m.slurmd_starts()) and m.show("slurmd", "ActiveState") == "active"


@pytest.mark.parametrize("how", ["boothook", "unit"])
def test_a_driver_that_comes_late_is_waited_for_without_holding_the_boot_for_ever(make_machine, how):
    m = make_machine(["H200"], how, H200_WORDS, not_ready=[dict(exit=9, calls=2)], not_ready_on_boot=[dict(exit=9, calls=2)])
    assert m.start() == "up" and m.layouts() == [H200], m.console()
    assert m.wait_for(lambda: m.slurmd_starts())
    assert m.slurmd_starts()[0] >= last_call_end(m)


def test_without_the_gate_a_failed_boothook_would_let_slurmd_start(make_machine):
    """What the gate is for: cloud-init goes on after a hook that failed."""
    m = make_machine(["H200"], "boothook", "3g.71gb:3", gate=False)
    assert m.start() == "up"
    assert m.wait_for(lambda: m.slurmd_starts()) and m.layouts() == [{}]


@pytest.mark.parametrize("suite", ["trixie", "bookworm"])
def test_the_unit_waits_for_the_instance_id_of_this_launch_where_an_image_brought_the_builders_and_its_marker(make_machine, suite):
    """On Red Hat and Amazon Linux cloud-init's first stage is not before sysinit.target. Without an order the unit reads
    what the image has, takes the builder's marker for its own, and does not reboot."""
    m = make_machine(["A100-40"], "unit on " + suite, P4D_WORDS, cloud_init=True)
    for stage in ("main", "local", "network") if suite == "trixie" else ("local", ""):
        name = "/usr/lib/systemd/system/" + "-".join(["cloud-init", stage]).rstrip("-") + ".service"
        text = m.read(name)
        m.write(name, text.replace("Before=sysinit.target\n", ""), replace=True)
    m.write("/etc/systemd/system/cloud-init-local.service.d/slow.conf", "[Service]\nExecStartPre=/bin/sleep 3\n")
    m.write("/var/lib/cloud/data/instance-id", "i-0b0b0b0b0b0b0b0b0\n")
    m.write("/var/lib/gpu-prolog/mig-reboot.json", json.dumps(dict(schema=1, instance_id="i-0b0b0b0b0b0b0b0b0", boot_id="the builder's", layout="x")), mode=0o600)
    assert m.start() == "reboot", m.console()
    assert json.loads(m.read("/var/lib/gpu-prolog/mig-reboot.json"))["instance_id"] == machine.INSTANCE
    assert m.start() == "up" and m.layouts() == [P4D], m.console()
    assert "ordering cycle" not in m.run("/bin/journalctl", "-b", "--no-pager").stdout
    assert only_reboots(m) == ["--no-block reboot"]


@pytest.mark.parametrize("suite", ["trixie", "bookworm", "trixie as on Amazon Linux"])
def test_the_unit_may_still_reboot_where_cloud_init_works_beside_it_and_the_gpus_are_slow(make_machine, suite):
    """AWS PCS joins the node from cloud-init's last stage. The unit has to be done before it: also because a finished
    cloud-init is a sign of a finished boot, after which nothing reboots any more."""
    suite, _, other = suite.partition(" as ")
    m = make_machine(["A100-40"], "unit on " + suite, P4D_WORDS, cloud_init=True, time_scale=0.25)
    if other:      # there cloud-init's last stage does not wait for multi-user.target
        name = "/usr/lib/systemd/system/cloud-final.service"
        text = m.read(name)
        assert "After=multi-user.target\n" in text
        m.write(name, text.replace("After=multi-user.target\n", ""), replace=True)
    assert m.start() == "reboot", m.console()
    assert m.slurmd_starts() == []
    assert m.start() == "up" and m.layouts() == [P4D], m.console()
    assert only_reboots(m) == ["--no-block reboot"]
