"""Small limits, flooded files and tools that leave something behind: a run stays within its time and memory, and says what is in its way."""

import pytest

from expect import assert_done, assert_failed, assert_skipped, assert_untouched

HEADER = "ClusterName=ultra\nSlurmctldHost=ctl\nMessageTimeout=100\n"


def limited(*limits):
    """Runs the program with limits of its process."""
    return {"tracer": ["/usr/bin/prlimit", *limits]}


@pytest.mark.parametrize("count", [2, 18])
def test_a_stack_of_64_kib_is_enough_for_a_whole_run(make_node, count):
    node = make_node(names=[f"ultra-{i}" for i in range(1, count + 1)], config=None)
    assert_done(node, node.run(**limited("--stack=65536:65536")))
    assert node.run(env={"SLURM_SCRIPT_CONTEXT": "epilog_slurmd"}, **limited("--stack=65536:65536")).code == 0
    run = node.run("validate", "imex", **limited("--stack=65536:65536"))
    assert run.code in (0, 1) and run.signal == 0, run


@pytest.mark.parametrize("count", [9, 10])
def test_too_few_descriptors_are_told_as_that_and_not_as_a_trouble_of_systemd(node, count):
    run = node.run(**limited(f"--nofile={count}:{count}"))
    assert run.code != 0 and "too many open files" in run.err and "raise the limit of open files" in run.err, run
    assert "whether systemd answers" not in run.err, run
    assert_untouched(node)


# -- flooded files

@pytest.mark.parametrize("line", ["A=b\nInclude nosuch\n", "Include nosuch-%c.conf\n", "PartitionName=p Nodes=ALL\n", "a=b \\\n"],
                         ids=["settings and includes", "includes", "partitions", "one long line"])
def test_a_slurm_conf_of_15_mb_is_told_and_costs_neither_time_nor_memory(node, line):
    node.write("/etc/slurm/slurm.conf", HEADER + line * (15_000_000 // len(line)))
    run = node.prolog()
    assert_done(node, run)
    assert run.seconds < 20 and run.usage["maxrss_kb"] <= 10_000, (run.seconds, run.usage)
    assert [text for _, _, text in node.log("WARN") if "slurm.conf: it has, with the files that it includes, more than 4 MiB" in text], node.log_text()


def test_a_slurm_conf_of_10000_nodes_and_300_partitions_is_read_within_8_mb(node):
    nodes = "".join(f"NodeName=node-{i} CPUs=96 Sockets=2 Gres=gpu:4 State=CLOUD\n" for i in range(10_000))
    partitions = "".join(f"PartitionName=p{i} Nodes=ALL State=UP\n" for i in range(300))
    node.write("/etc/slurm/slurm.conf", HEADER + nodes + partitions + "SwitchType=switch/nvidia_imex\n")
    run = node.prolog()
    assert_done(node, run, channel=False)
    assert not node.exists("/dev/nvidia-caps-imex-channels/channel0"), "the last line of slurm.conf was not read"
    assert run.usage["maxrss_kb"] <= 8192 and node.log("WARN") == [], (run.usage, node.log_text())


@pytest.mark.parametrize("text,why", [("[" * 450_000 + "]" * 450_000, "it is larger than 65536 bytes"), ("[" * 30_000 + "]" * 30_000, "it is nested deeper than any state"),
                                      ('{"job_id": "1", "unit": "nvidia-imex", "nodes_config": "/x", "phase": "started", "main_pid": 1.5}', "main_pid is no number that it can be"),
                                      ('{"job_id": "1", "unit": "nvidia-imex", "nodes_config": "/x", "phase": "started", "main_pid": -1}', "main_pid is no number that it can be")],
                         ids=["900 KB", "nested", "half a pid", "every pid"])
def test_a_damaged_state_is_told_as_damaged_and_replaced(node, text, why):
    node.sh("mkdir -p -m 755 /run/gpu-prolog")
    node.write("/run/gpu-prolog/imex.json", text)
    run = node.prolog()
    assert_done(node, run)
    assert run.usage["maxrss_kb"] <= 8192, run.usage
    assert [words for _, _, words in node.log("WARN") if why in words], node.log_text()


# -- what tools leave behind

def test_a_tool_that_meets_its_limit_leaves_no_session_of_its_own_behind(node):
    node.write(node.scontrol, "#!/bin/sh\ncase $1 in getaddrs) /usr/bin/setsid /bin/sh -c 'echo $$ > /fake/rest; exec sleep 1000' & sleep 1000;; esac\nexit 1\n", 0o755)
    run = node.prolog("--deadline=8")
    assert run.code != 0, run
    pid = node.read("/fake/rest").strip()
    assert pid and node.sh(f"test -e /proc/{pid}", check=False).returncode == 1, "the tool's grandchild lives on"


# -- words that name nothing

@pytest.mark.parametrize("text,words", [("\ufeff[imex-prolog]\n", ("line 1", "byte order mark", "sed -i")), ('[imex-prolog]\nunit = ""\n', ("line 2", "no name of a systemd unit")),
                                        ('[imex-prolog]\nunit = "*"\n', ("line 2", "no name of a systemd unit")),
                                        ('[imex-prolog]\nunit = "nvidia imex"\n', ("line 2", "no name of a systemd unit")),
                                        ('[imex-prolog]\ninstance-types = [""]\n', ("line 2", "no beginning of an instance type"))],
                         ids=["byte order mark", "empty unit", "pattern", "blank", "every type"])
def test_a_config_file_that_cannot_be_meant_fails_ultraserver_nodes_only(make_node, text, words):
    node = make_node(config=text)
    assert_failed(node, node.prolog(), 2, *words)
    other = make_node(instance_type="p5.48xlarge", dmi="p5.48xlarge", config=text)
    assert_skipped(other, other.prolog(), "p5.48xlarge")


def test_a_folder_in_the_lists_place_is_named_once_with_the_cure_that_fits(node):
    assert_done(node, node.prolog())
    node.sh("rm /etc/nvidia-imex/nodes_config.cfg; mkdir /etc/nvidia-imex/nodes_config.cfg")
    node.run(env={"SLURM_SCRIPT_CONTEXT": "epilog_slurmd"})
    told = [text for level, _, text in node.log() if level != "INFO" and "cannot write the IMEX node list" in text]
    assert told and "a folder lies in its place: remove it, or correct IMEX_NODE_CONFIG_FILE" in told[0], node.log_text()
    assert told[0].count("/etc/nvidia-imex/nodes_config.cfg") == 1, told
