"""After the job: the domain that its prolog made is gone, on every node."""


def active(node):
    return node.run("systemctl", "is-active", "nvidia-imex").out.strip()


def test_the_epilog_stops_the_domain_and_leaves_a_list_without_addresses(cluster):
    seen = cluster.look("-N3", "--exclusive", "-w", "node[1-3]")
    assert seen.rc == 0, seen.err
    cluster.wait_idle()
    for name in seen.nodes:
        node = cluster[name]
        assert seen.lists[name] == cluster.expected_list(name, seen.nodes)
        assert active(node) == "inactive"
        assert all(line.startswith("#") for line in node.node_list().splitlines())
        assert node.node_list().endswith("\n")
    assert cluster.drained() == {}


def test_the_epilog_of_a_plain_job_leaves_a_daemon_that_was_there(cluster):
    node = cluster["node1"]
    node.run("systemctl", "start", "nvidia-imex").check()
    seen = cluster.look("-N1", "-w", "node1")
    assert seen.rc == 0, seen.err
    cluster.wait_idle()
    assert active(node) == "active"
    assert node.node_list() == cluster.untouched
    node.run("systemctl", "stop", "nvidia-imex").check()


def test_jobs_back_to_back_on_the_same_nodes_each_get_a_start_of_their_own(cluster):
    for _ in range(3):
        seen = cluster.look("-N3", "--exclusive", "-w", "node[1-3]")
        assert seen.rc == 0, seen.err
    expected = cluster.expected_list("node1", seen.nodes)
    for name in seen.nodes:
        assert cluster[name].starts() == [expected] * 3
    assert cluster.drained() == {}
