"""The wait for the domain, with the words of nvidia-imex-ctl -N -j as scripted. More of it, with many daemons, is in tests/lab."""

import json

import pytest

from expect import assert_done

PEERS = ["10.20.0.1", "10.20.0.2"]


def answer(status="UP", node1="READY", cell="CONNECTED", version="580.95.05"):
    def connections(row):
        return {str(k): {"host": PEERS[k], "status": "CONNECTED" if row == k or cell is None else cell, "changed": True} for k in range(2)}

    nodes = {str(i): {"status": "READY" if i == 0 else node1, "host": PEERS[i], "version": version if i == 0 or node1 == "READY" else "",
                      "changed": True, "connections": connections(i)} for i in range(2)}
    return json.dumps({"nodes": nodes, "timestamp": "5/4/2026 06:08:10.580", "status": status})


def scripted(node, *answers):
    actions = []
    for number, text in enumerate(answers):
        node.write(f"/fake/nvidia-imex-ctl/answer{number}", text + "\n")
        actions.append(f"file 0 /fake/nvidia-imex-ctl/answer{number}")
    node.script("nvidia-imex-ctl", "Nj", *actions)


@pytest.fixture
def waiting(make_node):
    return make_node(config=None)


def test_a_domain_that_is_up_and_stays_up_ends_the_wait(waiting):
    run = waiting.prolog("--settle=1")
    assert_done(waiting, run)
    assert any("-j" in " ".join(call["argv"]) for call in waiting.calls("nvidia-imex-ctl"))
    assert run.seconds > 1


def test_off_asks_for_no_domain(waiting):
    assert_done(waiting, waiting.prolog("--wait-domain=off"))
    assert not any("-N" in " ".join(call["argv"]) for call in waiting.calls("nvidia-imex-ctl"))


def test_a_domain_that_comes_up_later_is_waited_for(waiting):
    scripted(waiting, answer("DEGRADED", "UNAVAILABLE", "NEVER_CONNECTED"), answer("DEGRADED", "READY", "NEVER_CONNECTED"), answer())
    assert_done(waiting, waiting.prolog("--settle=1"))


@pytest.mark.parametrize("text", [answer("DEGRADED", "UNAVAILABLE", "NEVER_CONNECTED"), answer("UP", "READY", "NEVER_CONNECTED"), answer("UP", "READY", "SOMETHING_NEW"),
                                  answer("UP", "INITIALIZING"), "{}", "no json at all", json.dumps({"nodes": {}, "status": "UP"})])
def test_a_domain_that_is_never_up_is_a_warning_that_names_the_peers(waiting, text):
    scripted(waiting, text)
    waiting.script("nvidia-imex-ctl", "N", "exit 1")
    run = waiting.prolog("--domain-timeout=2", "--settle=1")
    assert run.code == 0 and (run.out, run.err) == ("", ""), run
    warnings = " ".join(text for _, _, text in waiting.log("WARN"))
    assert "10.20.0.2" in warnings or "ultra-2" in warnings or "peer" in warnings.lower() or "domain" in warnings.lower(), waiting.log_text()
    assert waiting.list() == b"10.20.0.1\n10.20.0.2\n" and waiting.unit_state()["ActiveState"] == "active"


@pytest.mark.parametrize("index,code", [(0, 6), (1, 0)])
def test_where_the_domain_is_required_the_blame_rule_decides_who_fails(make_node, index, code):
    node = make_node(config=None, index=index)
    scripted(node, answer("DEGRADED", "UNAVAILABLE", "NEVER_CONNECTED"))
    run = node.prolog("--wait-domain=require", "--domain-timeout=2")
    assert run.code == code, run
    assert any("10.20.0." in text for _, _, text in node.log("ERROR")), node.log_text()


def test_a_control_tool_that_hangs_in_the_wait_does_not_hold_the_job(waiting):
    waiting.script("nvidia-imex-ctl", "Nj", "hang-hard")
    waiting.script("nvidia-imex-ctl", "N", "hang-hard")
    run = waiting.prolog("--domain-timeout=3")
    assert run.code == 0 and run.seconds < 15, run
    assert waiting.log("WARN")


def test_the_text_form_is_read_where_there_is_no_json(waiting):
    waiting.script("nvidia-imex-ctl", "Nj", "err 255 nvidia-imex-ctl: unrecognized option -j")
    assert_done(waiting, waiting.prolog("--settle=1"))


def test_a_short_start_of_the_clock_follows_the_limit_of_nohold(waiting):
    """With NoHold, srun gives up after MessageTimeout + BatchStartTimeout: the wait ends before, with a warning that names the setting."""
    waiting.set_slurm_conf(PrologFlags="Alloc,NoHold", MessageTimeout=4, BatchStartTimeout=3)
    scripted(waiting, answer("DEGRADED", "UNAVAILABLE", "NEVER_CONNECTED"))
    run = waiting.prolog()
    assert run.code == 0 and run.seconds < 7, run
    warnings = " ".join(text for _, _, text in waiting.log("WARN"))
    assert "MessageTimeout" in warnings or "BatchStartTimeout" in warnings, waiting.log_text()


def test_peers_that_keep_an_old_list_never_cost_the_time_to_start(waiting):
    """One node whose prolog never comes must not drain all the others, however short Slurm's limit is."""
    waiting.set_slurm_conf(PrologTimeout=15)
    scripted(waiting, answer().replace("10.20.0.2", "10.20.0.9"))
    run = waiting.prolog()
    assert run.code == 0 and (run.out, run.err) == ("", ""), run
    warnings = " ".join(text for _, _, text in waiting.log("WARN"))
    assert "another list is still held by ultra-2 (10.20.0.2)" in warnings, waiting.log_text()
    assert waiting.list() == b"10.20.0.1\n10.20.0.2\n" and waiting.unit_state()["ActiveState"] == "active"


def test_a_cure_that_the_time_left_would_cut_short_is_not_begun(waiting):
    """A daemon that is READY is not given up: a warning must not become a drained node."""
    waiting.set_slurm_conf(PrologTimeout=15)
    waiting.script("systemctl", "stop", "sleep 2500 ok")
    # The first answer is the peer's own view, before our start; the next two are ours: it is gone, it is back and blocked.
    scripted(waiting, answer(), answer("DEGRADED", "UNAVAILABLE", "NODE_MAP_MISMATCH"), answer("DEGRADED", "READY", "NODE_MAP_MISMATCH"))
    run = waiting.prolog()
    assert run.code == 0 and (run.out, run.err) == ("", ""), run
    warnings = " ".join(text for _, _, text in waiting.log("WARN"))
    assert "not restarting our own daemon to lift the block" in warnings and "PrologTimeout" in warnings, waiting.log_text()
    assert waiting.list() == b"10.20.0.1\n10.20.0.2\n" and waiting.unit_state()["ActiveState"] == "active"


def test_a_job_that_goes_on_without_its_domain_keeps_this_nodes_daemon(waiting):
    scripted(waiting, answer("DEGRADED", "UNAVAILABLE", "NEVER_CONNECTED"))
    run = waiting.prolog("--wait-domain=require", "--on-failure=continue", "--domain-timeout=2")
    assert run.code == 0, run
    assert any("is not up on this node (waited 2" in text for _, _, text in waiting.log("ERROR")), waiting.log_text()
    assert waiting.list() == b"10.20.0.1\n10.20.0.2\n" and waiting.unit_state()["ActiveState"] == "active"


def test_peers_of_another_version_are_told_with_the_cure_for_that(waiting):
    scripted(waiting, answer("DEGRADED", "UNAVAILABLE", "VERSION_MISMATCH"))
    run = waiting.prolog("--domain-timeout=2")
    assert run.code == 0, run
    warnings = " ".join(text for _, _, text in waiting.log("WARN"))
    assert "ultra-2 (10.20.0.2) !V!" in warnings and "install one version on all of them" in warnings, waiting.log_text()
