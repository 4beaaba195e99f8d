"""mig-setup --check beside what a real run does and prints, and what is said of a creation that was refused."""
import json
import os

import pytest

from test_mig_setup import MIX_WORDS, board_file, laptop

SAVE = "(nvidia-smi mig -lgip; nvidia-smi mig -lgipp; nvidia-smi -L)"


def four(node):
    """A node of 4 GPUs whose GPU 2 was split by somebody before."""
    assert node.mig_setup("--layout", "2=2g.35gb:3").code == 0


@pytest.mark.parametrize("split_before", [False, True])
@pytest.mark.parametrize("layout", [["0=7g.141gb:1"], ["0-1=1g.18gb:7"], ["3=none"], ["none"], ["7g.141gb:1"], ["0=7g.141gb:1", "1=none"]])
def test_check_dry_run_and_the_real_run_print_the_same_gres_also_for_some_of_the_gpus(make_node, layout, split_before):
    node = make_node("H200", "H200", "H200", "H200")
    if split_before:
        four(node)
    words = [word for text in layout for word in ("--layout", text)]
    printed = [node.mig_setup(*words, *more) for more in (["--check"], ["--dry-run"], [])]
    assert [r.code for r in printed] == [0, 0, 0], printed
    assert printed[0].out == printed[1].out == printed[2].out != "", printed
    count = sum(int(entry.rsplit(":", 1)[1]) for entry in printed[0].out.strip().split(","))
    assert count >= 4, printed[0]


@pytest.mark.parametrize("layout", [["0=7g.141gb:1"], ["0-1=1g.18gb:7"], ["3=none"]])
def test_check_with_a_board_file_of_the_node_prints_the_gres_of_the_real_run_and_says_what_it_takes_for_granted(make_node, tmp_path, layout):
    node = make_node("H200", "H200", "H200", "H200")
    board = str(tmp_path / "board4.txt")
    open(board, "w").write(node.sh(SAVE).stdout)
    offline = laptop(tmp_path, "--layout", *layout, "--check", "--board", board)
    real = node.mig_setup("--layout", *layout)
    assert real.code == 0 and offline.returncode == 0 and offline.stdout == real.out, (offline, real)
    assert "a node of 4 GPUs, as the board file holds" in offline.stderr and "no layout selects" in offline.stderr, offline


def test_check_with_a_board_file_says_for_how_many_gpus_its_gres_is(tmp_path):
    board = board_file(tmp_path, "lgip.txt", "lgipp.txt", "L.txt")
    r = laptop(tmp_path, "--layout", "7g.141gb", "--check", "--board", board)
    assert r.stdout == "gpu:7g.141gb:1\n" and "a node of 1 GPU, as the board file holds" in r.stderr, r
    r = laptop(tmp_path, "--layout", "0=7g.141gb", "--check", "--board", board, "--expect-gpus", "8")
    assert r.stdout == "gpu:nvidia_h200:7,gpu:nvidia_h200_7g.141gb:1\n" and "a node of 8 GPUs, as --expect-gpus says" in r.stderr, r


def test_a_board_file_of_a_node_with_a_gpu_without_mig_counts_it_as_the_real_run_does(make_node, tmp_path):
    node = make_node("L4", "H200")
    board = str(tmp_path / "board2.txt")
    open(board, "w").write(node.sh(SAVE).stdout)
    offline = laptop(tmp_path, "--layout", "7g.141gb", "--if-supported", "--check", "--board", board)
    real = node.mig_setup("--layout", "7g.141gb", "--if-supported")
    assert real.code == 0 and offline.stdout == real.out and "l4" in real.out, (offline, real)


@pytest.mark.parametrize("boards,words,code", [
    (["L4", "H200"], ["--layout", "7g.141gb:1"], 3), (["L4", "H200"], ["--layout", "7g.141gb:1", "--if-supported"], 0),
    (["L4"], ["--layout", "7g.141gb:1"], 3), (["L4"], ["--layout", "7g.141gb:1", "--if-supported"], 0), (["L4"], ["--layout", "none"], 0),
    (["L4", "H200"], ["--layout", "none"], 0), (["H200", "L4"], ["--layout", "1=1g.5gb", "--if-supported"], 0), ([], ["--layout", "7g.141gb:1", "--if-supported"], 0)])
def test_check_knows_if_supported_and_gpus_without_mig_as_the_real_run_does(make_node, boards, words, code):
    node = make_node(*boards)
    checked = node.mig_setup(*words, "--check")
    real = node.mig_setup(*words)
    assert (checked.code, checked.out) == (real.code, real.out), (checked, real)
    assert checked.code == code and checked.changing() == [], checked


def test_a_run_that_passes_over_its_gpus_without_mig_counts_the_devices_of_the_others(make_node):
    node = make_node("H200", "L4")
    assert node.mig_setup("--layout", "0=7g.141gb").code == 0
    r = node.mig_setup("--layout", "1=1g.5gb", "--if-supported")
    assert r.code == 0 and "7g.141gb:1" in r.out and "l4:1" in r.out, r


@pytest.mark.parametrize("boards", [[], ["H200"]])
def test_fewer_gpus_than_expected_is_3_also_with_if_supported_and_on_a_node_without_any(make_node, boards):
    node = make_node(*boards)
    r = node.mig_setup("--layout", "7g.141gb", "--if-supported", "--expect-gpus", "8", "--driver-timeout", "1")
    assert r.code == 3 and "8" in r.err, r
    assert node.run("validate", "mig", "--gate").code == 1
    assert make_node().mig_setup("--layout", "7g.141gb", "--if-supported").code == 0


REFUSED = "Failed to create GPU instances: Insufficient Permissions\n"


@pytest.mark.parametrize("boards", [["H200"], ["H200", "H200"]])
def test_no_permission_to_create_is_3_and_is_not_told_to_end_what_holds_the_gpu(make_node, boards):
    node = make_node(*boards)
    node.rule("-cgi", dict(exit=4, stdout=REFUSED), times=99)
    r = node.mig_setup("--layout", MIX_WORDS)
    assert r.code == 3 and "Insufficient Permissions" in r.err, r
    status = node.status()
    assert status["exit_code"] == 3 and "root" in status["cure"] and "end what" not in status["cure"] and "nobody" not in status["message"], status


def test_a_creation_without_room_is_5_and_is_not_told_to_end_what_holds_the_gpu_where_nobody_does(make_node):
    node = make_node("H200")
    node.rule("-cgi", dict(fail_item=2, reason="Insufficient Resources"), times=99)
    r = node.mig_setup("--layout", MIX_WORDS)
    status = node.status()
    assert r.code == 5 and "-lgip" in status["cure"] and "end what" not in status["cure"] and "nobody" not in status["message"], status


def test_a_listing_of_no_gpu_is_given_up_on_in_time(tmp_path):
    lgip = ["|   0  MIG 40g.1gb       0     1/1        1.00       No     1     0     0   |"]
    lgipp = ["GPU  0 Profile ID  0 Placement  : {57}:1"]
    for number in range(1, 31):
        lgip.append("|   0  MIG 1g.1gb       %d     1/1        1.00       No     1     0     0   |" % number)
        lgipp.append("GPU  0 Profile ID %d Placements: {%s}:2" % (number, ",".join(str(start) for start in range(1, 57, 2))))
    board = tmp_path / "board.txt"
    board.write_text("\n".join(lgip + lgipp) + "\n")
    os.chmod(board, 0o644)
    r = laptop(tmp_path, "--layout", ",".join(str(number) for number in range(1, 30)), "--check", "--board", str(board), "--deadline", "3s")
    assert r.returncode == 2 and "given up after" in r.stderr, r
    r = laptop(tmp_path, "--layout", ",".join(str(number) for number in range(1, 29)), "--check", "--board", str(board))
    assert r.returncode == 0, r


def test_a_board_file_holds_no_device_id_which_is_said_where_a_layout_file_needs_it(tmp_path):
    board = board_file(tmp_path, "lgip.txt", "lgipp.txt", "L.txt")
    layouts = tmp_path / "mig.yaml"
    layouts.write_text("version: v1\nmig-configs:\n  balanced:\n  - device-filter: 0x233510DE\n    devices: all\n    mig-enabled: true\n    mig-devices: {7g.141gb: 1}\n"
                       "  all:\n  - devices: all\n    mig-enabled: true\n    mig-devices: {7g.141gb: 1}\n")
    os.chmod(layouts, 0o644)
    r = laptop(tmp_path, "--layout-file", str(layouts), "--layout-name", "balanced", "--check", "--board", board)
    assert r.returncode == 2 and "a board file holds no device ID" in r.stderr and "without --board on the node" in r.stderr, r
    r = laptop(tmp_path, "--layout-file", str(layouts), "--layout-name", "all", "--check", "--board", board)
    assert r.returncode == 0 and r.stdout == "gpu:7g.141gb:1\n", r


BAD = {"a layout that cannot fit": (["--layout", "3g.71gb:3", "--check"], 2), "a bad layout": (["--layout", "nonsense", "--check"], 2), "no board": (["--layout", "7g.141gb", "--check", "--board", "/nowhere"], 2),
       "a bad option": (["--layout", "7g.141gb", "--frobnicate"], 2), "a bad value": (["--layout", "7g.141gb", "--deadline", "soon"], 2), "a bad config": (["--layout", "7g.141gb", "--config", "/nowhere.toml"], 2)}


@pytest.mark.parametrize("json_words", [["--json"], ["--print=json"], ["--print", "json"]])
@pytest.mark.parametrize("case", BAD)
def test_a_failure_is_the_status_object_where_json_is_asked_for_and_keeps_no_status_of_a_check(make_node, case, json_words):
    words, code = BAD[case]
    node = make_node("H200")
    r = node.mig_setup(*words, *json_words)
    assert r.code == code and r.changing() == [], r
    status = json.loads(r.out)
    assert (status["command"], status["result"], status["exit_code"], status["schema"]) == ("mig-setup", "failed", code, 1), r
    assert status["message"] and {"gpus", "gres", "warnings"} <= set(status), r
    assert node.status() is None, "a run that never began wrote a status"


def test_validates_failures_are_its_own_object_too(make_node):
    node = make_node("H200")
    for words, code in ((["validate", "job", "--json"], 3), (["validate", "mig", "--json", "--frobnicate"], 2), (["validate", "mig", "--json", "--layout", "nonsense"], 2)):
        r = node.run(*words)
        answer = json.loads(r.out)
        assert r.code == code and (answer["command"], answer["exit_code"], answer["checks"]) == ("validate", code, []) and answer["error"]["what"], r
