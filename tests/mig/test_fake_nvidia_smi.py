"""The make-believe nvidia-smi held against the captures of a real one, byte for byte, and against what NVIDIA's
documents and posted listings show for MIG switched on."""
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

import fake_nvidia_smi as fake

HERE = os.path.dirname(os.path.abspath(__file__))
CAPTURES = os.path.join(HERE, "..", "data", "nvidia-smi-580-h200")
REAL_BUS, REAL_UUID = "00000000:00:06.0", "GPU-11111111-2222-3333-4444-555555555555"


class Tool:
    def __init__(self, folder):
        self.exe = os.path.join(folder, "nvidia-smi")
        self.state = os.path.join(folder, "state.json")
        shutil.copy(os.path.join(HERE, "fake_nvidia_smi"), self.exe)
        with open(self.exe + ".state", "w") as f:
            f.write(self.state)

    def board(self, *boards, **behaviour):
        fake.save(self.state, fake.new_state(list(boards), **behaviour))
        return self

    def edit(self, change):
        state = fake.load(self.state)
        change(state)
        fake.save(self.state, state)

    def rule(self, match, do, **more):
        self.edit(lambda s: s["rules"].append(dict(dict(match=match, do=do, times=1), **more)))

    def reboot(self):
        self.edit(fake.boot)

    def run(self, words, user=None, **kw):
        cmd = [self.exe] + words.split() if isinstance(words, str) else [self.exe] + words
        return subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={}, timeout=30, **kw)

    def ok(self, words):
        r = self.run(words)
        assert r.returncode == 0, r.stdout
        return r.stdout

    def calls(self):
        return fake.calls(self.state)


@pytest.fixture
def tool(tmp_path):
    return Tool(str(tmp_path))


@pytest.fixture
def captured(tool):
    """The captured machine: one H200 at the captured address."""
    tool.board("H200")

    def like_the_capture(s):
        s["gpus"][0].update(bus=REAL_BUS, uuid=REAL_UUID)
    tool.edit(like_the_capture)
    return tool


def capture(name):
    text = open(os.path.join(CAPTURES, name)).read()
    command, _, rest = text.partition("\n")
    body, _, rc = rest.rpartition("rc=")
    return command[len("$ nvidia-smi"):].split(), body, int(rc)


@pytest.mark.parametrize("name", ["L.txt", "apps.txt", "apps-noheader.txt", "gpu-query.txt", "lgi-by-bus-id.txt", "badfield.txt", "badindex.txt", "lci.txt", "lcip.txt", "lgi.txt", "lgip.txt", "lgipp.txt", "migbadidx.txt", "migquery.txt", "migquery_nounits.txt", "version.txt"])
def test_it_answers_as_the_real_one_did_byte_for_byte(captured, name):
    words, body, rc = capture(name)
    r = captured.run(words)
    assert (r.stdout, r.returncode) == (body, rc)


def sections(name):
    """A file of several captures: (words, output, exit code) of each."""
    out = []
    for part in re.split(r"(?m)^\$ nvidia-smi ?", open(os.path.join(CAPTURES, name)).read())[1:]:
        command, _, rest = part.partition("\n")
        body, _, rc = rest.rpartition("rc=")
        out.append((command, body, int(rc)))
    return out


@pytest.mark.parametrize("words,body,rc", [s for s in sections("forms.txt") if s[0] != "mig"], ids=lambda v: v if isinstance(v, str) and "\n" not in v else "")
def test_other_words_are_answered_as_the_real_one_did_byte_for_byte(captured, words, body, rc):
    r = captured.run(words)
    assert (r.stdout, r.returncode) == (body, rc)


def test_the_real_help_knows_every_word_of_mig_that_is_used_here():
    text = open(os.path.join(CAPTURES, "mig-help.txt")).read()
    for word in ("-i", "-gi", "-ci", "-lgip", "-lgipp", "-lgi", "-lcip", "-lcipp", "-lci", "-cgi", "-C", "-cci", "-dci", "-dgi"):
        assert "[%s | " % word in text, word
    flat = " ".join(text.split())
    assert "an optional placement specifier, which consists of a colon and a placement start index" in flat
    assert "Provide comma separated values for more than one device" in flat


def test_the_plain_table_is_the_real_one_but_for_the_time(captured):
    _, body, rc = capture("plain.txt")
    r = captured.run("")
    assert r.stdout.splitlines()[1:] == body.splitlines()[1:] and r.returncode == rc
    assert len(r.stdout.splitlines()[0]) == len(body.splitlines()[0])


def test_every_line_of_the_short_q_is_a_line_of_the_real_q_in_the_same_order(captured):
    _, body, rc = capture("q.txt")
    r = captured.run("-q")
    real = iter(l for l in body.splitlines() if "Timestamp" not in l)
    for line in (l for l in r.stdout.splitlines() if "Timestamp" not in l):
        assert line in real, line
    assert r.returncode == rc


def test_every_line_of_the_short_xml_is_a_line_of_the_real_xml(captured):
    _, body, _ = capture("qx.txt")
    real = body.splitlines()
    for line in captured.ok("-q -x").splitlines():
        assert "timestamp" in line or line in real, line


def test_the_long_query_of_the_capture_notes_gives_the_same_line(captured):
    notes = open(os.path.join(CAPTURES, "channel-and-caps.txt")).read()
    m = re.search(r"\$ nvidia-smi (--query-gpu=\S+ --format=csv,noheader)\n(.*)\nrc=(\d)", notes)
    r = captured.run(m.group(1))
    assert (r.stdout, r.returncode) == (m.group(2) + "\n", int(m.group(3)))


def test_a_user_who_is_not_root_sees_the_same_while_mig_is_off(captured, tmp_path):
    if os.geteuid() != 0:
        pytest.fail("run as root")
    for folder in [tmp_path, *tmp_path.parents]:
        if str(folder).startswith("/tmp/") and folder.stat().st_uid == 0:
            os.chmod(folder, 0o777)
    for f in os.listdir(tmp_path):
        os.chmod(tmp_path / f, 0o777)
    for words in ("-L", "mig -lgip", "mig -lgi"):
        nobody = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", captured.exe] + words.split(), stdout=subprocess.PIPE, text=True)
        assert (nobody.returncode, nobody.stdout) == (0, captured.run(words).stdout)


# ------------------------------------------------------------------ documents
def test_mode_on_a_hopper_takes_at_once_and_is_lost_at_the_next_boot(tool):
    tool.board("H100", "H100")
    out = tool.ok("-mig 1")
    assert out == "Enabled MIG Mode for GPU 00000000:10:00.0\nEnabled MIG Mode for GPU 00000000:1B:00.0\nAll done.\n"
    assert tool.ok("--query-gpu=mig.mode.current,mig.mode.pending --format=csv,noheader") == "Enabled, Enabled\n" * 2
    tool.reboot()
    assert tool.ok("--query-gpu=mig.mode.current,mig.mode.pending --format=csv,noheader") == "Disabled, Disabled\n" * 2


def test_mode_on_a_p4d_stays_pending_says_all_done_and_is_there_after_the_boot(tool):
    tool.board("A100-40")
    out = tool.ok("-i 0 -mig 1")
    assert out == ("Warning: MIG mode is in pending enable state for GPU 00000000:10:00.0:Not Supported\n"
                   "Reboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on GPU 00000000:10:00.0\nAll done.\n")
    query = "--query-gpu=mig.mode.current,mig.mode.pending --format=csv,noheader"
    assert tool.ok(query) == "Disabled, Enabled\n"
    tool.reboot()
    assert tool.ok(query) == "Enabled, Enabled\n"


def test_a_busy_gpu_stays_pending_and_a_gpu_without_mig_says_so_both_with_exit_0(tool):
    tool.board("H100", "L4")
    tool.edit(lambda s: s["gpus"][0]["clients"].append(dict(pid=4711, name="/usr/bin/dcgm")))
    out = tool.ok("-mig 1")
    assert "in pending enable state for GPU 00000000:10:00.0:In use by another client\n" in out
    assert "Unable to enable MIG Mode for GPU 00000000:1B:00.0: Not Supported\nTreating as warning and moving on.\nAll done.\n" in out
    assert tool.ok("--query-gpu=mig.mode.current,mig.mode.pending --format=csv,noheader") == "Disabled, Enabled\n[N/A], [N/A]\n"
    assert tool.ok("--query-compute-apps=pid,process_name --format=csv,noheader") == "4711, /usr/bin/dcgm\n"


def test_the_guides_example_of_a_wrong_order_fails_half_way_and_leaves_what_was_made(tool):
    tool.board("H100")
    tool.ok("-mig 1")
    r = tool.run("mig -cgi 19,19,14,9 -C")
    assert r.returncode == 23
    lines = r.stdout.splitlines()
    assert lines[0] == "Successfully created GPU instance ID 13 on GPU  0 using profile MIG 1g.10gb (ID 19)"
    assert lines[1] == "Successfully created compute instance ID  0 on GPU  0 GPU instance ID 13 using profile MIG 1g.10gb (ID  0)"
    assert lines[-2:] == ["Unable to create a GPU instance on GPU  0 using profile 9: Insufficient Resources", "Failed to create GPU instances: Insufficient Resources"]
    assert len(fake.load(tool.state)["gpus"][0]["gis"]) == 3


def test_the_guides_example_of_the_right_order_works(tool):
    tool.board("A100-40")
    tool.edit(lambda s: s["gpus"][0].update(current="Enabled", pending="Enabled"))
    tool.ok("mig -cgi 9,19,14,19")
    tool.edit(lambda s: s["behaviour"].update(lgi_width=54))
    assert tool.ok("mig -lgi") == (
        "+----------------------------------------------------+\n"
        "| GPU instances:                                     |\n"
        "| GPU   Name          Profile  Instance   Placement  |\n"
        "|                       ID       ID       Start:Size |\n"
        "|====================================================|\n"
        "|   0  MIG 1g.5gb       19        7          0:1     |\n"
        "+----------------------------------------------------+\n"
        "|   0  MIG 1g.5gb       19        8          1:1     |\n"
        "+----------------------------------------------------+\n"
        "|   0  MIG 2g.10gb      14        4          2:2     |\n"
        "+----------------------------------------------------+\n"
        "|   0  MIG 3g.20gb       9        2          4:4     |\n"
        "+----------------------------------------------------+\n")
    assert tool.run("mig -lci").stdout == "No compute instances found: Not Found\n"


def test_the_listings_of_newer_drivers_have_their_wider_forms(tool):
    tool.board("RTXPRO6000")
    tool.ok("-mig 1")
    tool.ok("mig -cgi 14,14,14,14 -C")
    lgi = tool.ok("mig -i 0 -lgi")
    assert "|   0  MIG 1g.24gb           14        6          9:3     |\n" in lgi and lgi.splitlines()[0] == "+" + "-" * 57 + "+"
    assert "|   0      3       MIG 1g.24gb          0         0          0:1     |\n" in tool.ok("mig -i 0 -lci")
    assert "  MIG 1g.24gb     Device  0: (UUID: MIG-" in tool.ok("-L")
    assert "|   0  MIG 1g.24gb         14     0/4        23.62      No     46     1     1   |\n" in tool.ok("mig -lgip")


def test_old_drivers_profile_table_has_its_narrower_form(tool):
    tool.board("A100-40", lgip_wide=False)
    assert tool.ok("mig -lgip").splitlines()[:7] == [
        "+-----------------------------------------------------------------------------+",
        "| GPU instance profiles:                                                      |",
        "| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |",
        "|                              Free/Total   GiB              CE    JPEG  OFA  |",
        "|=============================================================================|",
        "|   0  MIG 1g.5gb        19     7/7        4.75       No     14     0     0   |",
        "|                                                             1     0     0   |"]


def test_explicit_starts_are_kept_and_wrong_ones_refused(tool):
    tool.board("H200")
    tool.ok("-mig 1")
    tool.ok("mig -i 0 -cgi 19:0,19:1,14:2,9:4 -C")
    assert [(g["profile"], g["start"]) for g in fake.load(tool.state)["gpus"][0]["gis"]] == [(19, 0), (19, 1), (14, 2), (9, 4)]
    assert tool.run("mig -i 0 -cgi 9:2 -C").returncode == 2
    r = tool.run("mig -i 0 -cgi 9:0 -C")
    assert (r.returncode, r.stdout.splitlines()[-1]) == (23, "Failed to create GPU instances: Insufficient Resources")
    assert tool.run("mig -i 0 -cgi 7g.40gb -C").stdout == "Unable to create a GPU instance on GPU  0 using profile 7g.40gb: Invalid Argument\nFailed to create GPU instances: Invalid Argument\n"


def test_a_gpu_instance_with_a_compute_instance_inside_cannot_be_destroyed(tool):
    tool.board("H100")
    tool.ok("-mig 1")
    tool.ok("mig -cgi 9 -C")
    r = tool.run("mig -i 0 -dgi")
    assert (r.returncode, r.stdout) == (19, "Unable to destroy GPU instance ID  2 from GPU  0: In use by another client\nFailed to destroy GPU instances: In use by another client\n")
    assert tool.ok("mig -i 0 -dci") == "Successfully destroyed compute instance ID  0 from GPU  0 GPU instance ID  2\n"
    assert tool.ok("mig -i 0 -dgi") == "Successfully destroyed GPU instance ID  2 from GPU  0\n"
    r = tool.run("mig -lgi")
    assert (r.returncode, r.stdout) == (6, "No GPU instances found: Not Found\n")


def test_a_gpu_instance_without_a_compute_instance_can_be_completed(tool):
    tool.board("H100")
    tool.ok("-mig 1")
    tool.ok("mig -cgi 9,9")
    assert tool.ok("mig -i 0 -gi 1 -cci") == "Successfully created compute instance ID  0 on GPU  0 GPU instance ID  1 using profile MIG 3g.40gb (ID  2)\n"
    assert tool.run("mig -i 0 -gi 1 -cci").returncode == 23


@pytest.mark.parametrize("layout,fits", [("7g", True), ("4g,3g", True), ("4g,2g,1g", True), ("3g,2g,2g", True), ("3g,2g,1g,1g", True), ("3g,1g,1g,1g,1g", True), ("1g,1g,1g,1g,1g,1g,1g", True),
                                         ("3g,3g,1g", False), ("4g,2g,2g", False), ("4g,4g", False), ("7g,1g", False), ("1g,1g,1g,1g,1g,1g,1g,1g", False)])
def test_what_fits_on_a_seven_slice_board_is_what_nvidias_diagram_shows(tool, layout, fits):
    tool.board("H200")
    tool.ok("-mig 1")
    names = {"7g": "0", "4g": "5", "3g": "9", "2g": "14", "1g": "19"}
    assert (tool.run("mig -cgi " + ",".join(names[w] for w in layout.split(","))).returncode == 0) == fits


def test_only_one_instance_may_own_the_media_engines(tool):
    tool.board("RTXPRO6000")
    tool.ok("-mig 1")
    assert tool.run("mig -cgi 21,14,14 -C").returncode == 0
    assert tool.run("mig -cgi 21 -C").returncode == 23


def test_ids_are_those_of_the_board_and_not_of_another(tool):
    tool.board("A30", "RTXPRO6000", "H200")
    tool.ok("-mig 1")
    for gpu, name in ((1, "2g.48gb"), (2, "4g.71gb")):
        assert "MIG %s (ID  5)" % name in tool.ok("mig -i %d -cgi 5" % gpu)


# ------------------------------------------------------------------ bad luck
def test_it_can_be_not_ready_for_some_calls_and_until_modprobe(tool):
    tool.board("H100", not_ready=[dict(exit=9, until_modprobe=True), dict(exit=12, calls=1), dict(exit=6, calls=1)])
    assert [tool.run("-L").returncode for _ in range(3)] == [9, 9, 9]
    tool.edit(lambda s: s.update(modprobed=True))
    r = [tool.run("-L") for _ in range(3)]
    assert [x.returncode for x in r] == [12, 6, 0]
    assert r[1].stdout == "No devices were found\n"


def test_without_permission_the_words_look_like_an_empty_listing_and_the_exit_is_4(tool, tmp_path):
    tool.board("H100")
    tool.ok("-mig 1")
    tool.rule("-lgi", dict(exit=4, stdout="Failed to display GPU instances: Insufficient Permissions\nNo GPU instances found: Insufficient Permissions\n"))
    r = tool.run("mig -lgi")
    assert r.returncode == 4 and r.stdout.endswith("No GPU instances found: Insufficient Permissions\n")
    assert tool.run("mig -lgi").returncode == 6


def test_it_can_fail_half_way_and_leave_what_it_made(tool):
    tool.board("H100")
    tool.ok("-mig 1")
    tool.rule("-cgi", dict(fail_item=2, reason="Insufficient Resources"))
    assert tool.run("mig -i 0 -cgi 19:0,19:1,14:2,9:4 -C").returncode == 23
    assert len(fake.load(tool.state)["gpus"][0]["gis"]) == 2


def test_it_can_say_all_done_and_stay_pending_or_do_nothing_or_say_nothing(tool):
    tool.board("H100")
    query = "--query-gpu=mig.mode.current,mig.mode.pending --format=csv,noheader"
    for mode, out, after in (("ignored", "All done.\n", "Disabled, Disabled\n"), ("silent-pending", "All done.\n", "Disabled, Enabled\n"), ("silent-take", "All done.\n", "Enabled, Enabled\n")):
        tool.board("H100")
        tool.rule("-mig", dict(mode=mode))
        assert (tool.ok("-mig 1"), tool.ok(query)) == (out, after)
    tool.board("H100")
    tool.rule("-mig", dict(silent=True))
    assert (tool.ok("-mig 1"), tool.ok(query)) == ("", "Disabled, Disabled\n")


def test_it_can_hang_and_ignore_term(tool):
    tool.board("H100")
    tool.rule("-L", dict(hang="before", term="ignore"))
    p = subprocess.Popen([tool.exe, "-L"], env={})
    deadline = time.monotonic() + 10
    while not tool.calls() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.1)
    p.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        p.wait(0.3)
    assert tool.ok("-L").startswith("GPU 0")        # others are answered meanwhile
    p.kill()
    assert p.wait(5) == -signal.SIGKILL
    assert "rc" not in tool.calls()[0]


def test_it_takes_its_time_in_scaled_seconds(tool):
    tool.board(*["A100-40"] * 4, time_scale=0.01)
    t = time.monotonic()
    tool.ok("-mig 1")
    first = time.monotonic() - t
    assert first >= 0.95 * 0.01 * (24 + 4 * 4)       # a clock that is being set right runs a little slower: 0.399 s was seen
    tool.board(*["A100-40"] * 4, time_scale=0.1)
    tool.ok("-L")
    t = time.monotonic()
    tool.ok("-mig 1")
    assert 0.95 * 0.1 * 16 <= time.monotonic() - t < 0.1 * (24 + 16)     # only the first call after a boot takes 24 s


def test_indexes_can_change_at_a_boot_and_a_gpu_can_be_lost(tool):
    tool.board("H100", "H100", renumber_on_boot=[1, 0], lose_on_boot=[])
    query = "--query-gpu=index,pci.bus_id --format=csv,noheader"
    assert tool.ok(query) == "0, 00000000:10:00.0\n1, 00000000:1B:00.0\n"
    tool.reboot()
    assert tool.ok(query) == "0, 00000000:1B:00.0\n1, 00000000:10:00.0\n"
    tool.edit(lambda s: s["behaviour"].update(lose_on_boot=["00000000:10:00.0"], renumber_on_boot=[]))
    tool.reboot()
    assert tool.ok(query) == "0, 00000000:1B:00.0\n"


def test_every_call_is_recorded_with_its_words_and_whether_another_ran_beside_it(tool):
    tool.board("H100", time_scale=0.1)
    a = subprocess.Popen([tool.exe, "-L"], stdout=subprocess.DEVNULL, env={})
    deadline = time.monotonic() + 10
    while not tool.calls() and time.monotonic() < deadline:
        time.sleep(0.005)
    tool.ok("mig -lgip -i 0")
    a.wait()
    first, second = tool.calls()
    assert (first["argv"], first["overlap"], first["rc"]) == (["-L"], False, 0)
    assert (second["argv"], second["overlap"], second["rc"]) == (["mig", "-lgip", "-i", "0"], True, 0)


def test_it_can_kill_its_caller_between_two_instances(tool):
    tool.board("H100")
    tool.ok("-mig 1")
    tool.rule("-cgi", dict(kill_parent="item:2"))
    r = subprocess.run(["/bin/sh", "-c", "%s mig -i 0 -cgi 19:0,19:1,14:2 -C; echo survived" % tool.exe], stdout=subprocess.PIPE, text=True)
    assert r.returncode == -signal.SIGKILL and "survived" not in r.stdout
    assert [len(g["cis"]) for g in fake.load(tool.state)["gpus"][0]["gis"]] == [1, 1]


def test_reset_is_refused_in_a_virtual_machine_and_makes_a_pending_mode_current_elsewhere(tool):
    tool.board("A100-40")
    tool.ok("-mig 1")
    r = tool.run("--gpu-reset -i 0")
    assert r.stdout == "Resetting GPU 00000000:10:00.0 is not supported.\n" and r.returncode != 0
    tool.edit(lambda s: s["behaviour"].update(reset_supported=True))
    assert tool.ok("--gpu-reset -i 0") == "GPU 00000000:10:00.0 was successfully reset.\nAll done.\n"
    assert tool.ok("--query-gpu=mig.mode.current --format=csv,noheader") == "Enabled\n"


def test_a_selection_by_bus_id_or_uuid_finds_the_same_gpu(tool):
    tool.board("H100", "H100")
    for word in ("1", "00000000:1B:00.0", "0000:1b:00.0", "GPU-11111112-2222-3333-4444-555555550001"):
        assert tool.ok(["-i", word, "--query-gpu=index", "--format=csv,noheader"]) == "1\n"
