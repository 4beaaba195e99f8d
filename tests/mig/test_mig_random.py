"""mig-setup from any state to any layout, with seeds so that a failure can be run again; and hostile output of the tool."""
import random
import re

import pytest

import fake_nvidia_smi as fake
import mignode
from test_mig_setup import MIX, MIX_WORDS, gres

BOARDS = ["H100", "H200", "B200", "RTXPRO6000", "A30", "A100-80"]


def fitting(rng, board):
    """A random layout that fits this board, by putting instances on an empty GPU as the driver would."""
    smi = fake.Smi("/nowhere/state.json")
    smi.state = fake.new_state([board])
    g = smi.state["gpus"][0]
    want = {}
    for _ in range(rng.randint(1, 7)):
        options = [(p, s) for p in fake.BOARDS[board]["profiles"] for s in smi.free_starts(g, p)]
        if not options:
            break
        p, start = rng.choice(options)
        g["gis"].append(dict(id=len(g["gis"]), profile=p["id"], start=start, size=p["size"], cis=[]))
        want[p["name"]] = want.get(p["name"], 0) + 1
    return want


def words(rng, board, want):
    """The layout as some person might write it."""
    ids = {p["name"]: str(p["id"]) for p in fake.BOARDS[board]["profiles"]}
    items = list(want.items())
    rng.shuffle(items)
    if rng.random() < 0.4:
        flat = [ids[n] for n, c in items for _ in range(c)]
        rng.shuffle(flat)
        return ",".join(flat)
    return ",".join("%s:%d" % (n.upper() if rng.random() < 0.2 else n, c) for n, c in items)


def scramble(rng, node):
    """Mode on for some GPUs, with instances of any kind in any state of completion."""
    def change(s):
        smi = fake.Smi("/nowhere/state.json")
        smi.state = s
        smi.out = open("/dev/null", "w")
        for g in s["gpus"]:
            if rng.random() < 0.3:
                continue
            g["current"] = g["pending"] = "Enabled"
            for _ in range(rng.randint(0, 5)):
                options = [(p, at) for p in fake.BOARDS[g["board"]]["profiles"] for at in smi.free_starts(g, p)]
                if not options:
                    break
                p, at = rng.choice(options)
                gi = dict(id=smi.gi_id(g, p, at), profile=p["id"], start=at, size=p["size"], cis=[])
                g["gis"].append(gi)
                if rng.random() < 0.7:
                    smi.add_ci(g, gi, rng.choice([None, None, None, 1]) if p["slices"] > 1 else None)
    node.edit(change)


@pytest.mark.parametrize("seed", range(24))
def test_from_any_state_to_any_layout_in_one_run_and_nothing_to_do_in_the_next(make_node, seed):
    rng = random.Random(seed)
    board = rng.choice(BOARDS)
    node = make_node(*[board] * rng.randint(1, 3))
    scramble(rng, node)
    if board == "A100-80":
        node.enable()
    want = fitting(rng, board)
    text = words(rng, board, want)
    r = node.mig_setup("--layout", text)
    count = len(node.state()["gpus"])
    assert r.code == 0 and [node.layout(i) for i in range(count)] == [(want, 0)] * count, "%s %s: %r" % (board, text, r)
    for g in node.state()["gpus"]:
        for gi in g["gis"]:
            assert [c["slices"] for c in gi["cis"]] == [next(p["slices"] for p in fake.BOARDS[board]["profiles"] if p["id"] == gi["profile"])], r
    before = node.state()["gpus"]
    again = node.mig_setup("--layout", text)
    assert again.code == 0 and again.changing() == [] and len(again.calls) <= 3 and node.state()["gpus"] == before, again
    assert again.out == r.out


@pytest.mark.parametrize("seed", range(12))
def test_killed_at_a_random_point_of_a_random_change_the_next_run_repairs(make_node, seed):
    rng = random.Random(1000 + seed)
    board = rng.choice(["H200", "RTXPRO6000", "A30"])
    node = make_node(board, board)
    scramble(rng, node)
    want = fitting(rng, board)
    text = words(rng, board, want)
    for _ in range(3):
        when = rng.choice(["before", "after", "item:1", "item:2"])
        node.rule(".*" if when in ("before", "after") else "-(cgi|cci|dci|dgi)", dict(kill_parent=when), skip=rng.randint(0, 8))
        node.mig_setup("--layout", text)
        node.edit(lambda s: s.update(rules=[]))
    r = node.mig_setup("--layout", text)
    assert r.code == 0 and [node.layout(i) for i in (0, 1)] == [(want, 0)] * 2, "%s %s: %r" % (board, text, r)


@pytest.mark.parametrize("seed", range(8))
def test_with_one_call_failing_at_random_no_gpu_is_left_half_made(make_node, seed):
    rng = random.Random(2000 + seed)
    node = make_node("H200", "H200", "H200")
    scramble(rng, node)
    match = rng.choice(["-cgi", "-cgi", "-cci", "-dci", "-dgi"])
    node.rule(match, dict(fail_item=rng.randint(0, 2), reason=rng.choice(["Insufficient Resources", "In use by another client", "Unknown Error"])), skip=rng.randint(0, 2), times=rng.choice([1, 99]))
    before = node.all_layouts()
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code in (0, 5), r
    for i in range(3):
        full, bare = node.layout(i)
        if r.code == 0:
            assert (full, bare) == (MIX, 0), r
        elif (full, bare) not in ((MIX, 0), ({}, 0)):
            # What could not even be cleared is what it was before, and is told.
            assert match in ("-dci", "-dgi") and node.gpu(i)["bus"][-7:].lower() in r.err.lower(), (before, r)
    node.edit(lambda s: s.update(rules=[]))
    assert node.mig_setup("--layout", MIX_WORDS).code == 0 and node.all_layouts() == [MIX] * 3


# ------------------------------------------------------------------ hostile output
@pytest.mark.parametrize("match", ["--query-gpu", "-lgip", r"(^| )-mig ", "-cgi"])
def test_a_tool_that_prints_without_end_is_stopped_in_time(make_node, match):
    node = make_node("H200")
    node.rule(match, dict(flood=True), times=99)
    r = node.mig_setup("--layout", MIX_WORDS, "--driver-timeout", "3s", "--deadline", "5s", timeout=30)
    assert r.code in (5, 6) and r.seconds < 20, r
    assert len(r.err) < 20000 and len(node.get("/var/log/gpu-prolog-mig.log") or "") < 200000


@pytest.mark.parametrize("match", ["--query-gpu", "-lgip", r"(^| )-mig ", "-cgi", "-L"])
def test_a_tool_that_leaves_a_child_holding_its_output_does_not_hold_us(make_node, match):
    node = make_node("H200")
    node.rule(match, dict(leave_child=True), times=99)
    r = node.mig_setup("--layout", MIX_WORDS, timeout=40)
    assert r.code == 0 and node.layout(0) == (MIX, 0) and r.seconds < 30, r
    assert "nvidia-smi" not in node.sh("ps -e -o comm=").stdout.split(), "a child was left behind"


GARBAGE = ["\x00\xff\xfe garbage\n", "0, 00000000:10:00.0\n", "0, a, b, c, d, e, f, g, h, i, j, k, l, m\n" * 3, "[Unknown Error]\n", ", , , , , , , , \n", "-1, x\n", "\n" * 1000, "9" * 4000 + "\n"]


@pytest.mark.parametrize("text", GARBAGE)
@pytest.mark.parametrize("match", ["--query-gpu", "-lgip", "-lgipp"])
def test_output_that_makes_no_sense_changes_nothing(make_node, match, text):
    node = make_node("H200")
    node.rule(match + "( |$|=)", dict(exit=0, stdout=text), times=999)
    before = node.state()["gpus"]
    r = node.mig_setup("--layout", MIX_WORDS, "--driver-timeout", "2s", "--deadline", "8s", timeout=30)
    assert r.code not in (0, 70) and r.changing() == [] and node.state()["gpus"] == before, r
    assert r.code < 128, r


def test_a_mode_that_is_an_unknown_word_is_an_error_and_not_disabled(make_node):
    node = make_node("H200")
    node.edit(lambda s: s["gpus"][0].update(current="[Unknown Error]", pending="[Unknown Error]"))
    before = node.state()["gpus"]
    r = node.mig_setup("--layout", MIX_WORDS, "--driver-timeout", "2s", "--deadline", "8s")
    assert r.code not in (0, 2, 70) and r.changing() == [] and node.state()["gpus"] == before, r


def test_names_cannot_forge_lines_or_send_escape_codes(make_node):
    node = make_node("H200")
    node.hold_gpu(0, "evil\x1b[31m\n2026 [ERROR] forged")
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 5, r
    log = node.get("/var/log/gpu-prolog-mig.log") or ""
    for text in (r.err, r.out, log):
        assert "\x1b" not in text
        assert not re.search(r"(?m)^2026 \[ERROR\] forged", text)
