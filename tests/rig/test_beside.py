"""Other jobs on a node are left alone, whatever Slurm says of the new one."""


def daemon(node):
    return node.run("systemctl", "show", "--value", "-p", "MainPID", "nvidia-imex").out.strip()


def test_a_plain_job_beside_another_leaves_the_running_daemon_alone(cluster):
    node = cluster["node1"]
    node.run("systemctl", "start", "nvidia-imex").check()
    pid = daemon(node)
    assert int(pid) > 0
    first = cluster.sbatch("-N1", "-n1", "-w", "node1", wrap="sleep 60")
    cluster.wait_job(first, "RUNNING")
    second = cluster.look("-N1", "-n1", "-w", "node1")
    assert second.rc == 0, second.err
    assert second.nodes == ["node1"]
    assert cluster.job(first)["JobState"] == "RUNNING"
    assert daemon(node) == pid
    assert node.node_list() == cluster.untouched
    node.run("systemctl", "stop", "nvidia-imex").check()


def test_an_exclusive_job_over_a_suspended_one_leaves_its_domain_alone(cluster):
    node = cluster["node1"]
    first = cluster.sbatch("-N1", "--exclusive", "-w", "node1", wrap="exec sleep 300")
    cluster.wait_process(node, "sleep 300")
    pid, listed = daemon(node), node.node_list()
    assert int(pid) > 0 and listed == cluster.expected_list("node1", ["node1"])
    cluster.scontrol("suspend", str(first)).check()
    cluster.wait_job(first, "SUSPENDED")
    second = cluster.look("-N1", "--exclusive", "-w", "node1")
    assert second.rc == 0, second.err
    assert daemon(node) == pid
    assert node.node_list() == second.lists["node1"] == listed
    assert f"{first}" in "".join(line for line in node.log().splitlines() if "[ERROR]" in line)
    assert cluster.drained() == {}


def test_a_run_by_hand_on_a_node_with_a_job_changes_nothing(cluster):
    node = cluster["node1"]
    job = cluster.sbatch("-N1", "-n1", "-w", "node1", wrap="exec sleep 300")
    cluster.wait_process(node, "sleep 300")
    by_hand = node.run("/rig/bin/gpu-prolog", "imex-prolog", limit=60,
                       env={"SLURM_JOB_ID": "999", "SLURM_JOB_NODELIST": "node1", "SLURMD_NODENAME": "node1",
                            "SLURM_JOB_OVERSUBSCRIBE": "NO"})
    assert by_hand.rc == 3, by_hand
    assert node.starts() == []
    assert node.node_list() == cluster.untouched
