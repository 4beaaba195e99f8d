"""The whole domain on real Slurm: nodes of one UltraServer with tests/lab's make-believe nvidia-imex, which connects to its
peers over the nodes' own network. What a job sees when its first task starts."""
import calendar
import importlib.util
import json
import signal
import time

import pytest

import rig

NAMES = ["node1", "node2", "node3"]
JOB = ("-N3", "--exclusive", "-w", "node[1-3]")
# Each task keeps the status that its own node's daemon tells, before it does anything else.
TASK = 'nvidia-imex-ctl -N -j >"/rig/out/$SLURM_JOB_ID.$SLURM_RESTART_COUNT.$SLURMD_NODENAME.json"'


def imexd():
    spec = importlib.util.spec_from_file_location("lab_tools", rig.PROJECT / "tests/lab/tools.py")
    tools = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tools)
    return tools.imexd()


@pytest.fixture(scope="session")
def daemon():
    return imexd()


@pytest.fixture
def make(clusters, daemon):
    def make_cluster(flags="Alloc,DeferBatch", **more):
        return clusters.get(nodes=3, blocks={"b1": "node[1-3]"}, conf=f"PrologFlags={flags}",
                            programs={"nvidia-imex": daemon, "nvidia-imex-ctl": daemon}, **more)
    return make_cluster


def status(cluster, job, node, restart=""):
    path = cluster.shared / f"out/{job}.{restart}.{node}.json"
    text = path.read_text() if path.exists() else ""
    return json.loads(text) if text.strip() else {}


def missing(told, nodes):
    """Pairs of `nodes` that are not connected in a status, both directions; every pair where there is none."""
    known = {n["host"]: n for n in told.get("nodes", {}).values()}
    return [(a.name, b.name) for a in nodes for b in nodes if a is not b
            and {"CONNECTED"} != {c["status"] for c in known.get(a.address, {}).get("connections", {}).values()
                                  if c["host"] == b.address}]


def connected(cluster, job, names, restart=""):
    """Every pair of the job's nodes was connected, as each of these nodes saw it when its task began."""
    nodes = [cluster[n] for n in names]
    return all(missing(status(cluster, job, name, restart), nodes) == [] for name in names)


def run(cluster, names):
    done = cluster.srun(f"-N{len(names)}", "--exclusive", "-w", ",".join(names), "sh", "-c", f"{TASK}; echo $SLURM_JOB_ID")
    assert done.rc == 0, done.err
    return done.out.split()[0]


def active(node):
    return node.run("systemctl", "is-active", "nvidia-imex").out.strip()


def ended(cluster, names=NAMES):
    """No daemon runs and no list has an address in it."""
    return all(active(cluster[n]) == "inactive" and all(line.startswith("#") for line in cluster[n].node_list().splitlines())
               for n in names)


def test_jobs_back_to_back_on_overlapping_nodes_start_with_every_pair_connected(make):
    cluster = make("Alloc")
    for names in (NAMES, NAMES, ["node1", "node2"], ["node2", "node3"], NAMES):
        job = run(cluster, names)
        assert connected(cluster, job, names), [status(cluster, job, n) for n in names]
    cluster.wait_idle()
    assert ended(cluster)
    assert cluster.drained() == {}


def test_a_job_over_stale_daemons_of_other_jobs_starts_with_every_pair_connected(make):
    cluster = make("Alloc")
    lists = {"node1": "10.88.0.1\n10.88.0.2\n", "node2": "10.88.0.2\n10.88.0.3\n10.88.0.1\n", "node3": "10.88.0.3\n"}
    for name, text in lists.items():
        cluster[name].path(rig.NODE_LIST).write_text(text)
        cluster[name].run("systemctl", "start", "nvidia-imex").check()
    job = run(cluster, NAMES)
    assert connected(cluster, job, NAMES), [status(cluster, job, n) for n in NAMES]
    assert cluster.drained() == {}


def test_a_requeued_job_gets_its_domain_anew(make):
    cluster = make()
    job = cluster.sbatch(*JOB, script=f"srun sh -c '{TASK}'\n[ -n \"$SLURM_RESTART_COUNT\" ] || exec sleep 300\n")
    cluster.wait_process(cluster["node1"], "sleep 300")
    assert connected(cluster, job, NAMES)
    cluster.scontrol("requeue", str(job)).check()
    cluster.wait_job(job, "PENDING")
    cluster.wait_idle()
    assert ended(cluster)
    # slurmd compares whole seconds: a run that begins in the second in which the last one was killed is taken for that
    # one ("Job 1 already killed, do not launch batch job"), which is Slurm's own race and none of ours.
    time.sleep(3)
    cluster.again(job)
    assert connected(cluster, job, NAMES, restart="1"), [status(cluster, job, n, "1") for n in NAMES]
    expected = cluster.expected_list("node1", NAMES)
    for name in NAMES:
        assert cluster[name].starts() == [expected] * 2
    assert cluster.drained() == {}


def test_a_job_cancelled_during_the_domain_wait_leaves_no_domain_and_no_drain(make):
    cluster = make()
    for name in NAMES:
        rig.write(cluster[name].path("/etc/gpu-prolog.toml"), '[imex-prolog]\ndomain-timeout = "8s"\nready-timeout = "8s"\n')
    # WAITING_FOR_PEERS is about peers, so this node goes on to the domain wait as well.
    cluster["node3"].lab(slow_start=4)
    job = cluster.sbatch(*JOB, wrap="exec sleep 300")
    rig.until("the domain wait on node1", lambda: "local daemon is READY" in cluster["node1"].log(), 30)
    cluster.ctl.run("scancel", str(job)).check()
    cluster.wait_idle(limit=60)
    assert ended(cluster)
    assert cluster.drained() == {}
    cluster["node3"].unlab()
    job = run(cluster, NAMES)
    assert connected(cluster, job, NAMES)


def test_after_a_node_reboots_during_a_job_the_next_job_has_its_domain(make):
    cluster = make()
    first = cluster.sbatch("--no-requeue", *JOB, wrap="exec sleep 300")
    cluster.wait_process(cluster["node1"], "sleep 300")
    stale = cluster.expected_list("node1", NAMES)
    cluster.reboot(cluster["node2"])
    # The list is still on its disk, and an enabled unit starts with it at boot.
    assert cluster["node2"].node_list() == stale
    cluster["node2"].run("systemctl", "start", "nvidia-imex").check()
    cluster.ctl.run("scancel", str(first))
    rig.until(lambda: f"every node to be idle: {cluster.states()}", lambda: cluster.drained() or all(s == "idle" for s, _ in cluster.states().values()), 60)
    assert cluster.drained() == {}
    job = run(cluster, NAMES)
    assert connected(cluster, job, NAMES), [status(cluster, job, n) for n in NAMES]
    channel = cluster["node2"].run("stat", "-c", "%t:%T %a", "/dev/nvidia-caps-imex-channels/channel0")
    assert channel.out == "ea:0 666\n"


@pytest.mark.parametrize("flags", ["Alloc,DeferBatch", "Alloc,NoHold"])
def test_a_batch_script_starts_when_every_node_is_connected(make, flags):
    cluster = make(flags)
    cluster["node3"].lab(slow_start=3)
    job = cluster.sbatch(*JOB, script=TASK)
    cluster.wait_job(job, "COMPLETED")
    assert missing(status(cluster, job, "node1"), [cluster[n] for n in NAMES]) == []
    assert cluster.drained() == {}


@pytest.mark.parametrize("flags, batch_waits", [("Alloc,DeferBatch", True), ("Alloc,NoHold", False)])
def test_without_the_domain_wait_only_deferbatch_holds_a_batch_script_for_the_other_nodes_prologs(make, flags, batch_waits):
    # What the wait is for: Slurm itself holds the script for its own node's prolog only, or with DeferBatch for all of them.
    cluster = make(flags)
    for name in NAMES:
        rig.write(cluster[name].path("/etc/gpu-prolog.toml"), '[imex-prolog]\nwait-domain = "off"\n')
    cluster["node3"].lab(slow_start=3)
    job = cluster.sbatch(*JOB, script=f'date +%s.%N >"/rig/out/$SLURM_JOB_ID.began"; {TASK}')
    cluster.wait_job(job, "COMPLETED")
    rig.until("node3's prolog to end", lambda: "PROLOG End" in cluster["node3"].log(), 30)
    began = float((cluster.shared / f"out/{job}.began").read_text())
    last = next(line for line in cluster["node3"].log().splitlines() if "PROLOG End" in line).split()[0]
    prolog_end = calendar.timegm(time.strptime(last[:19], "%Y-%m-%dT%H:%M:%S")) + float(last[19:])
    assert (began > prolog_end) == batch_waits
    if not batch_waits:
        pairs = missing(status(cluster, job, "node1"), [cluster[n] for n in NAMES])
        assert [pair for pair in pairs if "node3" in pair] != []
    assert cluster.drained() == {}


def test_validate_imex_srun_sees_every_node_of_a_connected_job(make):
    cluster = make()
    job = cluster.sbatch(*JOB, script="/rig/bin/gpu-prolog validate imex --srun; echo \"exit $?\"\n"
                                      "/rig/bin/gpu-prolog validate imex --srun --json >/rig/out/$SLURM_JOB_ID.validate.json\n"
                                      "exit 0\n")
    cluster.wait_job(job, "COMPLETED")
    text = cluster.output(job)
    assert "exit 0\n" in text, text
    assert "every pair connected" in text
    told = json.loads((cluster.shared / f"out/{job}.validate.json").read_text())
    assert told["exit_code"] == 0
    results = {check["check"]: check["result"] for check in told["checks"]}
    assert results["answers"] == results["domain"] == results["channel"] == results["node lists"] == "ok", results
    assert "fail" not in results.values(), results


def test_validate_imex_srun_names_the_node_whose_daemon_is_gone(make):
    cluster = make()
    job = cluster.sbatch(*JOB, script="until [ -e /rig/out/go ]; do sleep 0.1; done\n"
                                      "/rig/bin/gpu-prolog validate imex --srun; echo \"exit $?\"\n")
    cluster.wait_process(cluster["node1"], "sleep 0.1")
    pid = cluster["node3"].run("systemctl", "show", "--value", "-p", "MainPID", "nvidia-imex").out.strip()
    cluster["node3"].run("/bin/sh", "-c", f"kill -9 {pid}").check()
    (cluster.shared / "out/go").touch()
    try:
        cluster.wait_job(job, "COMPLETED")
    finally:
        (cluster.shared / "out/go").unlink()
    text = cluster.output(job)
    assert "exit 1\n" in text, text
    assert text.startswith("first cause: imex, unit: on node3: "), text


def test_validate_imex_srun_tells_a_node_that_cannot_be_reached_as_a_finding(make):
    cluster = make()
    job = cluster.sbatch(*JOB, script="until [ -e /rig/out/go ]; do sleep 0.1; done\n"
                                      "/rig/bin/gpu-prolog validate imex --srun; echo \"exit $?\"\n")
    cluster.wait_process(cluster["node1"], "sleep 0.1")
    cluster["node3"].ask(do="kill", name="slurmd", signal=int(signal.SIGSTOP))
    (cluster.shared / "out/go").touch()
    try:
        rig.until("validate to end", lambda: "exit " in cluster.output(job), 150)
    finally:
        cluster["node3"].ask(do="kill", name="slurmd", signal=int(signal.SIGCONT))
        (cluster.shared / "out/go").unlink()
    cluster.wait_job(job, "COMPLETED")
    text = cluster.output(job)
    assert "exit 1\n" in text, text
    assert "node3" in text, text


def test_validate_cluster_reads_what_this_slurm_was_told(make):
    cluster = make()
    said = cluster["node1"].run("/rig/bin/gpu-prolog", "validate", "cluster", "--json")
    told = json.loads(said.out)
    results = {check["check"]: (check["result"], check["found"]) for check in told["checks"]}
    assert results["prolog flags"] == ("ok", "PrologFlags=Alloc,DeferBatch")
    assert results["prolog path"] == ("ok", "Prolog=/rig/bin/gpu-prolog")
    assert results["epilog path"] == ("ok", "Epilog=/rig/bin/gpu-prolog")
    # PrologEpilogTimeout=60 here; 24.11 is older than the service's first version with IMEX.
    assert results["prolog time"][0] == "fail"
    assert results["slurm version"][0] == ("fail" if cluster.version < (25, 5) else "ok")
    assert said.rc == told["exit_code"] == 1
