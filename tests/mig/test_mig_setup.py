"""mig-setup as its users rely on it: the real binary on a make-believe node. Every test tells the exit code, what was
called and what the GPUs are afterwards."""
import itertools
import json
import os
import re
import signal
import subprocess
import threading
import time

import pytest

import fake_nvidia_smi as fake
import mignode
from mignode import STATUS_LIB, STATUS_RUN

MIX = {"3g.71gb": 1, "2g.35gb": 1, "1g.18gb": 2}
MIX_WORDS = "3g.71gb:1,2g.35gb:1,1g.18gb:2"
QUERY_FIELDS = ("mig.mode.current", "mig.mode.pending")


def gres(text):
    """What stdout gave, as {type: count}."""
    text = text.strip()
    assert "\n" not in text, text
    out = {}
    for entry in text.split(","):
        m = re.fullmatch(r"gpu:([^:]+):(\d+)", entry)
        assert m, text
        out[m.group(1)] = int(m.group(2))
    return out


def assert_untouched(node, result, before):
    assert result.changing() == [], result
    after = node.state()
    assert after["gpus"] == before["gpus"], result
    assert node.reboots() == []


def everything(result):
    return result.out + result.err


def files_of(node):
    """Every file below /var, /etc and /run of the node that the program could have made, with its content."""
    seen = {}
    for top in ("/var", "/etc"):
        base = os.path.join(node.folder, top[1:])
        for folder, _, names in os.walk(base):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    seen[path[len(node.folder):]] = open(path, "rb").read()
    run = "/proc/%d/root/run" % node.holder_pid()
    for folder, _, names in os.walk(run):
        for name in names:
            seen["/run" + os.path.join(folder, name)[len(run):]] = b""
    return seen


# ------------------------------------------------------------------ the main job
def test_a_fresh_node_gets_mode_and_instances_on_every_gpu_and_the_gres_line(make_node):
    node = make_node("H200", "H200")
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0, r
    assert node.modes() == [("Enabled", "Enabled")] * 2
    assert [node.layout(i) for i in (0, 1)] == [(MIX, 0)] * 2, r
    assert gres(r.out) == {"3g.71gb": 2, "2g.35gb": 2, "1g.18gb": 4}
    assert node.reboots() == []


def test_the_gres_line_lists_the_larger_profiles_first_as_the_published_example_does(make_node):
    node = make_node("H200")
    r = node.mig_setup("--layout", "1g.18gb:2,2g.35gb:1,3g.71gb:1")
    assert (r.code, r.out) == (0, "gpu:3g.71gb:1,gpu:2g.35gb:1,gpu:1g.18gb:2\n"), r


def test_the_second_run_changes_nothing_needs_at_most_3_calls_and_says_the_same(make_node):
    node = make_node("H200", "H200")
    first = node.mig_setup("--layout", MIX_WORDS)
    before = node.state()
    second = node.mig_setup("--layout", MIX_WORDS)
    assert (second.code, second.out) == (0, first.out), second
    assert_untouched(node, second, before)
    assert len(second.calls) <= 3, second


def test_a_fresh_node_of_8_gpus_stays_within_the_budget_of_calls(make_node):
    node = make_node(*["H200"] * 8)
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0 and node.all_layouts() == [MIX] * 8, r
    modes = [c for c in r.calls if "-mig" in c["argv"]]
    creations = [c for c in r.calls if "-cgi" in c["argv"]]
    assert len(modes) == 1, r
    assert len(creations) == 1 and len(creations[0]["argv"][2].split(",")) == 8, r
    assert len(r.calls) <= 1 + 1 + 1 + 1 + 1 + 8 + 2, r


@pytest.mark.parametrize("board,layout,want", [
    ("H100", "3g.40gb:1,2g.20gb:1,1g.10gb:2", {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}),
    ("H100", "4g.40gb:1,1g.20gb:2", {"4g.40gb": 1, "1g.20gb": 2}),
    ("B200", "1g.23gb:7", {"1g.23gb": 7}),
    ("B200", "4g.90gb:1,3g.90gb:1", {"4g.90gb": 1, "3g.90gb": 1}),
    ("RTXPRO6000", "2g.48gb:1,1g.24gb:2", {"2g.48gb": 1, "1g.24gb": 2}),
    ("RTXPRO6000", "1g.24gb+gfx:3,1g.24gb-me:1", {"1g.24gb+gfx": 3, "1g.24gb-me": 1}),
    ("RTXPRO6000", "4g.96gb+gfx:1", {"4g.96gb+gfx": 1}),
    ("A30", "2g.12gb:1,1g.6gb:2", {"2g.12gb": 1, "1g.6gb": 2}),
    ("H200", "1g.35gb:4", {"1g.35gb": 4}),
    ("H200", "2g.35gb:3,1g.18gb:1", {"2g.35gb": 3, "1g.18gb": 1}),
    ("H200", "1g.18gb+me:1,1g.18gb:6", {"1g.18gb+me": 1, "1g.18gb": 6}),
])
def test_every_board_gets_its_layout_with_the_profiles_its_own_driver_lists(make_node, board, layout, want):
    node = make_node(board)
    r = node.mig_setup("--layout", layout)
    assert r.code == 0 and node.layout(0) == (want, 0), r
    assert gres(r.out) == want


@pytest.mark.parametrize("board", ["A100-40", "A100-80"])
def test_an_a100_that_comes_up_enabled_is_split_without_a_reboot(make_node, board):
    node = make_node(board)
    node.enable()
    r = node.mig_setup("--layout", "9,14,19,19", "--reboot=if-pending")
    assert r.code == 0 and node.reboots() == [], r
    assert sum(node.layout(0)[0].values()) == 4


# ------------------------------------------------------------------ layouts
@pytest.mark.parametrize("order", sorted(set(itertools.permutations([9, 14, 19, 19]))))
def test_the_order_of_profile_ids_never_matters(make_node, order):
    node = make_node("H200")
    r = node.mig_setup("--layout", ",".join(map(str, order)))
    assert r.code == 0 and node.layout(0) == (MIX, 0), r


def test_every_creation_names_its_placement(make_node):
    node = make_node("H200")
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0
    for call in r.calls:
        if "-cgi" in call["argv"]:
            items = call["argv"][call["argv"].index("-cgi") + 1].split(",")
            assert all(re.fullmatch(r"(\d+|[\w.+-]+):\d+", item) for item in items), call


@pytest.mark.parametrize("asked,made", [("7g.80gb:1", {"7g.79gb": 1}), ("3g.40gb:2", {"3g.39gb": 2}), ("7g.79gb:1", {"7g.79gb": 1}), ("4g.40gb:1,3g.40gb:1", {"4g.39gb": 1, "3g.39gb": 1})])
def test_a_name_that_the_driver_spells_with_a_little_other_memory_is_found_and_the_drivers_name_printed(make_node, asked, made):
    node = make_node("A100-80-drifted")
    node.enable()
    r = node.mig_setup("--layout", asked)
    assert r.code == 0 and node.layout(0) == (made, 0), r
    assert gres(r.out) == made


def test_the_same_name_is_another_profile_id_on_another_board(make_node):
    node = make_node("H200", "RTXPRO6000")
    r = node.mig_setup("--layout", "model:H200=4g.71gb:1", "--layout", "model:RTX PRO 6000=2g.48gb:2")
    assert r.code == 0, r
    assert node.all_layouts() == [{"4g.71gb": 1}, {"2g.48gb": 2}]


@pytest.mark.parametrize("selection", [
    ["0=7g.141gb:1", "1-2=1g.18gb:7"],
    ["0=7g.141gb:1", "1=1g.18gb:7", "2=1g.18gb:7"],
    ["00000000:10:00.0=7g.141gb:1", "00000000:1B:00.0=1g.18gb:7", "00000000:26:00.0=1g.18gb:7"],
    ["GPU-11111111-2222-3333-4444-555555550000=7g.141gb:1", "1-2=1g.18gb:7"],
])
def test_gpus_are_selected_by_index_range_bus_id_and_uuid(make_node, selection):
    node = make_node("H200", "H200", "H200")
    r = node.mig_setup(*[w for s in selection for w in ("--layout", s)])
    assert r.code == 0 and node.all_layouts() == [{"7g.141gb": 1}, {"1g.18gb": 7}, {"1g.18gb": 7}], r
    assert gres(r.out) == {"7g.141gb": 1, "1g.18gb": 14}


@pytest.mark.parametrize("word", ["model:H200", "model:h200", "model:nvidia h200"])
def test_gpus_are_selected_by_a_part_of_the_product_name_in_any_case(make_node, word):
    node = make_node("H200", "A30")
    r = node.mig_setup("--layout", word + "=3g.71gb:2", "--layout", "model:a30=2g.12gb:2")
    assert r.code == 0 and node.all_layouts() == [{"3g.71gb": 2}, {"2g.12gb": 2}], r


def test_a_gpu_that_no_selection_names_is_left_alone(make_node):
    node = make_node("H200", "H200")
    r = node.mig_setup("--layout", "1=3g.71gb:2")
    assert r.code == 0, r
    assert node.modes() == [("Disabled", "Disabled"), ("Enabled", "Enabled")]
    assert node.all_layouts() == [{}, {"3g.71gb": 2}]


def test_none_switches_mig_off_and_the_gres_line_is_empty(make_node):
    node = make_node("H200", "H200")
    assert node.mig_setup("--layout", MIX_WORDS).code == 0
    r = node.mig_setup("--layout", "none")
    assert r.code == 0 and node.modes() == [("Disabled", "Disabled")] * 2, r
    assert node.all_layouts() == [{}, {}]
    assert "gpu:1g" not in r.out and "gpu:3g" not in r.out


def test_none_where_mig_is_off_already_changes_nothing(make_node):
    node = make_node("H200")
    before = node.state()
    r = node.mig_setup("--layout", "none")
    assert r.code == 0, r
    assert_untouched(node, r, before)


def test_none_works_also_where_the_driver_refuses_while_instances_exist(make_node):
    node = make_node("H200", mig_off_needs_empty=True)
    assert node.mig_setup("--layout", MIX_WORDS).code == 0
    r = node.mig_setup("--layout", "none")
    assert r.code == 0 and node.modes() == [("Disabled", "Disabled")], r


def test_one_gpu_off_and_the_other_split(make_node):
    node = make_node("H200", "H200")
    node.enable()
    r = node.mig_setup("--layout", "0=none", "--layout", "1=3g.71gb:2")
    assert r.code == 0 and node.modes() == [("Disabled", "Disabled"), ("Enabled", "Enabled")], r
    assert node.all_layouts() == [{}, {"3g.71gb": 2}]


@pytest.mark.parametrize("doc", [
    {"layout": MIX_WORDS}, {"layout": "9,14,19,19"}, {"layout": {"3g.71gb": 1, "2g.35gb": 1, "1g.18gb": 2}}, {"layouts": {"0": MIX_WORDS, "1": MIX_WORDS}}, {"layouts": {"model:H200": MIX_WORDS}},
    {"layouts": [{"gpus": "0-1", "layout": MIX_WORDS}]},
])
def test_a_json_file_gives_every_gpu_its_layout(make_node, doc):
    node = make_node("H200", "H200", prepare=lambda n: n.put("/etc/mig.json", json.dumps(doc)))
    r = node.mig_setup("--layout-file", "/etc/mig.json")
    assert r.code == 0 and node.all_layouts() == [MIX] * 2, r


@pytest.mark.parametrize("text", ['{"layouts": {"0": "3g.71gb:1", "00000000:10:00.0": "3g.71gb:2"}}', '{"layouts": {"0": "3g.71gb:1", "0": "3g.71gb:2"}}', '{"layout": "3g.71gb:1", "layuot": 1}',
                                  '{"layout": {"3g.71gb": -1}}', '{"layout": {"3g.71gb": 1.5}}', '{"layout": [9, null]}', '{"layouts": {}}', '{"layouts": {"7": "3g.71gb:1"}}'])
def test_a_json_file_that_makes_no_sense_is_refused_and_nothing_is_touched(make_node, text):
    node = make_node("H200", "H200", prepare=lambda n: n.put("/etc/mig.json", text))
    before = node.state()
    r = node.mig_setup("--layout-file", "/etc/mig.json")
    assert r.code == 2 and r.err.strip(), r
    assert_untouched(node, r, before)


MIG_PARTED = """version: v1
mig-configs:
  all-3g.71gb:
    - devices: all
      mig-enabled: true
      mig-devices:
        "3g.71gb": 2
  mixed:
    - devices: [0]
      mig-enabled: true
      mig-devices:
        "7g.141gb": 1
    - devices: [1]
      mig-enabled: true
      mig-devices:
        3g.71gb: 1
        1g.18gb: 3
  off:
    - devices: all
      mig-enabled: false
  filtered:
    - device-filter: ["0x233510DE", "0x233010DE"]
      devices: all
      mig-enabled: true
      mig-devices:
        "2g.35gb": 3
    - device-filter: "0x20B710DE"
      devices: all
      mig-enabled: true
      mig-devices:
        "2g.12gb": 2
  empty:
    - devices: all
      mig-enabled: true
      mig-devices: {}
"""


def test_a_mig_parted_file_gives_every_gpu_its_layout(make_node):
    node = make_node("H200", "H200", prepare=lambda n: n.put("/etc/mig.yaml", MIG_PARTED))
    r = node.mig_setup("--layout-file", "/etc/mig.yaml", "--layout-name", "all-3g.71gb")
    assert r.code == 0 and node.all_layouts() == [{"3g.71gb": 2}] * 2, r
    r = node.mig_setup("--layout-file", "/etc/mig.yaml", "--layout-name", "mixed")
    assert r.code == 0 and node.all_layouts() == [{"7g.141gb": 1}, {"3g.71gb": 1, "1g.18gb": 3}], r
    r = node.mig_setup("--layout-file", "/etc/mig.yaml", "--layout-name", "off")
    assert r.code == 0 and node.modes() == [("Disabled", "Disabled")] * 2, r


def test_a_mig_parted_device_filter_picks_gpus_by_device_id(make_node):
    node = make_node("H200", "A30", prepare=lambda n: n.put("/etc/mig.yaml", MIG_PARTED))
    r = node.mig_setup("--layout-file", "/etc/mig.yaml", "--layout-name", "filtered")
    assert r.code == 0 and node.all_layouts() == [{"2g.35gb": 3}, {"2g.12gb": 2}], r


def test_mig_parteds_empty_device_list_means_on_without_instances(make_node):
    node = make_node("H200", prepare=lambda n: n.put("/etc/mig.yaml", MIG_PARTED))
    r = node.mig_setup("--layout-file", "/etc/mig.yaml", "--layout-name", "empty")
    assert r.code == 0 and node.modes() == [("Enabled", "Enabled")] and node.all_layouts() == [{}], r


@pytest.mark.parametrize("name,text,label", [
    ("unknown field", MIG_PARTED.replace("mig-enabled: false", "mig-enabled: false\n      mig-placements: 3"), "off"),
    ("unknown field at the top", MIG_PARTED + "more: 1\n", "off"),
    ("label not there", MIG_PARTED, "all-9g.99gb"),
    ("no label", MIG_PARTED, None),
    ("another version", MIG_PARTED.replace("version: v1", "version: v2"), "off"),
    ("no version", MIG_PARTED.replace("version: v1\n", ""), "off"),
    ("damaged", MIG_PARTED[:-200] + "\n   - : [}", "off"),
    ("empty", "", "off"),
    ("unknown profile", MIG_PARTED.replace("3g.71gb", "3g.99gb"), "all-3g.71gb"),
    ("does not fit", MIG_PARTED.replace('"3g.71gb": 2', '"3g.71gb": 3'), "all-3g.71gb"),
    ("a count that is no number", MIG_PARTED.replace('"3g.71gb": 2', '"3g.71gb": many'), "all-3g.71gb"),
    ("a label twice", MIG_PARTED + "  off:\n    - devices: all\n      mig-enabled: false\n", "off"),
    ("a field twice", MIG_PARTED.replace("mig-enabled: false", "mig-enabled: false\n      mig-enabled: true"), "off"),
    ("a second document", MIG_PARTED + "---\n" + MIG_PARTED, "off"),
    ("a GPU that is not there", MIG_PARTED.replace("devices: [1]", "devices: [7]"), "mixed"),
])
def test_a_bad_mig_parted_file_is_refused_and_nothing_is_touched(make_node, name, text, label):
    node = make_node("H200", "H200", prepare=lambda n: n.put("/etc/mig.yaml", text))
    before = node.state()
    r = node.mig_setup("--layout-file", "/etc/mig.yaml", *(["--layout-name", label] if label else []))
    assert r.code == 2, r
    assert_untouched(node, r, before)
    assert r.err.strip(), "refused without a word"
    if "twice" in name or "second" in name:
        assert re.search(r"\(line \d+\)", r.err), r


@pytest.mark.parametrize("text", ["\ufeff{\"layout\": \"7g.141gb:1\"}"])
def test_a_byte_order_mark_before_a_json_file_does_no_harm(make_node, text):
    node = make_node("H200", prepare=lambda n: n.put("/etc/mig.json", text))
    r = node.mig_setup("--layout-file", "/etc/mig.json")
    assert r.code == 0 and node.layout(0) == ({"7g.141gb": 1}, 0), r


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{\"gpus\": 3}", "\x00\x01\x02", "{}", "17"])
def test_an_empty_or_damaged_json_file_is_refused_and_nothing_is_touched(make_node, text):
    node = make_node("H200", prepare=lambda n: n.put("/etc/mig.json", text))
    before = node.state()
    r = node.mig_setup("--layout-file", "/etc/mig.json")
    assert r.code == 2 and "/etc/mig.json" in r.err, r
    assert_untouched(node, r, before)


@pytest.mark.parametrize("make", [None, "dir", "fifo", "endless"])
def test_a_layout_file_that_cannot_be_read_is_refused_in_time(make_node, make):
    node = make_node("H200")
    path = node.host("/var/lib/cloud/layout")
    if make == "dir":
        os.mkdir(path)
    elif make == "fifo":
        os.mkfifo(path)
    elif make == "endless":
        os.symlink("/dev/zero", path)
    before = node.state()
    r = node.mig_setup("--layout-file", "/var/lib/cloud/layout", timeout=20)
    assert r.code == 2 and "/var/lib/cloud/layout" in r.err, r
    assert_untouched(node, r, before)


@pytest.mark.parametrize("words", [
    ["--layout", "foo"], ["--layout", ""], ["--layout", "3g.99gb:1"], ["--layout", "3g.71gb:0"], ["--layout", "3g.71gb:-1"], ["--layout", "3g.71gb:x"], ["--layout", "999"],
    ["--layout", "9,14,,19"], ["--layout", "3g.71gb:99999999999999999999"], ["--layout", "1g.18gb+xx:1"], ["--layout", "7g.150gb:1"],
    ["--layout", "5=3g.71gb:1"], ["--layout", "0-5=3g.71gb:1"], ["--layout", "1-0=3g.71gb:1"], ["--layout", "model:V100=3g.71gb:1"], ["--layout", "00000000:99:00.0=3g.71gb:1"],
    ["--layout", "GPU-99999999-2222-3333-4444-555555550000=3g.71gb:1"], ["--layout", "x=3g.71gb:1"], ["--layout", "0="],
    ["--layout", "0=3g.71gb:1", "--layout", "0-1=1g.18gb:2"], ["--layout", "0=3g.71gb:1", "--layout", "00000000:10:00.0=3g.71gb:1"],
    [],
])
def test_a_layout_that_makes_no_sense_is_refused_and_nothing_is_touched(make_node, words):
    node = make_node("H200", "H200")
    before = node.state()
    r = node.mig_setup(*words)
    assert r.code == 2, r
    assert_untouched(node, r, before)
    assert r.out == "" and r.err.strip(), r


@pytest.mark.parametrize("board,layout", [
    ("H200", "3g.71gb:2,1g.18gb:1"), ("H200", "4g.71gb:2"), ("H200", "1g.18gb:8"), ("H200", "7g.141gb:1,1g.18gb:1"), ("H200", "4g.71gb:1,2g.35gb:2"), ("H200", "1g.35gb:4,1g.18gb:1"),
    ("H200", "1g.18gb+me:2"), ("H200", "3g.71gb:3"), ("RTXPRO6000", "2g.48gb:2,1g.24gb:1"), ("RTXPRO6000", "1g.24gb:5"), ("A30", "2g.12gb:2,1g.6gb:1"), ("H200", "9,9,9"),
])
def test_a_layout_that_cannot_fit_is_refused_before_anything_changes(make_node, board, layout):
    node = make_node(board)
    before = node.state()
    r = node.mig_setup("--layout", layout)
    assert r.code == 2, r
    assert_untouched(node, r, before)


def test_one_gpu_whose_layout_cannot_fit_keeps_all_from_being_touched(make_node):
    node = make_node("H200", "A30")
    before = node.state()
    r = node.mig_setup("--layout", "3g.71gb:2")
    assert r.code == 2, r
    assert_untouched(node, r, before)


# ------------------------------------------------------------------ words about the driver
@pytest.mark.parametrize("stages", [[dict(exit=9, calls=2)], [dict(exit=12, calls=2)], [dict(exit=6, calls=2)], [dict(exit=9, calls=1), dict(exit=12, calls=1), dict(exit=6, calls=1)]])
def test_a_driver_that_is_not_ready_yet_is_waited_for_and_loaded_once(make_node, stages):
    node = make_node("H200", not_ready=stages)
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0 and node.layout(0) == (MIX, 0), r
    assert node.modprobes() == ["nvidia"] or [m.split()[-1] for m in node.modprobes()] == ["nvidia"]


@pytest.mark.parametrize("exit, words", [(0, ""), (0, "No devices were found\n"), (6, "No devices were found\n")])
def test_a_driver_that_lists_no_gpu_is_waited_for_and_then_the_missing_ones_are_named(make_node, exit, words):
    node = make_node("H200")
    node.rule("--query-gpu", dict(exit=exit, stdout=words), times=2)
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0 and node.layout(0) == (MIX, 0), r
    never = make_node("H200")
    never.rule("--query-gpu", dict(exit=exit, stdout=words), times=999)
    before = never.state()["gpus"]
    r = never.mig_setup("--layout", MIX_WORDS, "--driver-timeout", "2s")
    assert r.code == 3 and never.functions[0][0].split(":", 1)[1].lower() in r.err.lower(), r
    assert r.changing() == [] and never.state()["gpus"] == before
    assert 1.5 < r.seconds < 10 and len(r.calls) > 2, r


@pytest.mark.parametrize("match", ["--query-gpu", "-lgip( |$)", "-lgi( |$)"])
@pytest.mark.parametrize("exit, words", [(255, "Unable to determine the device handle for GPU: Unknown Error\n"), (0, "hello\n")])
def test_a_question_that_fails_or_is_answered_with_nonsense_is_4_and_nothing_is_touched(make_node, match, exit, words):
    node = make_node("H200")
    node.enable()
    node.rule(match, dict(exit=exit, stdout=words), times=999)
    before = node.state()["gpus"]
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 4 and words.strip() in r.err, r
    assert r.changing() == [] and node.state()["gpus"] == before


def test_a_driver_that_only_needs_loading_is_loaded(make_node):
    node = make_node("H200", not_ready=[dict(exit=9, until_modprobe=True)])
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0 and node.layout(0) == (MIX, 0), r
    assert len(node.modprobes()) == 1


def test_a_driver_that_never_answers_ends_with_3_at_the_limit(make_node):
    node = make_node("H200", not_ready=[dict(exit=9, calls=10 ** 6)])
    before = node.state()["gpus"]
    r = node.mig_setup("--layout", MIX_WORDS, "--driver-timeout", "2s")
    assert r.code == 3 and r.seconds < 10, r
    assert len(node.modprobes()) == 1 and node.state()["gpus"] == before
    assert "driver" in r.err.lower()


def test_a_kernel_without_the_module_ends_with_3_without_waiting(make_node):
    node = make_node("H200", not_ready=[dict(exit=9, calls=10 ** 6)])
    node.put("/var/lib/fake-nvidia-smi/modprobe.err", "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.1.0-13-cloud-amd64\n")
    node.put("/var/lib/fake-nvidia-smi/modprobe.rc", "1")
    r = node.mig_setup("--layout", MIX_WORDS, "--driver-timeout", "60s", timeout=40)
    assert r.code == 3 and r.seconds < 20, r
    assert "nvidia" in r.err and len(node.modprobes()) == 1


def test_a_modprobe_that_hangs_is_held_to_the_driver_timeout_and_named(make_node):
    node = make_node("H200", not_ready=[dict(exit=9, until_modprobe=True)])
    node.put("/var/lib/fake-nvidia-smi/modprobe.hang", "")
    r = node.mig_setup("--layout", MIX_WORDS, "--driver-timeout", "2s", timeout=20)
    assert r.code == 3 and r.seconds < 10, r
    [line] = [l for l in r.err.splitlines() if "waited for the driver" in l and "End" in l]
    assert "modprobe nvidia" in line and len(node.modprobes()) == 1, r


def test_no_nvidia_smi_at_all_is_3_and_says_where_it_was_looked_for(make_node):
    node = make_node("H200", prepare=lambda n: os.unlink(os.path.join(n.folder, "bin", "nvidia-smi")))
    r = node.mig_setup("--layout", MIX_WORDS, "--driver-timeout", "1s")
    assert r.code == 3 and "/usr/bin/nvidia-smi" in r.err, r


def test_a_gpu_that_the_bus_has_but_the_driver_has_not_is_waited_for_and_then_named(make_node):
    node = make_node(*["H200"] * 3)
    node.edit(lambda s: s["gpus"][1].update(lost=True))
    before = node.state()
    r = node.mig_setup("--layout", MIX_WORDS, "--driver-timeout", "2s")
    assert r.code == 3 and "1b:00.0" in r.err.lower(), r
    assert_untouched(node, r, before)


def test_a_gpu_that_appears_late_is_waited_for(make_node):
    node = make_node(*["H200"] * 3)
    node.edit(lambda s: s["gpus"][2].update(lost_calls=2))
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0 and node.all_layouts() == [MIX] * 3, r


def test_expect_gpus_is_believed_instead_of_the_bus(make_node):
    node = make_node(*["H200"] * 2)
    node.edit(lambda s: s["gpus"][1].update(lost=True))
    r = node.mig_setup("--layout", MIX_WORDS, "--expect-gpus", "1", "--driver-timeout", "2s")
    assert r.code == 0 and node.layout(0) == (MIX, 0), r
    r = node.mig_setup("--layout", MIX_WORDS, "--expect-gpus", "2", "--driver-timeout", "2s")
    assert r.code == 3, r


@pytest.mark.parametrize("match", ["--query-gpu", "-lgip"])
def test_a_call_that_hangs_ends_in_time_with_6_and_is_killed(make_node, match):
    node = make_node("H200")
    node.rule(match, dict(hang="before", term="ignore"), times=99)
    before = node.state()["gpus"]
    r = node.mig_setup("--layout", MIX_WORDS, "--driver-timeout", "3s", "--deadline", "4s", timeout=30)
    assert r.code == 6 and r.seconds < 15, r
    assert "nvidia-smi" in r.err and node.state()["gpus"] == before
    assert node.sh("ps -e -o comm=").stdout.split().count("nvidia-smi") == 0


def test_a_call_in_an_uninterruptible_wait_does_not_hold_us_and_is_told(make_node):
    def freezer(n):
        with open(os.path.join(n.folder, "boot.d", "freezer"), "w") as f:
            f.write("mkdir -p /run/freezer\nmount -t cgroup -o freezer freezer /run/freezer\nmkdir -p /run/freezer/%s\necho FROZEN >/run/freezer/%s/freezer.state\n" % (os.path.basename(n.folder), os.path.basename(n.folder)))
    node = make_node("H200", prepare=freezer)
    box = "/run/freezer/" + os.path.basename(node.folder)
    node.rule("--query-gpu", dict(hang="before", freezer=box), times=99)
    try:
        r = node.mig_setup("--layout", MIX_WORDS, "--driver-timeout", "3s", "--deadline", "4s", timeout=30)
        assert node.sh("cat %s/tasks" % box).stdout.strip(), "the make-believe hang was not one"
        assert r.code == 6 and r.seconds < 15, r
        assert "nvidia-smi" in r.err
    finally:
        node.sh("echo THAWED >%s/freezer.state" % box)
        node.kill_all()
        for _ in range(100):
            if not node.sh("cat %s/tasks" % box).stdout.strip():
                break
            time.sleep(0.05)
        node.sh("rmdir " + box)


@pytest.mark.parametrize("match,when", [("-mig", "before"), ("-mig", "after"), ("-cgi", "before"), ("-cgi", "after")])
def test_a_change_that_hangs_ends_the_run_with_6_and_no_further_change(make_node, match, when):
    node = make_node("H200", "H200")
    node.rule(match, dict(hang=when, term="ignore"))
    r = node.mig_setup("--layout", MIX_WORDS, "--deadline", "5s", timeout=30)
    assert r.code == 6 and r.seconds < 20, r
    at = next(i for i, c in enumerate(r.calls) if match in c["argv"])
    assert not any(mignode.is_change(c["argv"]) for c in r.calls[at + 1:]), r
    assert len(r.calls) - at - 1 <= 1, r
    again = node.mig_setup("--layout", MIX_WORDS)
    assert again.code == 0 and node.all_layouts() == [MIX] * 2, again


def test_a_gpu_without_mig_is_3_and_with_if_supported_0(make_node):
    node = make_node("L4", "L4")
    before = node.state()
    r = node.mig_setup("--layout", "1g.18gb:7")
    assert r.code == 3 and "L4" in r.err, r
    assert_untouched(node, r, before)
    r = node.mig_setup("--layout", "1g.18gb:7", "--if-supported")
    assert r.code == 0, r
    assert_untouched(node, r, before)


def test_not_root_is_3_and_nothing_is_touched(make_node):
    node = make_node("H200")
    before = node.state()
    r = node.mig_setup("--layout", MIX_WORDS, wrap='exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"')
    assert r.code == 3 and "root" in r.err, r
    assert_untouched(node, r, before)


# ------------------------------------------------------------------ mode
@pytest.mark.parametrize("mode", ["ignored", "silent-pending"])
def test_all_done_is_not_believed(make_node, mode):
    node = make_node("H200")
    node.rule(r"(^| )-mig ", dict(mode=mode), times=99)
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == (7 if mode == "silent-pending" else 5), r
    assert not any("-cgi" in c["argv"] for c in r.calls), r
    assert "10:00.0" in r.err.lower()


def test_a_mode_call_without_any_word_that_did_nothing_is_5(make_node):
    node = make_node("H200")
    node.rule(r"(^| )-mig ", dict(silent=True), times=99)
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 5 and not any("-cgi" in c["argv"] for c in r.calls), r


def test_a_mode_call_that_only_says_all_done_but_worked_is_fine(make_node):
    node = make_node("H200")
    node.rule(r"(^| )-mig ", dict(mode="silent-take"))
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0 and node.layout(0) == (MIX, 0), r


def test_a_gpu_that_refuses_the_mode_is_an_error_although_the_exit_is_0(make_node):
    node = make_node("H200", "H200")
    node.edit(lambda s: s["gpus"][1].update(mode="unsupported"))
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code in (3, 5) and "1b:00.0" in r.err.lower(), r


def test_only_the_gpus_that_need_it_are_asked_to_change_their_mode_in_one_call(make_node):
    node = make_node(*["H200"] * 4)
    node.enable(0, 2)
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0, r
    (call,) = [c["argv"] for c in r.calls if "-mig" in c["argv"]]
    ids = call[call.index("-i") + 1].split(",")
    found = {g["index"] for g in node.state()["gpus"] for i in ids if i in (str(g["index"]), g["uuid"]) or i.lower().endswith(g["bus"].lower()[-10:])}
    assert found == {1, 3}, call


def test_a_p4d_stays_pending_without_leave_to_reboot_and_is_told_which_option_to_use(make_node):
    node = make_node(*["A100-40"] * 8)
    r = node.mig_setup("--layout", "9,14,19,19")
    assert r.code == 7, r
    assert "--reboot=if-pending" in everything(r)
    assert node.reboots() == [] and not any("-cgi" in c["argv"] for c in r.calls)
    assert node.modes() == [("Disabled", "Enabled")] * 8
    assert len([c for c in r.calls if "-mig" in c["argv"]]) == 1


def test_a_p4d_reboots_once_comes_up_right_and_leaves_no_marker(make_node):
    node = make_node(*["A100-40"] * 2)
    r = node.mig_setup("--layout", "9,14,19,19", "--reboot=if-pending")
    assert r.code in (7, 143), r
    assert node.reboots() == ["--no-block reboot"]
    kept = [f for f in os.listdir(node.host("/var/lib/gpu-prolog")) if "status" not in f and f != os.path.basename(STATUS_LIB)]
    assert kept, "no marker before the reboot"
    node.boot()
    r = node.mig_setup("--layout", "9,14,19,19", "--reboot=if-pending")
    assert r.code == 0 and node.all_layouts() == [{"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 2}] * 2, r
    assert len(node.reboots()) == 1
    assert [f for f in os.listdir(node.host("/var/lib/gpu-prolog")) if f in kept] == []


def stuck(state):
    for g in state["gpus"]:
        g["stuck"] = True


def test_a_gpu_that_stays_pending_for_ever_is_rebooted_for_once_in_5_boots(make_node):
    node = make_node("A100-40")
    node.edit(stuck)
    codes = []
    for _ in range(5):
        codes.append(node.mig_setup("--layout", "9,14,19,19", "--reboot=if-pending").code)
        node.boot()
    assert len(node.reboots()) == 1, codes
    assert codes[1:] == [7] * 4, codes


def test_a_gpu_that_forgets_the_mode_at_every_boot_is_rebooted_for_once_in_5_boots(make_node):
    node = make_node("H200")
    node.edit(lambda s: s["gpus"][0].update(mode="pending:Not Supported"))
    codes = []
    for _ in range(5):
        codes.append(node.mig_setup("--layout", MIX_WORDS, "--reboot=if-pending").code)
        node.boot()
    assert len(node.reboots()) == 1, codes
    assert codes[1:] == [7] * 4, codes


def test_a_stop_and_start_of_the_same_instance_does_not_bring_a_second_reboot_while_the_first_did_not_help(make_node):
    node = make_node("A100-40")
    node.edit(stuck)
    assert node.mig_setup("--layout", "9,14,19,19", "--reboot=if-pending").code in (7, 143)

    def other_hardware(s):
        for g in s["gpus"]:
            g.update(current="Disabled", pending="Disabled")
    for _ in range(4):
        node.boot()
        node.edit(other_hardware)
        assert node.mig_setup("--layout", "9,14,19,19", "--reboot=if-pending").code == 7
    assert len(node.reboots()) == 1


def test_another_layout_is_no_way_around_the_guard_for_the_same_stuck_gpu(make_node):
    node = make_node("A100-40")
    node.edit(stuck)
    for layout in ("9,14,19,19", "9,9", "0", "14,14,14", "5,9"):
        node.mig_setup("--layout", layout, "--reboot=if-pending")
        node.boot()
    assert len(node.reboots()) <= 2     # the marker holds the layout: a new one may be tried, a loop may not come of it


def test_an_image_that_carries_another_instances_marker_may_reboot_once(make_node):
    node = make_node("A100-40")
    node.edit(stuck)
    assert node.mig_setup("--layout", "9,14,19,19", "--reboot=if-pending").code in (7, 143)
    node.instance_id = "i-0fedcba9876543210"
    node.put("/var/lib/cloud/data/instance-id", node.instance_id + "\n")
    env = dict(node.BOOT_ENV, INSTANCE_ID=node.instance_id)
    for _ in range(3):
        node.boot()
        node.mig_setup("--layout", "9,14,19,19", "--reboot=if-pending", env=env)
    assert len(node.reboots()) == 2


def test_without_a_place_for_the_marker_there_is_no_reboot(make_node):
    node = make_node("A100-40", prepare=lambda n: n.read_only("/var/lib"))
    for _ in range(2):
        r = node.mig_setup("--layout", "9,14,19,19", "--reboot=if-pending")
        assert r.code == 7 and node.reboots() == [], r
        assert "/var/lib/gpu-prolog" in r.err
        node.edit(stuck)
        node.boot()


NOT_KEPT = {
    "memory": ("mkdir -p $L; mount -t tmpfs -o mode=755 x $L", "survive a reboot"),
    "ramfs": ("mkdir -p $L; mount -t ramfs -o mode=755 x $L", "survive a reboot"),
    "an overlay": ("mkdir -p $L /run/u /run/w; mount -t overlay -o lowerdir=/var/tmp,upperdir=/run/u,workdir=/run/w x $L; chmod 755 $L", "survive a reboot"),
    "all of /var/lib in memory": ("mount -t tmpfs -o mode=755 x /run/lock; mkdir -p /run/lock/gpu-prolog; cp -a /var/lib/cloud /run/lock/; mkdir /run/lock/fake-nvidia-smi; mount --rbind /run/lock /var/lib; mount --bind $N/fake /var/lib/fake-nvidia-smi", "survive a reboot"),
    "a link to /run": ("mkdir -p -m 755 /run/kept; rm -rf $L; ln -s /run/kept $L", "symbolic link"),
    "another user's folder": ("mkdir -p $L; rm -f $L/mig-reboot.json; chown 1000 $L", "does not belong to root"),
}


@pytest.mark.parametrize("case", NOT_KEPT)
def test_a_marker_that_would_not_be_there_after_the_reboot_makes_no_loop_of_a_stuck_gpu(make_node, case):
    """What another may remove is no marker. What is in memory may do for the first reboot: after it, the mode that is pending
    still tells of that one."""
    script, word = NOT_KEPT[case]

    def prepare(n):
        with open(n.folder + "/boot.d/kept", "w") as f:
            f.write("L=/var/lib/gpu-prolog; %s\n" % script)
    node = make_node("A100-40", prepare=prepare)
    node.edit(stuck)
    first = node.mig_setup("--layout", "9,14,19,19", "--reboot=if-pending")
    in_memory = word == "survive a reboot"
    assert (first.code in (7, 143)) if in_memory else first.code == 7, first
    assert len(node.reboots()) == (1 if in_memory else 0) and word in first.err, first
    for _ in range(4):
        node.boot()
        r = node.mig_setup("--layout", "9,14,19,19", "--reboot=if-pending")
        assert r.code == 7 and word in r.err and "/var/lib/gpu-prolog" in r.err, r
    assert len(node.reboots()) == (1 if in_memory else 0)


def test_without_an_instance_id_there_is_no_reboot(make_node):
    def nameless(n):
        os.unlink(n.host("/var/lib/cloud/data/instance-id"))
        n.instance_id = ""
    node = make_node("A100-40", prepare=nameless)
    r = node.mig_setup("--layout", "9,14,19,19", "--reboot=if-pending", env=dict(PATH="/usr/bin"))
    assert r.code == 7 and node.reboots() == [], r


@pytest.mark.parametrize("source", ["environment", "cloud-init", "DMI"])
def test_the_instance_id_is_found_in_three_places(make_node, source):
    def prepare(n):
        if source != "cloud-init":
            os.unlink(n.host("/var/lib/cloud/data/instance-id"))
        if source != "DMI":
            n.instance_id = ""
    node = make_node("A100-40", prepare=prepare)
    env = dict(PATH="/usr/bin", **({"INSTANCE_ID": "i-0123456789abcdef0"} if source == "environment" else {}))
    node.mig_setup("--layout", "9,14,19,19", "--reboot=if-pending", env=env)
    assert node.reboots() == ["--no-block reboot"]


@pytest.mark.parametrize("age,reboots", [("of this boot", 1), ("of the image", 0)])
def test_an_instance_id_older_than_this_boot_gives_way_to_the_boards(make_node, age, reboots):
    """The marker is of the board's id: it counts only where the file, which says another, is what an image was built with."""
    def prepare(n):
        n.put("/var/lib/cloud/data/instance-id", "i-0fedcba9876543210\n")
        if age == "of the image":
            os.utime(n.host("/var/lib/cloud/data/instance-id"), (1e9, 1e9))
        n.put("/var/lib/gpu-prolog/mig-reboot.json", json.dumps(dict(schema=1, instance_id=n.instance_id, boot_id="earlier", layout="9,14,19,19")))
        os.chmod(n.host("/var/lib/gpu-prolog/mig-reboot.json"), 0o600)
    node = make_node("A100-40", prepare=prepare)
    node.mig_setup("--layout", "9,14,19,19", "--reboot=if-pending", env=dict(PATH="/usr/bin"))
    assert len(node.reboots()) == reboots


def test_a_damaged_marker_never_makes_a_loop(make_node):
    node = make_node("A100-40")
    node.edit(stuck)
    node.mig_setup("--layout", "9,14,19,19", "--reboot=if-pending")
    folder = node.host("/var/lib/gpu-prolog")
    for damage in (b"", b"\x00" * 100, b"{", b"{}"):
        for name in os.listdir(folder):
            if name != os.path.basename(STATUS_LIB):
                with open(os.path.join(folder, name), "wb") as f:
                    f.write(damage)
        node.boot()
        node.mig_setup("--layout", "9,14,19,19", "--reboot=if-pending")
    assert len(node.reboots()) <= 2, node.reboots()


@pytest.mark.parametrize("evidence", ["/run/cloud-init/result.json"])
def test_after_the_boot_has_finished_only_force_reboots(make_node, evidence):
    node = make_node("A100-40")
    node.sh("mkdir -p %s; echo '{\"v1\": {\"errors\": []}}' >%s" % (os.path.dirname(evidence), evidence))
    r = node.mig_setup("--layout", "9,14,19,19", "--reboot=if-pending")
    assert r.code == 7 and node.reboots() == [], r
    assert "--reboot=force" in everything(r), r
    r = node.mig_setup("--layout", "9,14,19,19", "--reboot=force")
    assert node.reboots() == ["--no-block reboot"], r


def test_where_slurmd_runs_there_is_no_reboot_even_with_force_to_change(make_node):
    node = make_node("A100-40")
    node.start_slurmd()
    r = node.mig_setup("--layout", "9,14,19,19", "--reboot=if-pending", "--force")
    assert r.code == 7 and node.reboots() == [], r


def test_where_slurmd_runs_force_to_reboot_alone_touches_nothing_and_with_force_to_change_it_reboots(make_node):
    node = make_node("A100-40")
    node.start_slurmd()
    r = node.mig_setup("--layout", "9,14,19,19", "--reboot=force")
    assert r.code == 5 and node.reboots() == [] and r.changing() == [] and "--force" in r.err, r
    r = node.mig_setup("--layout", "9,14,19,19", "--reboot=force", "--force")
    assert node.reboots() == ["--no-block reboot"], r


def test_a_pending_gpu_names_what_holds_it(make_node):
    node = make_node("A100-40")
    pid = node.hold_gpu(0, "nv-hostengine", compute=False)
    node.sh("mkdir -p /sys/module/nvidia/holders/nvidia_drm")
    r = node.mig_setup("--layout", "9,14,19,19", "--force")
    assert r.code == 7, r
    assert str(pid) in r.err and "nv-hostengine" in r.err, r
    assert "nvidia_drm" in r.err, r
    assert "persistence" in r.err.lower(), r


def test_a_failed_call_to_systemctl_is_not_taken_for_a_reboot(make_node):
    node = make_node("A100-40")
    node.put("/var/lib/fake-nvidia-smi/systemctl.fail", "")
    p = node.enter([mignode.BINARY, "mig-setup", "--layout", "9,14,19,19", "--reboot=if-pending"], env=node.BOOT_ENV, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _, err = p.communicate(timeout=10)
        assert p.returncode in (5, 7), err
    except subprocess.TimeoutExpired:
        node.kill_all()      # it waits for the last resort, reboot(2): also right
        p.communicate()
    assert node.reboots() == ["--no-block reboot"]


def test_switching_off_an_a100_is_a_pending_change_too(make_node):
    node = make_node("A100-40")
    node.enable()
    r = node.mig_setup("--layout", "none")
    assert r.code == 7 and node.modes() == [("Enabled", "Disabled")], r


def test_the_mode_that_a_hopper_loses_at_a_reboot_is_set_again(make_node):
    node = make_node("H200", "H200")
    for _ in range(3):
        r = node.mig_setup("--layout", MIX_WORDS, "--reboot=if-pending")
        assert r.code == 0 and node.all_layouts() == [MIX] * 2, r
        node.boot()
    assert node.reboots() == []


# ------------------------------------------------------------------ instances
def prepare_instances(node, *commands):
    node.enable()
    for words in commands:
        out = node.sh("nvidia-smi " + words)
        assert out.returncode == 0, out.stdout


def test_gpu_instances_without_compute_instances_are_completed_and_not_rebuilt(make_node):
    node = make_node("H200")
    prepare_instances(node, "mig -cgi 9:4,14:2,19:0,19:1")
    before = [g["id"] for g in node.gpu(0)["gis"]]
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0 and node.layout(0) == (MIX, 0), r
    assert [g["id"] for g in node.gpu(0)["gis"]] == before
    assert not any(w in c["argv"] for c in r.calls for w in ("-dgi", "-dci", "-cgi")), r


def test_one_missing_compute_instance_is_added(make_node):
    node = make_node("H200")
    prepare_instances(node, "mig -cgi 9:4,14:2,19:0,19:1 -C", "mig -i 0 -gi 7 -dci")
    kept = {ci["uuid"] for gi in node.gpu(0)["gis"] for ci in gi["cis"]}
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0 and node.layout(0) == (MIX, 0), r
    assert kept < {ci["uuid"] for gi in node.gpu(0)["gis"] for ci in gi["cis"]}


def test_a_compute_instance_that_is_smaller_than_its_gpu_instance_is_not_taken_for_right(make_node):
    node = make_node("H200")
    prepare_instances(node, "mig -cgi 9:4,14:2,19:0,19:1", "mig -i 0 -gi 2 -cci 1c.3g.71gb", "mig -i 0 -gi 4,7,8 -cci")
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0, r
    gi = next(g for g in node.gpu(0)["gis"] if g["profile"] == 9)
    assert [ci["slices"] for ci in gi["cis"]] == [3]


def test_several_compute_instances_in_a_gpu_instance_are_not_taken_for_right(make_node):
    node = make_node("H200")
    prepare_instances(node, "mig -cgi 9:0,9:4", "mig -i 0 -gi 1 -cci 1c.3g.71gb,1c.3g.71gb,1c.3g.71gb", "mig -i 0 -gi 2 -cci")
    r = node.mig_setup("--layout", "3g.71gb:2")
    assert r.code == 0 and node.layout(0) == ({"3g.71gb": 2}, 0), r


def test_a_right_layout_at_other_places_is_left_as_it_is(make_node):
    node = make_node("H200")
    prepare_instances(node, "mig -cgi 9:0,14:4,19:6 -C")
    before = node.state()
    r = node.mig_setup("--layout", "3g.71gb:1,2g.35gb:1,1g.18gb:1")
    assert r.code == 0, r
    assert_untouched(node, r, before)


def test_only_the_wrong_gpu_is_rebuilt(make_node):
    node = make_node("H200", "H200", "H200")
    assert node.mig_setup("--layout", MIX_WORDS).code == 0
    node.sh("nvidia-smi mig -i 1 -dci; nvidia-smi mig -i 1 -dgi; nvidia-smi mig -i 1 -cgi 0 -C")
    others = [node.gpu(0), node.gpu(2)]
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0 and node.all_layouts() == [MIX] * 3, r
    assert [node.gpu(0), node.gpu(2)] == others
    order = [next(w for w in ("-dci", "-dgi", "-cgi") if w in c["argv"]) for c in r.changing()]
    assert order == ["-dci", "-dgi", "-cgi"], r


def test_too_many_instances_are_as_wrong_as_too_few(make_node):
    node = make_node("H200")
    prepare_instances(node, "mig -cgi 9:4,14:2,19:0,19:1 -C")
    r = node.mig_setup("--layout", "3g.71gb:1,2g.35gb:1,1g.18gb:1")
    assert r.code == 0 and node.layout(0) == ({"3g.71gb": 1, "2g.35gb": 1, "1g.18gb": 1}, 0), r


GPU_1 = "00000000:1B:00.0"
ON_GPU_1 = r"(?=.*-i (1|\S*1[bB]:00\.0|GPU-11111112\S*)( |$))"


def test_a_gpu_that_fails_half_way_is_rolled_back_to_empty_and_named_and_the_others_are_done(make_node):
    node = make_node("H200", "H200", "H200")
    node.rule("-cgi", dict(fail_item=2, reason="Insufficient Resources", gpu=GPU_1), times=99)
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 5 and "1b:00.0" in r.err.lower(), r
    assert node.all_layouts() == [MIX, {}, MIX] and node.layout(1)[1] == 0, r
    assert node.modes() == [("Enabled", "Enabled")] * 3
    assert "Insufficient Resources" in r.err


@pytest.mark.parametrize("trouble", [dict(fail_item=2, reason="In use by another client", gpu=GPU_1), dict(fail_item=0, reason="Insufficient Resources", gpu=GPU_1), dict(fail_item=7, reason="Unknown Error"),
                                     dict(no_ci=6), dict(silent=True), dict(exit=6, stdout="No GPU instances found: Not Found\n")])
def test_after_a_common_creation_only_gpus_that_did_not_come_out_right_are_made_again_by_themselves(make_node, trouble):
    node = make_node("H200", "H200", "H200")
    node.rule("-cgi", trouble)
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0 and [node.layout(i) for i in range(3)] == [(MIX, 0)] * 3, r
    creations = [c["argv"] for c in r.calls if "-cgi" in c["argv"]]
    assert len(creations[0][2].split(",")) == 3 and all("," not in c[2] for c in creations[1:]), r
    again = {c[2] for c in creations[1:]}
    assert GPU_1 in again and ("00000000:10:00.0" in again) == ("fail_item" not in trouble and "no_ci" not in trouble), r
    destroyed = {c["argv"][2] for c in r.calls if "-dgi" in c["argv"]}
    assert destroyed <= again, r
    assert len(creations) == 1 + len(again), r
    assert node.mig_setup("--layout", MIX_WORDS).changing() == []


def test_gpus_with_other_layouts_or_old_instances_get_calls_of_their_own(make_node):
    node = make_node(*["H200"] * 5)
    prepare_instances(node, "mig -i 4 -cgi 0 -C")
    r = node.mig_setup("--layout", "0-2=" + MIX_WORDS, "--layout", "3=1g.18gb:7", "--layout", "4=" + MIX_WORDS)
    assert r.code == 0 and node.all_layouts() == [MIX] * 3 + [{"1g.18gb": 7}, MIX], r
    assert [len(c["argv"][2].split(",")) for c in r.calls if "-cgi" in c["argv"]] == [3, 1, 1], r


@pytest.mark.parametrize("match,reason", [(".*-cci", "In use by another client"), (".*-cgi", "In use by another client"), (".*-cgi", "Unknown Error")])
def test_other_failures_on_one_gpu_are_rolled_back_too(make_node, match, reason):
    node = make_node("H200", "H200")
    if "cci" in match:
        prepare_instances(node, "mig -cgi 9:4,14:2,19:0,19:1")
    node.rule(match, dict(fail_item=1, reason=reason, gpu=GPU_1), times=99)
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 5 and reason in r.err, r
    assert node.layout(0) == (MIX, 0) and node.layout(1) == ({}, 0), r


def test_a_creation_that_says_success_and_did_nothing_is_found_by_reading_back(make_node):
    node = make_node("H200")
    node.rule("-cgi", dict(silent=True), times=99)
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 5 and node.layout(0) == ({}, 0), r


def test_a_creation_that_leaves_out_compute_instances_is_found_by_reading_back(make_node):
    node = make_node("H200")
    node.rule("-cgi", dict(no_ci=2), times=99)
    r = node.mig_setup("--layout", MIX_WORDS)
    full, bare = node.layout(0)
    assert (r.code, full, bare) in [(0, MIX, 0), (5, {}, 0)], r


def test_instances_that_cannot_be_destroyed_are_named_and_nothing_is_half_destroyed(make_node):
    node = make_node("H200", "H200")
    prepare_instances(node, "mig -cgi 0 -C")
    node.rule(ON_GPU_1 + ".*-dci", dict(fail_item=0, reason="In use by another client"), times=99)
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 5 and "1b:00.0" in r.err.lower() and "In use by another client" in r.err, r
    assert node.layout(0) == (MIX, 0) and node.layout(1) == ({"7g.141gb": 1}, 0), r


DENIED_LGI = "Failed to display GPU instances: Insufficient Permissions\nNo GPU instances found: Insufficient Permissions\n"
DENIED_LCI = "Failed to display compute instances: Insufficient Permissions\n"


@pytest.mark.parametrize("match,text", [("-lgi( |$)", DENIED_LGI), ("-lci( |$)", DENIED_LCI)])
@pytest.mark.parametrize("rc", [4, 6, 0])
def test_insufficient_permissions_is_never_read_as_empty(make_node, match, text, rc):
    node = make_node("H200")
    prepare_instances(node, "mig -cgi 9:4,14:2,19:0,19:1 -C")
    node.rule(match, dict(exit=rc, stdout=text), times=99)
    before = node.state()["gpus"]
    r = node.mig_setup("--layout", "7g.141gb:1")
    assert r.code == 3 and "Insufficient Permissions" in r.err, r
    assert r.changing() == [] and node.state()["gpus"] == before


@pytest.mark.parametrize("text", ["", "Unknown Error\n", "+----+\n| GPU instances:\n", "Failed to display GPU instances: Unknown Error\n"])
@pytest.mark.parametrize("rc", [0, 255])
def test_a_listing_that_cannot_be_understood_is_never_read_as_empty(make_node, text, rc):
    node = make_node("H200")
    prepare_instances(node, "mig -cgi 9:4,14:2,19:0,19:1 -C")
    node.rule("-lgi( |$)", dict(exit=rc, stdout=text), times=99)
    before = node.state()["gpus"]
    r = node.mig_setup("--layout", "7g.141gb:1")
    assert r.code not in (0, 2), r
    assert r.changing() == [] and node.state()["gpus"] == before


@pytest.mark.parametrize("words", [dict(lgi_width=54), dict(lgi_width=57), dict(lgip_wide=False), dict(lgip_free_zero_when_off=True), dict(no_mig_enabled_exit=6)])
def test_the_forms_of_other_drivers_are_understood(make_node, words):
    node = make_node("H200", "H200", **words)
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0 and node.all_layouts() == [MIX] * 2, r
    r = node.mig_setup("--layout", "3g.71gb:2")
    assert r.code == 0 and node.all_layouts() == [{"3g.71gb": 2}] * 2, r
    assert node.mig_setup("--layout", "3g.71gb:2").changing() == []


def test_warnings_about_persistence_mode_between_the_lines_do_no_harm(make_node):
    node = make_node("H200", "H200")
    node.edit(lambda s: [g.update(persistence="Disabled") for g in s["gpus"]])
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0 and node.all_layouts() == [MIX] * 2, r


# ------------------------------------------------------------------ in use
def test_while_slurmd_runs_a_needed_change_is_refused_and_slurmd_named(make_node):
    node = make_node("H200")
    pid = node.start_slurmd()
    before = node.state()
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 5 and "slurmd" in r.err and str(pid) in r.err, r
    assert_untouched(node, r, before)
    assert "--force" in r.err


def test_while_slurmd_runs_nothing_needs_to_be_refused_where_all_is_right(make_node):
    node = make_node("H200")
    assert node.mig_setup("--layout", MIX_WORDS).code == 0
    node.start_slurmd()
    before = node.state()
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0, r
    assert_untouched(node, r, before)


def test_force_changes_while_slurmd_runs(make_node):
    node = make_node("H200")
    node.start_slurmd()
    r = node.mig_setup("--layout", MIX_WORDS, "--force")
    assert r.code == 0 and node.layout(0) == (MIX, 0), r


def test_a_process_called_slurmd_in_its_arguments_only_is_not_slurmd(make_node):
    node = make_node("H200")
    p = node.enter(["/bin/sh", "-c", "sleep 1000; : slurmd", "slurmd"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    node.children.append(p)
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0, r


def test_while_a_process_uses_a_gpu_a_needed_change_is_refused_and_the_process_named(make_node):
    node = make_node("H200", "H200")
    pid = node.hold_gpu(1, "trainer")
    before = node.state()
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 5 and "trainer" in r.err and str(pid) in r.err, r
    assert_untouched(node, r, before)


def test_a_process_that_only_holds_a_caps_file_counts_as_a_user_of_the_gpu(make_node):
    node = make_node("H200")
    assert node.mig_setup("--layout", MIX_WORDS).code == 0
    node.sh("mknod /dev/nvidia-caps/nvidia-cap999 c 1 3; chmod 666 /dev/nvidia-caps/nvidia-cap999")
    pid = node.hold_gpu(0, "dcgm-holder", device="/dev/nvidia-caps/nvidia-cap999")
    before = node.state()
    r = node.mig_setup("--layout", "7g.141gb:1")
    assert r.code == 5 and "dcgm-holder" in r.err and str(pid) in r.err, r
    assert_untouched(node, r, before)


# ------------------------------------------------------------------ killed, moved, two at once
def kill_points():
    """Every call of a run that sets up two GPUs, before and after it took effect, and every instance in a creation."""
    return [(n, when) for n in range(10) for when in ("before", "after")]


@pytest.mark.parametrize("n,when", kill_points())
def test_killed_at_any_call_the_next_run_repairs(make_node, n, when):
    node = make_node("H200", "H200")
    node.rule(".*", dict(kill_parent=when), skip=n)
    first = node.mig_setup("--layout", MIX_WORDS)
    if node.state()["rules"][0]["times"] == 1:
        assert n >= len(first.calls) and first.code == 0, "the rule never fired: %r" % first
        return
    assert first.code == 137 or first.code == -9, first
    gate = node.run("validate", "mig", "--gate")
    finished = node.all_layouts() == [MIX] * 2
    assert gate.code == 1 or (finished and gate.code == 0), gate
    again = node.mig_setup("--layout", MIX_WORDS)
    assert again.code == 0 and [node.layout(i) for i in (0, 1)] == [(MIX, 0)] * 2, again
    assert gres(again.out) == {"3g.71gb": 2, "2g.35gb": 2, "1g.18gb": 4}
    assert node.run("validate", "mig", "--gate").code == 0


@pytest.mark.parametrize("point", ["item:0", "item:1", "item:2", "item:3", "before-ci:1", "before-ci:2", "before-ci:4"])
def test_killed_between_two_instances_or_before_a_compute_instance_the_next_run_repairs(make_node, point):
    node = make_node("H200")
    node.rule("-cgi", dict(kill_parent=point))
    first = node.mig_setup("--layout", MIX_WORDS)
    assert first.code in (137, -9), first
    again = node.mig_setup("--layout", MIX_WORDS)
    assert again.code == 0 and node.layout(0) == (MIX, 0), again


@pytest.mark.parametrize("point", ["item:3", "item:4", "item:6", "before-ci:5"])
def test_killed_in_the_middle_of_a_creation_on_several_gpus_the_next_run_repairs(make_node, point):
    node = make_node("H200", "H200", "H200")
    node.rule("-cgi", dict(kill_parent=point))
    first = node.mig_setup("--layout", MIX_WORDS)
    assert first.code in (137, -9), first
    again = node.mig_setup("--layout", MIX_WORDS)
    assert again.code == 0 and [node.layout(i) for i in range(3)] == [(MIX, 0)] * 3, again


@pytest.mark.parametrize("n", range(4))
def test_killed_while_rebuilding_the_next_run_repairs(make_node, n):
    node = make_node("H200")
    prepare_instances(node, "mig -cgi 9:0,9:4 -C")
    node.rule("-dci|-dgi|-cgi", dict(kill_parent="item:1" if n % 2 else "after"), skip=n // 2)
    first = node.mig_setup("--layout", MIX_WORDS)
    assert first.code in (137, -9, 0), first
    again = node.mig_setup("--layout", MIX_WORDS)
    assert again.code == 0 and node.layout(0) == (MIX, 0), again


def test_term_ends_it_with_143_and_the_next_run_repairs(make_node):
    node = make_node("H200", "H200", time_scale=0.1)
    node.behave(costs=dict(first=0, call=0, mode=10, create=5, listing=0, destroy=0))
    box = {}
    p = node.enter([mignode.BINARY, "mig-setup", "--layout", MIX_WORDS], env=node.BOOT_ENV, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    while not any("-mig" in c["argv"] for c in fake.calls(node.state_file)) and time.monotonic() < deadline:
        time.sleep(0.01)
    box["t"] = time.monotonic()
    os.kill(node.inner(p), signal.SIGTERM)
    _, err = p.communicate(timeout=20)
    assert p.returncode == 143, err
    node.behave(time_scale=0)
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0 and node.all_layouts() == [MIX] * 2, r


def test_when_indexes_change_at_a_boot_bus_ids_still_find_their_gpu(make_node):
    node = make_node("H200", "H200", renumber_on_boot=[1, 0])
    words = ["--layout", "00000000:10:00.0=7g.141gb:1", "--layout", "00000000:1B:00.0=1g.18gb:7"]
    for _ in range(2):
        r = node.mig_setup(*words)
        assert r.code == 0, r
        assert [len(node.by_bus(b)["gis"]) for b in ("00000000:10:00.0", "00000000:1B:00.0")] == [1, 7], r
        node.boot()


def test_when_the_mode_change_itself_renumbers_the_gpus_each_gets_what_was_planned_for_it(make_node):
    node = make_node("H200", "H200")
    node.rule(r"(^| )-mig ", dict(renumber=[1, 0]))
    r = node.mig_setup("--layout", "0=7g.141gb:1", "--layout", "1=1g.18gb:7")
    assert r.code == 0, r
    assert [len(node.by_bus(b)["gis"]) for b in ("00000000:10:00.0", "00000000:1B:00.0")] == [1, 7], r


@pytest.mark.parametrize("match", [r"(^| )-mig ", "-lgip", "-cgi", "-L"])
def test_a_gpu_lost_in_the_middle_is_not_overlooked(make_node, match):
    """nvidia-smi passes over an unknown id beside a known one, with exit 0 (captured)."""
    node = make_node("H200", "H200")
    node.rule(match, dict(lose="00000000:1B:00.0"))
    r = node.mig_setup("--layout", MIX_WORDS)
    if node.state()["rules"][0]["times"] == 1:
        assert r.code == 0, r
        return
    assert r.code not in (0, 2, 70), r


def test_a_mode_call_that_ends_with_gpu_is_lost_is_an_error(make_node):
    node = make_node("H200", "H200")
    node.rule(r"(^| )-mig ", dict(exit=15, stdout="Unable to determine the device handle for GPU0: 0000:1B:00.0: GPU is lost.  Reboot the system to recover this GPU\n"))
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code not in (0, 2, 70) and "GPU is lost" in r.err, r


def test_two_runs_at_once_never_touch_the_gpus_at_the_same_time(make_node):
    node = make_node("H200", "H200", time_scale=0.02)
    results = []

    def go():
        p = node.enter([mignode.BINARY, "mig-setup", "--layout", MIX_WORDS], env=node.BOOT_ENV, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = p.communicate(timeout=60)
        results.append((p.returncode, out, err))
    threads = [threading.Thread(target=go) for _ in range(2)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert [r[0] for r in results] == [0, 0], results
    assert not any(c["overlap"] for c in fake.calls(node.state_file))
    assert node.all_layouts() == [MIX] * 2


# ------------------------------------------------------------------ what it leaves and prints
def test_the_status_is_in_both_places_with_boot_id_result_and_every_gpu(make_node):
    node = make_node("H200", "H200")
    assert node.mig_setup("--layout", MIX_WORDS).code == 0
    for where in (STATUS_RUN, STATUS_LIB):
        status = node.status(where)
        assert status is not None, where
        text = json.dumps(status)
        assert node.boot_id in text and "00000000:10:00.0" in text and "00000000:1B:00.0" in text, status
        assert status["boot_id"] == node.boot_id and "result" in status, status


def test_a_failed_run_leaves_a_status_that_says_so(make_node):
    node = make_node("H200", "H200")
    assert node.mig_setup("--layout", MIX_WORDS).code == 0
    good = node.status()["result"]
    node.rule("-cgi", dict(fail_item=0, reason="Insufficient Resources"), times=99)
    r = node.mig_setup("--layout", "7g.141gb:1")
    assert r.code == 5, r
    for where in (STATUS_RUN, STATUS_LIB):
        assert node.status(where)["result"] != good
        assert "Insufficient Resources" in json.dumps(node.status(where))


def test_caps_files_are_made_by_one_listing_and_missing_ones_are_a_warning(make_node):
    node = make_node("H200")
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0 and len([c for c in r.calls if c["argv"] == ["-L"]]) == 1, r
    assert len(os.listdir(node.host("/dev/nvidia-caps"))) > 2
    node = make_node("H200", caps_never=True)
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0 and "nvidia-cap" in r.err, r


def test_print_aws_cli_gives_the_published_form(make_node):
    node = make_node(*["A100-40"] * 8)
    node.enable()
    r = node.mig_setup("--layout", "9,14,19,19", "--print=aws-cli")
    assert r.code == 0, r
    assert r"gresCustomSettings=[{AutoDetect=nvml}],slurmCustomSettings=[{parameterName=Gres,parameterValue=gpu:3g.20gb:8\,gpu:2g.10gb:8\,gpu:1g.5gb:16}]" in r.out
    assert "get-compute-node-group" in r.err, "no word that the call may replace the existing settings"


def test_print_aws_json_gives_json_with_both_halves(make_node):
    node = make_node("H200")
    r = node.mig_setup("--layout", MIX_WORDS, "--print=aws-json")
    assert r.code == 0, r
    doc = json.loads(r.out)
    text = json.dumps(doc)
    assert "nvml" in text and "gpu:3g.71gb:1,gpu:2g.35gb:1,gpu:1g.18gb:2" in text and "\\\\," not in text


def test_print_json_and_the_global_json_option_give_the_same_object(make_node):
    node = make_node("H200")
    assert node.mig_setup("--layout", MIX_WORDS).code == 0
    a = node.mig_setup("--layout", MIX_WORDS, "--print=json")
    b = node.mig_setup("--layout", MIX_WORDS, "--json")
    assert a.code == b.code == 0
    assert a.out.startswith("{") and b.out.startswith("{"), (a, b)
    assert set(json.loads(a.out)) == set(json.loads(b.out))
    assert "gpu:3g.71gb:1" in a.out


def test_types_that_slurm_would_confuse_are_warned_about_with_longer_names(make_node):
    node = make_node("H200")
    r = node.mig_setup("--layout", "1g.18gb:3,1g.18gb+me:1")
    assert r.code == 0 and gres(r.out) == {"1g.18gb": 3, "1g.18gb+me": 1}, r
    assert "1g.18gb+me" in r.err and "nvidia_h200_1g.18gb" in r.err.lower(), r


def test_plan_from_names_the_nodes_that_still_advertise_the_old_layout_and_the_power_up_line(make_node):
    node = make_node("H200")
    r = node.mig_setup("--layout", MIX_WORDS, "--plan-from", "gpu:7g.141gb:1")
    assert r.code == 0, r
    assert "State=POWER_UP" in everything(r) and "7g.141gb" in everything(r)


def test_dry_run_changes_nothing_leaves_nothing_and_tells_the_steps(make_node):
    node = make_node("H200", "H200")
    before, files = node.state(), files_of(node)
    r = node.mig_setup("--layout", MIX_WORDS, "--dry-run")
    assert r.code == 0, r
    assert_untouched(node, r, before)
    assert files_of(node) == files
    assert "3g.71gb" in everything(r)
    assert node.mig_setup("--layout", "3g.71gb:3", "--dry-run").code == 2
    assert files_of(node) == files


@pytest.mark.parametrize("words", [["--dry-run", "--json"], ["--check", "--json"], ["--check", "--print=json"], ["--json"]])
def test_json_is_one_object_on_stdout_and_nothing_else(make_node, words):
    node = make_node("H200")
    r = node.mig_setup("--layout", MIX_WORDS, *words)
    assert r.code == 0, r
    json.loads(r.out)


def test_json_of_a_failed_run_is_one_object_with_the_reason(make_node):
    node = make_node("H200")
    r = node.mig_setup("--layout", "3g.71gb:3", "--json")
    assert r.code == 2 and "3g.71gb" in json.dumps(json.loads(r.out)), r


def test_a_dry_run_does_not_say_that_anything_was_done(make_node):
    node = make_node("H200")
    r = node.mig_setup("--layout", MIX_WORDS, "--dry-run")
    assert r.code == 0 and "read back" not in everything(r), r


def test_dry_run_on_a_p4d_does_not_reboot(make_node):
    node = make_node("A100-40")
    before = node.state()
    r = node.mig_setup("--layout", "9,14,19,19", "--dry-run", "--reboot=if-pending")
    assert r.code == 0, r
    assert_untouched(node, r, before)


def test_check_on_the_node_changes_nothing_and_prints_placements_and_gres(make_node):
    node = make_node("H200")
    before, files = node.state(), files_of(node)
    r = node.mig_setup("--layout", MIX_WORDS, "--check")
    assert r.code == 0 and "gpu:3g.71gb:1" in r.out, r
    assert_untouched(node, r, before)
    after = files_of(node)
    after.pop("/var/log/gpu-prolog-mig.log", None)
    assert after == files


FORMS = {"gres": lambda text: gres(text) == {"3g.71gb": 1, "2g.35gb": 1, "1g.18gb": 2},
         "aws-cli": lambda text: text.startswith("aws pcs update-compute-node-group \\\n") and text.endswith("}]'\n") and text.count("\n") == 5,
         "aws-json": lambda text: set(json.loads(text)) == {"gresCustomSettings", "slurmCustomSettings"},
         "json": lambda text: json.loads(text)["command"] == "mig-setup"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("words", [["--check"], ["--dry-run"], ["--check", "--dry-run"], []])
def test_stdout_is_the_one_form_alone_and_the_rest_is_on_stderr(make_node, form, words):
    node = make_node("H200")
    r = node.mig_setup("--layout", MIX_WORDS, "--print=" + form, *words)
    assert r.code == 0 and FORMS[form](r.out), r
    if words:
        assert "9:4" in r.err, "the places are told nowhere: %r" % r
    bad = node.mig_setup("--layout", "3g.71gb:3", "--print=" + form, *words)
    assert bad.code == 2 and (bad.out == "" if form != "json" else json.loads(bad.out)["exit_code"] == 2), bad


CAPTURES = os.path.join(mignode.PROJECT, "tests", "data", "nvidia-smi-580-h200")


def board_file(tmp_path, *names):
    text = ""
    for name in names:
        body = open(os.path.join(CAPTURES, name)).read()
        text += body.split("\n", 1)[1].rsplit("rc=", 1)[0]
    path = tmp_path / "board.txt"
    path.write_text(text)
    os.chmod(path, 0o644)
    return str(path)


def laptop(tmp_path, *words):
    """The binary alone, without root, without any NVIDIA tool."""
    for folder in [tmp_path, *tmp_path.parents]:
        if str(folder).startswith("/tmp/"):
            os.chmod(folder, 0o755)
    return subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", mignode.BINARY, "mig-setup", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={}, timeout=20)


def test_a_layout_is_checked_offline_against_real_saved_output(tmp_path):
    board = board_file(tmp_path, "lgip.txt", "lgipp.txt")
    r = laptop(tmp_path, "--layout", "19,19,14,9", "--check", "--board", board)
    assert r.returncode == 0, r
    assert "gpu:3g.71gb:1,gpu:2g.35gb:1,gpu:1g.18gb:2" in r.stdout
    placements = set(re.findall(r"\b(9|14|19):(\d)\b", r.stdout + r.stderr))
    assert len(placements) == 4, "no placements were printed: %r" % r


@pytest.mark.parametrize("form", FORMS)
def test_offline_whole_gpus_need_the_product_name_and_an_empty_value_is_never_printed(tmp_path, form):
    r = laptop(tmp_path, "--layout", "none", "--check", "--print=" + form, "--board", board_file(tmp_path, "lgip.txt", "lgipp.txt"))
    assert r.returncode == 2 and "nvidia-smi -L" in r.stderr and (r.stdout == "" if form != "json" else json.loads(r.stdout)["exit_code"] == 2), r
    r = laptop(tmp_path, "--layout", "none", "--check", "--print=" + form, "--board", board_file(tmp_path, "lgip.txt", "lgipp.txt", "L.txt"))
    assert r.returncode == 0 and "gpu:nvidia_h200:1" in r.stdout, r


@pytest.mark.parametrize("words", [["--check"], ["--dry-run"], []])
@pytest.mark.parametrize("form", ["aws-cli", "aws-json"])
def test_a_layout_without_devices_prints_no_call_with_an_empty_value(make_node, form, words):
    node = make_node("H200", prepare=lambda n: n.put("/etc/mig.yaml", MIG_PARTED))
    r = node.mig_setup("--layout-file", "/etc/mig.yaml", "--layout-name", "empty", "--print=" + form, *words)
    assert r.code == 0 and r.out == "" and "no Gres" in r.err, r


@pytest.mark.parametrize("name", ["NVIDIA H200'; touch oops; echo '", "NVIDIA $(touch oops)", "NVIDIA H200`touch oops`", "NVIDIA ]}'\"\\"])
def test_offline_a_hostile_product_name_is_one_word_of_the_printed_call_for_a_shell(tmp_path, name):
    board = board_file(tmp_path, "lgip.txt", "lgipp.txt", "L.txt")
    text = open(board).read()
    assert "NVIDIA H200 (UUID" in text
    open(board, "w").write(text.replace("NVIDIA H200 (UUID", name + " (UUID"))
    r = laptop(tmp_path, "--layout", "none", "--check", "--print=aws-cli", "--board", board)
    assert r.returncode == 0, r
    folder = tmp_path / "shell"
    folder.mkdir()
    shell = subprocess.run(["/bin/sh", "-c", "aws() { for a in \"$@\"; do printf '%s\\n' \"$a\"; done; }\n" + r.stdout], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=10)
    assert shell.returncode == 0 and os.listdir(folder) == [], (r.stdout, shell)
    words = shell.stdout.splitlines()
    assert words[:2] == ["pcs", "update-compute-node-group"] and len(words) == 8, words
    assert json.loads(words[-1])["slurmCustomSettings"][0]["parameterValue"] == "gpu:%s:1" % name.lower().replace(" ", "_"), words


@pytest.mark.parametrize("layout", ["3g.71gb:3", "3g.71gb:2,1g.18gb:1", "1g.10gb:1", "999"])
def test_offline_what_cannot_be_is_refused_with_2(tmp_path, layout):
    r = laptop(tmp_path, "--layout", layout, "--check", "--board", board_file(tmp_path, "lgip.txt", "lgipp.txt"))
    assert r.returncode == 2 and r.stderr.strip(), r


@pytest.mark.parametrize("names", [["lgip.txt"], ["lgipp.txt"], ["L.txt"], []])
def test_offline_a_board_file_with_a_half_missing_is_refused_with_2(tmp_path, names):
    r = laptop(tmp_path, "--layout", MIX_WORDS, "--check", "--board", board_file(tmp_path, *names))
    assert r.returncode == 2 and "board.txt" in r.stderr, r


def test_offline_a_name_that_two_profiles_could_mean_is_refused_with_2_and_both_named(tmp_path):
    board = board_file(tmp_path, "lgip.txt", "lgipp.txt")
    text = open(board).read().replace("MIG 4g.71gb ", "MIG 3g.73gb ")
    open(board, "w").write(text)
    r = laptop(tmp_path, "--layout", "3g.72gb:1", "--check", "--board", board)
    assert r.returncode == 2 and "3g.71gb" in r.stderr and "3g.73gb" in r.stderr, r


def test_every_layout_of_the_rule_is_planned_offline_and_no_other(tmp_path):
    """All multisets of plain shapes against the rule: ranges do not overlap, at most 7 slices, at most each profile's number."""
    board = board_file(tmp_path, "lgip.txt", "lgipp.txt")
    shapes = {"7g.141gb": (7, [0], 8, 1), "4g.71gb": (4, [0], 4, 1), "3g.71gb": (3, [0, 4], 4, 2), "2g.35gb": (2, [0, 2, 4], 2, 3), "1g.35gb": (1, [0, 2, 4, 6], 2, 4), "1g.18gb": (1, list(range(7)), 1, 7)}

    def fits(items, taken=frozenset()):
        if not items:
            return True
        _, starts, size, _ = shapes[items[0]]
        return any(fits(items[1:], taken | set(range(s, s + size))) for s in starts if not taken & set(range(s, s + size)))

    wrong = []
    for counts in itertools.product(range(2), range(2), range(3), range(4), range(0, 5, 2), range(0, 8)):
        items = [n for n, c in zip(shapes, counts) for _ in range(c)]
        if not items or len(items) > 8 or sum(shapes[i][0] for i in items) > 9:
            continue
        good = sum(shapes[i][0] for i in items) <= 7 and fits(items)
        layout = ",".join("%s:%d" % (n, c) for n, c in zip(shapes, counts) if c)
        r = subprocess.run([mignode.BINARY, "mig-setup", "--layout", layout, "--check", "--board", board], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={})
        if r.returncode != (0 if good else 2):
            wrong.append((layout, good, r.returncode))
    assert wrong == []


# ------------------------------------------------------------------ nasty surroundings
@pytest.mark.parametrize("wrap", ['exec "$@" >&-', 'exec "$@" >&- 2>&-', 'exec "$@" <&- >&- 2>&-', 'exec "$@" >/dev/full'])
def test_closed_or_full_output_does_not_keep_it_from_its_work(make_node, wrap):
    node = make_node("H200")
    r = node.mig_setup("--layout", MIX_WORDS, wrap=wrap)
    assert node.layout(0) == (MIX, 0), r
    assert r.code == 0 or "full" in wrap, r


def test_an_empty_environment_is_enough(make_node):
    node = make_node("H200")
    r = node.mig_setup("--layout", MIX_WORDS, env={})
    assert r.code == 0 and node.layout(0) == (MIX, 0), r


def test_a_hostile_environment_does_not_reach_the_tools(make_node):
    node = make_node("H200")
    evil = dict(PATH="/tmp/evil", LD_PRELOAD="/tmp/evil.so", CUDA_VISIBLE_DEVICES="", NOTIFY_SOCKET="/run/systemd/notify", BASH_ENV="/tmp/evil", IFS="x", LC_ALL="de_DE.UTF-8")
    r = node.mig_setup("--layout", MIX_WORDS, env=evil)
    assert r.code == 0, r
    for call in r.calls:
        assert set(call["env"]) <= {"PATH", "LC_ALL", "SLURM_CONF", "LC_CTYPE"}, call
        assert "/tmp" not in call["path"]


@pytest.mark.parametrize("path", ["/var/log", "/var/lib", "/var"])
def test_unwritable_folders_do_not_keep_it_from_its_work(make_node, path):
    def prepare(n):
        n.read_only(path)
        if path == "/var":
            with open(os.path.join(n.folder, "boot.d", "z"), "w") as f:
                f.write("mount --bind $N/fake /var/lib/fake-nvidia-smi\n")
    node = make_node("H200", prepare=prepare)
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 0 and node.layout(0) == (MIX, 0), r
    assert node.status(STATUS_RUN) is not None


def test_a_dev_log_that_nobody_reads_does_not_hold_it(make_node):
    node = make_node("H200")
    p = node.enter(["/usr/bin/python3", "-c", "import socket,time; s=socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind('/dev/log'); time.sleep(1000)"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    node.children.append(p)
    deadline = time.monotonic() + 10
    while not os.path.exists(node.host("/dev/log")) and time.monotonic() < deadline:
        time.sleep(0.02)
    for _ in range(3):
        r = node.mig_setup("--layout", MIX_WORDS, timeout=20)
        assert r.code == 0, r
        assert node.mig_setup("--layout", "7g.141gb:1", timeout=20).code == 0


def test_the_log_file_tells_the_story(make_node):
    node = make_node("H200")
    assert node.mig_setup("--layout", MIX_WORDS).code == 0
    log = node.get("/var/log/gpu-prolog-mig.log")
    assert log and "3g.71gb" in log


def test_a_tool_that_others_could_have_written_is_not_run(make_node):
    def prepare(n):
        os.chmod(os.path.join(n.folder, "bin", "nvidia-smi"), 0o777)
    node = make_node("H200", prepare=prepare)
    r = node.mig_setup("--layout", MIX_WORDS, "--driver-timeout", "1s")
    assert r.code == 3 and r.calls == [] and "/usr/bin/nvidia-smi" in r.err, r


def test_the_layout_may_come_from_the_config_file(make_node):
    node = make_node("H200", prepare=lambda n: n.put("/etc/gpu-prolog.toml", '[mig-setup]\nlayout = ["%s"]\n' % MIX_WORDS))
    r = node.mig_setup()
    assert r.code == 0 and node.layout(0) == (MIX, 0), r


@pytest.mark.parametrize("text", ["[mig-setup]\nlayuot = \"none\"\n", "[mig-stup]\n", "garbage\n"])
def test_a_mistake_in_the_config_file_is_2_and_nothing_is_touched(make_node, text):
    node = make_node("H200", prepare=lambda n: n.put("/etc/gpu-prolog.toml", text))
    before = node.state()
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 2, r
    assert_untouched(node, r, before)


@pytest.mark.parametrize("change,word,code", [
    ("mkdir /run/elsewhere; ln -s /run/elsewhere /run/gpu-prolog", "symbolic link", 3),
    ("mkdir /run/gpu-prolog; chown 1000 /run/gpu-prolog", "does not belong to root", 3),
    ("mkdir /run/gpu-prolog; chmod 777 /run/gpu-prolog", "can be written by group or others", 0)])
def test_no_status_is_written_where_others_have_their_say(make_node, change, word, code):
    node = make_node("H200")
    assert node.sh("set -e; " + change).returncode == 0
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == code and word in r.err and "/run/gpu-prolog" in r.err, r
    there = node.sh("ls -ld /run/gpu-prolog; ls /run/gpu-prolog/ /run/elsewhere 2>/dev/null").stdout
    if code:
        assert "mig-setup.json" not in there, there
        assert r.changing() == [] and node.run("validate", "mig", "--gate").code == 1
    else:
        assert there.startswith("drwxr-xr-x") and node.run("validate", "mig", "--gate").code == 0, there


def test_a_change_is_not_begun_with_less_time_than_it_needs(make_node):
    node = make_node("H200", time_scale=1.0, costs=dict(listing=2.0))
    before = node.state()["gpus"]
    r = node.mig_setup("--layout", MIX_WORDS, "--deadline", "6s", timeout=30)
    assert r.code == 6 and "not started" in r.err and "--deadline" in r.err, r
    assert r.changing() == [] and node.state()["gpus"] == before
    assert r.seconds < 15


@pytest.mark.parametrize("words", [["--deadline", "0"], ["--deadline", "10ms"], ["--plan-from", "xx;;"], ["--plan-from", "nvme:2"], ["--plan-from", "gpu:a b:1"]])
@pytest.mark.parametrize("more", [[], ["--check"], ["--dry-run"]])
def test_a_deadline_of_nothing_and_a_gres_that_is_none_are_2_and_nothing_is_touched(make_node, words, more):
    node = make_node("H200")
    before = node.state()
    r = node.mig_setup("--layout", MIX_WORDS, *words, *more)
    assert r.code == 2 and words[0] in r.err and r.out == "", r
    assert_untouched(node, r, before)


def test_a_tool_that_floods_is_told_to_have_printed_too_much(make_node):
    node = make_node("H200")
    node.rule("-lgip( |$)", dict(flood=True), times=99)
    r = node.mig_setup("--layout", MIX_WORDS, "--deadline", "4s", timeout=30)
    assert r.code == 6 and "printed more than 1048576 bytes" in r.err, r


@pytest.mark.parametrize("words", [["--reboot", "always"], ["--print", "xml"], ["--deadline", "soon"], ["--frobnicate"], ["--expect-gpus", "-1"], ["extra"], ["--board", "/etc/hosts"]])
def test_wrong_words_are_2_and_nothing_is_touched(make_node, words):
    node = make_node("H200")
    before = node.state()
    r = node.mig_setup("--layout", MIX_WORDS, *words)
    assert r.code == 2, r
    assert_untouched(node, r, before)
