"""What a run must have done, in the words of the contract. Strict about what happened, tolerant about the form of texts."""

import json
import os
import stat

from node import CHANNEL, CHANNEL_DIR, LIST, OLD_LIST

CHANGING = ("stop", "start", "kill", "reset-failed", "cancel", "restart")


def is_comment_only(data):
    return all(line == b"" or line.startswith(b"#") for line in data.split(b"\n"))


def wanted_list(node, addresses=None):
    return "".join(f"{address}\n" for address in (node.addresses if addresses is None else addresses)).encode()


def assert_whole(node, *also, old=OLD_LIST):
    """The list is the whole old one, the whole new one or only comments; and no temporary file lies beside it."""
    data = node.list()
    assert data in (old, wanted_list(node), *also) or (data and is_comment_only(data)), f"a torn list: {data!r}"


def temporary_files(node):
    return sorted(set(os.listdir(node.path("/etc/nvidia-imex"))) - {"config.cfg", "nodes_config.cfg"})


def assert_log_frame(node, job="4711", word="PROLOG"):
    """First and last lines as the script's; every line of the script's form (log() checks that)."""
    lines = [entry for entry in node.log() if set(entry[2]) != {"-"}]
    assert lines, "the log is empty"
    assert f"{word} Start JobId={job}" in lines[0][2], lines[0]
    assert any(f"{word} End JobId={job}" in text for _, _, text in lines[-2:]), lines[-3:]
    assert {entry[1] for entry in lines} == {job}


def assert_channel(node, major=235):
    info = node.lstat(CHANNEL)
    assert stat.S_ISCHR(info.st_mode), oct(info.st_mode)
    assert (os.major(info.st_rdev), os.minor(info.st_rdev)) == (major, 0)
    assert stat.S_IMODE(info.st_mode) == 0o666 and info.st_uid == 0
    assert stat.S_IMODE(node.lstat(CHANNEL_DIR).st_mode) == 0o755


def assert_done(node, run, addresses=None, channel=True, log=True):
    """The whole job was done: list, daemon with that list, channel; nothing was printed."""
    assert run.code == 0, run
    assert (run.out, run.err) == ("", ""), run
    assert node.list() == wanted_list(node, addresses), node.list()
    info = node.lstat(LIST)
    assert stat.S_ISREG(info.st_mode) and stat.S_IMODE(info.st_mode) == 0o644 and (info.st_uid, info.st_gid) == (0, 0)
    assert temporary_files(node) == []
    assert node.starts() and node.starts()[-1].encode() == wanted_list(node, addresses), "the daemon was not started with this list"
    state = node.unit_state()
    assert state["ActiveState"] == "active" and state["Job"] == "", state
    if channel:
        assert_channel(node)
    if log:
        assert_log_frame(node)
        assert node.log("ERROR") == []


def assert_skipped(node, run, *words, level=None):
    """Exit 0, nothing printed, nothing changed, and the log says why."""
    assert run.code == 0, run
    assert (run.out, run.err) == ("", ""), run
    assert_untouched(node)
    text = "\n".join(text for entry_level, _, text in node.log() if level in (None, entry_level))
    for word in words:
        assert word.lower() in text.lower(), f"the log does not say {word!r} ({level or 'any level'}): {node.log_text()}"


def assert_untouched(node, old=OLD_LIST):
    assert node.list() == old
    assert not node.exists(CHANNEL)
    assert [verb for verb in node.verbs() if verb in CHANGING] == []


def assert_failed(node, run, codes, *words, unchanged=True, frame=True):
    """The code, one line on stderr that says what, and the same as ERROR in the log."""
    codes = codes if isinstance(codes, (tuple, set, list)) else (codes,)
    assert run.code in codes, run
    assert run.out == "", run
    assert run.err.count("\n") == 1 and run.err.endswith("\n") and run.err.strip(), f"not one line on stderr: {run.err!r}"
    for word in words:
        assert word.lower() in run.err.lower(), f"stderr does not say {word!r}: {run.err!r}"
    errors = " ".join(text for _, _, text in node.log("ERROR")).lower()
    assert errors, node.log_text()
    for word in words:
        assert word.lower() in errors, f"no ERROR says {word!r}: {node.log_text()}"
    if frame:
        assert_log_frame(node)
    if unchanged:
        assert node.list() == OLD_LIST, node.list()


def assert_told_but_passed(node, run, *words):
    """A fault that all nodes share, seen on a node that is not the first: ERROR in the log, exit 0, the list as it was."""
    assert run.code == 0, run
    errors = " ".join(text for _, _, text in node.log("ERROR")).lower()
    assert errors, node.log_text()
    for word in words:
        assert word.lower() in errors, f"no ERROR says {word!r}: {node.log_text()}"
    assert node.list() == OLD_LIST


def findings(node, what, code):
    """What validate WHAT found, by check; for a check that has several findings the first."""
    run = node.run("validate", what, "--json")
    assert (run.code, run.err) == (code, ""), run
    told = {}
    for one in json.loads(run.out)["checks"]:
        told.setdefault(one["check"], one)
    return told


def assert_finds(node, what, check, result, found, cure=""):
    """The check says this, word for word, and it is what the exit code and the first line of the text follow."""
    one = findings(node, what, 1 if result == "fail" else 0)[check]
    assert (one["result"], one["found"]) == (result, found), one
    assert cure in one["cure"], one
    if result == "fail":
        text = node.run("validate", what).out
        assert f"fail    {what} {check}: {found}\n" in text, text
    if result == "warn":
        assert node.run("validate", what, "--strict").code == 1
