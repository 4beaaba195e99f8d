"""validate cluster: every setting of Slurm that would make a prolog or epilog fail, be missing or come too late."""

import json

import pytest

import expect

RIGHT = {"Epilog": "/opt/gpu-prolog/bin/gpu-prolog", "PrologFlags": "Alloc,DeferBatch", "SchedulerParameters": "nohold_on_prolog_fail"}


@pytest.fixture
def cluster(node):
    """A node of a cluster that is set up right; its scontrol knows --version and show config."""
    version(node, "25.11.7")
    node.set_slurm_conf(**RIGHT)
    return node


def version(node, text):
    node.write(node.scontrol, '#!/bin/sh\ncase "$*" in --version) echo slurm ' + text + ';; "show config") cat /fake/scontrol/config;; *) exit 1;; esac\n', 0o755)


def findings(node, code):
    return expect.findings(node, "cluster", code)


def assert_finds(node, check, result, found, cure=""):
    expect.assert_finds(node, "cluster", check, result, found, cure)


def test_a_cluster_that_is_set_up_right_has_no_finding(cluster):
    told = findings(cluster, 0)
    assert {one["result"] for one in told.values()} == {"ok"}, told
    assert told["slurm version"]["found"] == "25.11.7" and told["prolog flags"]["found"] == "PrologFlags=Alloc,DeferBatch"
    assert "lines for slurm.conf" not in cluster.run("validate", "cluster").out


def test_looking_changes_nothing(cluster):
    before = cluster.tree()
    cluster.run("validate", "cluster")
    assert cluster.tree() == before and cluster.verbs() == []


# -- which program

def test_a_cluster_without_prolog_or_epilog_is_told_the_lines(cluster):
    cluster.write("/etc/slurm/slurm.conf", "ClusterName=ultra\nSlurmctldHost=ctl\n")
    told = findings(cluster, 1)
    assert told["prolog"]["found"] == "no Prolog is set: nothing makes IMEX domains"
    assert told["epilog"]["found"] == "no Epilog is set: the daemon keeps the last job's domain, which blocks the next one (!M!)"
    assert "  Prolog=/opt/gpu-prolog/gpu-prolog\n  Epilog=/opt/gpu-prolog/gpu-prolog\n  PrologFlags=Alloc,DeferBatch\n" in cluster.run("validate", "cluster").out


@pytest.mark.parametrize("key", ["Prolog", "Epilog"])
def test_a_path_where_nothing_lies_is_a_finding(cluster, key):
    cluster.set_slurm_conf(**{key: "/opt/elsewhere/gpu-prolog"})
    one = findings(cluster, 1)[f"{key.lower()} path"]
    assert one["found"].startswith(f"{key}=/opt/elsewhere/gpu-prolog: ") and one["cure"].startswith("install the file on this node, root's, mode 0755"), one


def test_a_pattern_that_matches_no_file_is_a_finding(cluster):
    cluster.sh("mkdir -p /etc/slurm/prolog.d")
    cluster.set_slurm_conf(Prolog="/etc/slurm/prolog.d/*")
    assert_finds(cluster, "prolog path", "fail", "Prolog=/etc/slurm/prolog.d/* matches no file: every job would fail and drain its nodes", "on every node")


def test_a_relative_path_is_a_finding(cluster):
    cluster.set_slurm_conf(Prolog="gpu-prolog")
    assert_finds(cluster, "prolog path", "fail", "Prolog=gpu-prolog is no absolute path; in configless mode Slurm would send its text, which truncates a binary")


@pytest.mark.parametrize("command", ["chmod 0644 /opt/other/gpu-prolog", "chmod 0700 /opt/other/gpu-prolog", "chmod 0777 /opt/other/gpu-prolog",
                                     "chown 65534 /opt/other/gpu-prolog", "chmod 0777 /opt/other"])
def test_a_program_that_slurmd_cannot_run_or_others_can_change_is_a_finding(cluster, command):
    cluster.sh(f"mkdir /opt/other; cp -p {cluster.program} /opt/other/")
    cluster.set_slurm_conf(Prolog="/opt/other/gpu-prolog")
    assert findings(cluster, 0)["prolog path"]["result"] == "ok"
    cluster.sh(command)
    one = findings(cluster, 1)["prolog path"]
    assert one["result"] == "fail" and "/opt/other" in one["found"] and one["cure"], one


def test_a_program_of_another_architecture_is_a_finding(cluster):
    program = bytearray(cluster.read_bytes(cluster.program)[:4096])
    program[18:20] = (183).to_bytes(2, "little")
    cluster.write("/opt/other/gpu-prolog", bytes(program), 0o755)
    cluster.set_slurm_conf(Prolog="/opt/other/gpu-prolog")
    assert_finds(cluster, "prolog path", "fail", "Prolog=/opt/other/gpu-prolog is built for aarch64, this node is x86_64", "install the x86_64 build")


# -- settings

@pytest.mark.parametrize("text,mig,found", [
    ("24.11.5", False, "Slurm 24.11.5 is older than 25.05, which IMEX on AWS PCS needs"),
    ("22.05.9", False, "Slurm 22.05.9 is older than 25.05, which IMEX on AWS PCS needs"),
    ("25.05.3", True, "Slurm 25.05.3 is older than 25.11, which MIG on AWS PCS needs")])
def test_a_slurm_that_is_too_old_is_a_finding(cluster, text, mig, found):
    version(cluster, text)
    if mig:
        cluster.write("/var/lib/gpu-prolog/mig-setup.json", "{}")
    assert_finds(cluster, "slurm version", "fail", found, "update the cluster")


@pytest.mark.parametrize("flags,check,result,found", [
    ("", "prolog flags", "fail", "PrologFlags=(none) has no Alloc: a node without a step would never run the prolog"),
    ("DeferBatch", "prolog flags", "fail", "PrologFlags=DeferBatch has no Alloc: a node without a step would never run the prolog"),
    ("Alloc,NoHold,Contain", "prolog flags", "fail", "PrologFlags=Alloc,NoHold,Contain: NoHold does not go with Contain or X11, slurmctld refuses it"),
    ("Alloc,NoHold,X11", "prolog flags", "fail", "PrologFlags=Alloc,NoHold,X11: NoHold does not go with Contain or X11, slurmctld refuses it"),
    ("Alloc,NoHold,DeferBatch", "prolog flags", "warn",
     "PrologFlags=Alloc,NoHold,DeferBatch: with NoHold DeferBatch never acts, batch scripts start while other nodes are still in their prolog"),
    ("Alloc,RunInJob", "prolog in job", "warn",
     "PrologFlags=Alloc,RunInJob: RunInJob runs the prolog in the job's cgroup, whose device limits can keep it from making the channel")])
def test_prolog_flags_that_do_not_fit_are_told(cluster, flags, check, result, found):
    cluster.set_slurm_conf(PrologFlags=flags)
    assert_finds(cluster, check, result, found)


@pytest.mark.parametrize("key", ["PrologTimeout", "PrologEpilogTimeout"])
def test_a_limit_below_our_own_is_a_finding(cluster, key):
    cluster.set_slurm_conf(**{key: "60"})
    assert_finds(cluster, "prolog time", "fail", f"{key}=60 s is below the 150 s that imex-prolog may need; slurmd would cut it short (KILL, node drained)",
                 "PrologEpilogTimeout=155 or more")


@pytest.mark.parametrize("key,value,check,found,cure", [
    ("MessageTimeout", "10", "message timeout", "MessageTimeout=10 s: Slurm tells users \"Prolog hung\" after this time less 2 s", "MessageTimeout=240"),
    ("SchedulerParameters", "bf_continue", "hold on failure",
     "SchedulerParameters has no nohold_on_prolog_fail: a job whose prolog failed is requeued but held", "nohold_on_prolog_fail"),
    ("PreemptMode", "SUSPEND,GANG", "preemption",
     "PreemptMode=SUSPEND,GANG: a suspended exclusive job keeps its nodes while another one runs on them", "PreemptMode=REQUEUE or OFF"),
    ("PartitionName", "shared Nodes=ALL OverSubscribe=FORCE:4", "sharing",
     "partition shared has OverSubscribe=FORCE:4: no job is exclusive there, IMEX is never made", "OverSubscribe=EXCLUSIVE or NO")])
def test_a_setting_that_will_hurt_some_day_is_a_warning(cluster, key, value, check, found, cure):
    cluster.set_slurm_conf(**{key: value})
    assert_finds(cluster, check, "warn", found, cure)


@pytest.mark.parametrize("plugin,shown", [(None, "(none)"), ("topology/tree", "topology/tree")])
def test_a_cluster_that_does_not_know_its_ultraservers_is_a_warning(cluster, plugin, shown):
    cluster.remove("/etc/slurm/topology.yaml")
    if plugin:
        cluster.set_slurm_conf(TopologyPlugin=plugin)
    assert_finds(cluster, "topology", "warn", f"TopologyPlugin={shown}: Slurm does not know which nodes share an UltraServer", "TopologyPlugin=topology/block")


# -- where the settings come from

def test_without_a_slurm_conf_the_controllers_settings_are_judged(cluster):
    cluster.remove("/etc/slurm/slurm.conf")
    cluster.write("/fake/scontrol/config", "Configuration data as of 2026-05-04T06:00:00\nEpilog[0]               = /opt/gpu-prolog/bin/gpu-prolog\n"
                  "MessageTimeout          = 100 sec\nProlog[0]               = /opt/gpu-prolog/bin/gpu-prolog\nPrologFlags             = Contain\n"
                  "SLURM_VERSION           = 25.11.7\nTopologyPlugin          = topology/block\n")
    told = findings(cluster, 0)
    assert told["settings"]["found"] == "read from scontrol show config"
    assert told["prolog flags"]["found"] == "PrologFlags=Contain" and told["epilog path"]["result"] == "ok"
    cluster.write("/fake/scontrol/config", cluster.read("/fake/scontrol/config").replace("= Contain", "= (null)"))
    assert findings(cluster, 1)["prolog flags"]["found"] == "PrologFlags=(none) has no Alloc: a node without a step would never run the prolog"


def test_without_any_settings_it_is_told_and_no_guess_is_made(cluster):
    cluster.remove("/etc/slurm/slurm.conf")
    cluster.write("/fake/scontrol/config", "")
    assert_finds(cluster, "settings", "fail", "neither slurm.conf nor `scontrol show config` can be read: it printed no setting")


# -- a scontrol that gives no answer

@pytest.mark.parametrize("action,result,found", [("exec sleep 1000", "fail", "no end after"), ("exec yes", "fail", "printed more than"),
                                                 ("exit 1", "warn", "scontrol --version: exit 1")])
def test_a_scontrol_that_tells_no_version_is_a_finding(cluster, action, result, found):
    cluster.write(cluster.scontrol, f"#!/bin/sh\n{action}\n", 0o755)
    told = findings(cluster, 1 if result == "fail" else 0)["slurm version"]
    assert told["result"] == result and found in told["found"] and told["cure"].startswith("see /"), told


def test_a_scontrol_that_hangs_where_only_it_knows_the_settings_is_a_finding(cluster):
    cluster.remove("/etc/slurm/slurm.conf")
    cluster.write(cluster.scontrol, '#!/bin/sh\ncase "$*" in --version) echo slurm 25.11.7;; *) exec sleep 1000;; esac\n', 0o755)
    told = findings(cluster, 1)["settings"]
    assert told["result"] == "fail" and "no end after" in told["found"] and told["cure"], told
