"""gpu-prolog as Prolog= and Epilog= on make-believe UltraServers: the starts that have to come out one way, one by one."""

import time

import pytest

import reliability
import scenarios
from lab import NODE_LIST, Lab, Traces, connected

SCALE = 0.2


@pytest.fixture(scope="module")
def ours():
    program = reliability.program()
    assert program.exists(), f"{program} is not there: scripts/build makes it"
    return scenarios.ours(program)


@pytest.fixture(scope="module")
def rack(ours):
    with Lab(blocks=(6,), scale=SCALE, programs=ours[1], options=scenarios.options(SCALE, 30)) as one:
        yield one


@pytest.fixture
def six(rack):
    rack.idle()
    for node in rack.nodes:
        node.path("/var/log/nvidia-imex-prolog.log").unlink(missing_ok=True)
    return rack


_jobs = iter(range(100, 1000))


def start(lab, ours, nodes, skews):
    return lab.start_job(ours[0], next(_jobs), nodes, skews)


def told(run):
    return f"{run.node.name}: exit {run.code}\n{run.output()}{run.node.text('/var/log/nvidia-imex-prolog.log')[-4000:]}"


def assert_connected(job):
    measure = job.measure()
    assert job.codes() == [0] * len(job.runs), "\n".join(told(run) for run in job.runs if run.code != 0)
    assert measure.connected_at_end, "\n".join(told(run) for run in job.runs)
    assert measure.connected_later and measure.restarts_after == 0
    return measure


def test_a_fresh_start_is_connected_when_the_last_prolog_returns_with_one_start_a_node(six, ours):
    measure = assert_connected(start(six, ours, six.nodes, [0, 10, 3, 0, 7, 1]))
    assert measure.restarts == 6


def test_no_prolog_returns_before_the_last_node_is_connected(six, ours):
    job = start(six, ours, six.nodes, [0, 0, 0, 0, 0, 15])
    assert_connected(job)
    first_end = min(run.end for run in job.runs)
    assert first_end > job.last_begin, "a prolog returned before the last one had begun"
    assert connected(Traces(six.nodes).at(first_end), six.nodes)


def test_stale_daemons_whose_prologs_come_one_after_another_are_cured(six, ours):
    # Each peer of the first node holds an old list when the first node meets it, and comes back with the job's list one after another:
    # a restart for the first of them meets the old lists of the others again.
    six.leave_daemons([list(reversed(six.nodes))])
    assert_connected(start(six, ours, six.nodes, [0, 4, 8, 12, 16, 20]))


def test_the_same_list_twice_without_an_epilog_does_not_count_the_old_daemon_of_a_peer_that_is_a_little_late(six, ours):
    # The old daemon of a peer has the same list and looks connected; it goes within the time that UP has to hold (settle, 3 s).
    six.leave_daemons([six.nodes])
    job = start(six, ours, six.nodes, [0, 0, 0, 0, 0, 2.5])
    assert_connected(job)
    assert connected(Traces(six.nodes).at(min(run.end for run in job.runs)), six.nodes)


def test_jobs_back_to_back_on_overlapping_nodes_are_connected_with_the_epilog_between(six, ours):
    subject = ours[0]
    a = start(six, ours, six.nodes[:4], [0] * 4)
    assert_connected(a)
    six.end_job(subject, a.job, six.nodes[2:4])   # the other two are late with their epilog
    b = start(six, ours, six.nodes[2:], [0, 3, 0, 2])
    assert_connected(b)
    six.end_job(subject, a.job, six.nodes[:2])    # it comes now, and must not touch job b
    assert connected(Traces(b.nodes).at(time.monotonic()), b.nodes)


def test_the_epilog_leaves_no_daemon_and_no_node_in_the_list(six, ours):
    job = start(six, ours, six.nodes, [0] * 6)
    assert_connected(job)
    runs = six.end_job(ours[0], job.job, six.nodes)
    assert [run.code for run in runs] == [0] * 6
    for node in six.nodes:
        assert node.unit[0] == "inactive" and node.node_list() == [] and node.text(NODE_LIST).startswith("#")


@pytest.mark.parametrize("fault", ["start_fail", "never_ready", "no channel"])
def test_a_node_that_cannot_start_its_daemon_is_the_only_one_that_fails(six, ours, fault):
    culprit = six.nodes[3]
    options = six.nodes[0].text("/etc/gpu-prolog.toml")
    table = culprit.path("/proc/devices")
    devices = table.read_text()
    if fault == "no channel":
        table.write_text("".join(line for line in devices.splitlines(True) if "nvidia-caps-imex-channels" not in line))
    else:
        culprit.set_faults(**{fault: 1})
    try:
        for node in six.nodes:
            node.path("/etc/gpu-prolog.toml").write_text(options.replace('domain-timeout = "30.000s"', 'domain-timeout = "3s"') + 'ready-timeout = "2s"\n')
        job = start(six, ours, six.nodes, [0, 2, 0, 1, 0, 0])
    finally:
        table.write_text(devices)
        for node in six.nodes:
            node.path("/etc/gpu-prolog.toml").write_text(options)
    assert job.failed() == [culprit.name], "\n".join(told(run) for run in job.runs if run.code != 0)
    assert culprit.unit[0] in ("inactive", "failed") and culprit.node_list() == [], "a failed run leaves no domain"
    said = culprit.text("/run/lab/" + job.runs[3].id + ".out")
    assert len(said.splitlines()) == 1, said
    for run in job.runs:
        if run.node is not culprit:
            assert culprit.name in run.node.text("/var/log/nvidia-imex-prolog.log"), "the log names who is missing"


def test_a_fault_that_every_node_sees_fails_on_the_first_node_only(six, ours):
    kept = six.nodes[0].text("/etc/slurm/lab-nodes")
    for node in six.nodes:
        node.path("/etc/slurm/lab-nodes").write_text(kept.replace(six.nodes[4].address, "0.0.0.0"))
    try:
        job = start(six, ours, six.nodes, [0, 2, 0, 1, 0, 0])
    finally:
        for node in six.nodes:
            node.path("/etc/slurm/lab-nodes").write_text(kept)
    assert job.codes() == [4, 0, 0, 0, 0, 0], "\n".join(told(run) for run in job.runs)
    for node in six.nodes:
        log = node.text("/var/log/nvidia-imex-prolog.log")
        assert "[ERROR]" in log and six.nodes[4].name in log


def test_a_daemon_that_hangs_at_its_stop_is_killed_and_the_job_starts_all_the_same(six, ours):
    options = six.nodes[0].text("/etc/gpu-prolog.toml")
    hung = six.nodes[2]
    hung.set_faults(stop_hang=1)
    six.leave_daemons([six.nodes])
    hung.set_faults()
    try:
        hung.path("/etc/gpu-prolog.toml").write_text(options + 'stop-timeout = "1s"\n')
        job = start(six, ours, six.nodes, [0] * 6)
    finally:
        hung.path("/etc/gpu-prolog.toml").write_text(options)
    assert_connected(job)
    assert "was killed" in hung.text("/var/log/nvidia-imex-prolog.log")


def test_a_peer_of_another_version_is_named_and_drains_nobody(six, ours):
    culprit = six.nodes[1]
    options = six.nodes[0].text("/etc/gpu-prolog.toml")
    culprit.set_faults(version="580.95", driver_version="580.95")
    try:
        for node in six.nodes:
            node.path("/etc/gpu-prolog.toml").write_text(options.replace('domain-timeout = "30.000s"', 'domain-timeout = "3s"'))
        job = start(six, ours, six.nodes, [0] * 6)
    finally:
        for node in six.nodes:
            node.path("/etc/gpu-prolog.toml").write_text(options)
    assert job.codes() == [0] * 6
    for node in six.nodes[:1] + six.nodes[2:]:
        warnings = [line for line in node.text("/var/log/nvidia-imex-prolog.log").splitlines() if "[WARN]" in line]
        assert any(culprit.name in line for line in warnings), node.name


def test_a_node_outside_of_the_job_keeps_its_daemon(six, ours):
    six.leave_daemons([six.nodes[4:]])
    before = Traces(six.nodes).at(time.monotonic())
    assert_connected(start(six, ours, six.nodes[:4], [0, 1, 2, 3]))
    after = Traces(six.nodes).at(time.monotonic())
    for node in six.nodes[4:]:
        assert after[node.name]["instance"] == before[node.name]["instance"]


def test_a_job_over_two_ultraservers_makes_a_domain_in_each(ours):
    with Lab(blocks=(4, 4), scale=SCALE, programs=ours[1], options=scenarios.options(SCALE, 30)) as two:
        job = start(two, ours, two.nodes, [0, 3, 6, 0, 9, 0, 2, 1])
        assert_connected(job)
        assert two.nodes[0].node_list() == [n.address for n in two.nodes[:4]]
        assert two.nodes[7].node_list() == [n.address for n in two.nodes[4:]]
