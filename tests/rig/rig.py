"""Real Slurm on one machine: a controller and nodes, each in namespaces of its own, and the program under test as
Prolog= and Epilog=.

    with Cluster(root=slurm_root("24.11"), prolog=binary, nodes=3) as c:
        job = c.sbatch("-N2", "--exclusive", wrap="true")

Nothing outlives the `with`: every mount and interface lives in a node's namespaces, and those end with its first process
(node_init.py), which ends when this process does. What a node may show of itself is under `node.path("/...")`.
"""
import calendar
import contextlib
import ctypes
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import imds

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
FAKES = HERE / "fakes"
FOLDER = "gpu-prolog-rig-"
PR_SET_PDEATHSIG = 1
NODE_LIST = "/etc/nvidia-imex/nodes_config.cfg"
libc = ctypes.CDLL(None, use_errno=True)


class RigError(Exception):
    pass


class NoSuite(Exception):
    """The Debian suite that holds this Slurm cannot be had here."""


def slurm_root(version):
    """The folder of a Debian root with this Slurm in it, made now if it is not there yet."""
    made = subprocess.run([HERE / "make-roots", version], stdout=subprocess.PIPE, text=True, check=False)
    words = made.stdout.split(maxsplit=2)
    if len(words) < 2 or words[0] != version:
        raise RigError(f"make-roots {version}: exit {made.returncode}, said {made.stdout!r}")
    if words[1] == "FAILED":
        raise RigError(f"Slurm {version}: {words[2].strip()}")
    if words[1] == "SKIP":
        raise NoSuite(f"Slurm {version}: {words[2].strip()}")
    return Path(words[1])


def until(what, condition, limit=30.0, every=0.1):
    """Polls until `condition()` is true and returns what it said; a limit that passes is an error that says what was awaited."""
    end = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise RigError(f"waited {limit:g} s for {what() if callable(what) else what}; last answer {value!r}")
        time.sleep(every)


def drop_left_overs():
    """Folders of runs that were killed: their nodes died with them, but nobody was left to remove the files."""
    for folder in Path(tempfile.gettempdir()).glob(FOLDER + "*-*"):
        owner = folder.name.removeprefix(FOLDER).split("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def write(path, text, mode=0o644):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


@dataclasses.dataclass
class Result:
    rc: int
    out: str
    err: str

    def check(self):
        if self.rc != 0:
            raise RigError(f"exit {self.rc}: {self.out}{self.err}")
        return self.out


@dataclasses.dataclass
class Seen:
    """What the tasks of one job saw."""
    rc: int
    err: str
    job: str = ""
    nodes: list = dataclasses.field(default_factory=list)
    lists: dict = dataclasses.field(default_factory=dict)


class Node:
    """One machine: its own root, /dev, /run, network and process ids."""

    driver = ""

    def __init__(self, cluster, name, address):
        self.cluster = cluster
        self.name = name
        self.address = address
        self.hardware = "02:00:" + ":".join(f"{int(part):02x}" for part in address.split("."))
        self.folder = cluster.work / name
        self.upper = self.folder / "upper"
        self.pid = None
        self.init = None
        self.imds = None
        self.boots = 0

    # -- life -------------------------------------------------------------------------------------------------------

    def prepare(self):
        """What is on the node's disk before its first boot."""
        for name in ("upper", "work", "root"):
            (self.folder / name).mkdir(parents=True)
        lower, up = self.cluster.root, self.upper
        munge = (lower / "var/lib/munge").stat()
        for folder in ("etc", "etc/munge", "var", "var/log", "var/spool", "var/spool/slurmd", "var/spool/slurmctld"):
            (up / folder).mkdir(exist_ok=True)
            (up / folder).chmod(0o755)
        write(up / "etc/munge/munge.key", "")
        (up / "etc/munge/munge.key").write_bytes(self.cluster.munge_key)
        (up / "etc/munge/munge.key").chmod(0o400)
        for path in (up / "etc/munge", up / "etc/munge/munge.key"):
            os.chown(path, munge.st_uid, munge.st_gid)
        (up / "var/log/munge").mkdir()
        os.chown(up / "var/log/munge", munge.st_uid, munge.st_gid)
        write(up / "etc/hostname", self.name + "\n")
        write(up / "etc/hosts", self.cluster.hosts())
        # Names come from /etc/hosts alone: a name that is not there is unknown at once, not after the resolver's limit.
        write(up / "etc/resolv.conf", "")
        write(up / "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")

    def boot(self):
        self.boots += 1
        boot_id = self.folder / "boot_id"
        digits = f"{self.boots:08x}"
        boot_id.write_text(f"{digits}-0000-4000-8000-{self.address.replace('.', ''):0>12}\n")
        spec = {"name": self.name, "lower": str(self.cluster.root), "upper": str(self.upper),
                "work": str(self.folder / "work"), "root": str(self.folder / "root"), "shared": str(self.cluster.shared),
                "driver": self.driver,
                "binds": [[str(boot_id), "/proc/sys/kernel/random/boot_id"], *self.binds()]}
        self.init = subprocess.Popen(
            ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child=KILL", "--propagation", "private",
             sys.executable, HERE / "node_init.py", json.dumps(spec)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(self.folder / "init.log", "ab"),
            preexec_fn=die_with_parent)

    def binds(self):
        return []

    def booted(self):
        line = self.init.stdout.readline()
        if not line:
            raise RigError(f"{self.name} did not come up: {(self.folder / 'init.log').read_text()}")
        self.pid = json.loads(line)["ready"]

    def plug(self):
        """Connects the node to the switch."""
        port = f"p{self.address.rsplit('.', 1)[1]}"
        self.cluster.switch_ip(f"link add {port} type veth peer name eth0 netns {self.pid}", f"link set {port} master br0 up")
        # Hardware addresses are told, not asked for: the kernel's table of asked ones (1,024 entries) is one for all network
        # namespaces of the machine, and when another test fills it, hosts here would not be found (seen).
        self.ip("link set lo up", f"link set eth0 address {self.hardware}", f"addr add {self.address}/24 dev eth0", "link set eth0 up",
                *(f"neigh replace {m.address} lladdr {m.hardware} nud permanent dev eth0" for m in self.cluster.machines() if m is not self))

    def start_munge(self):
        munge = (self.cluster.root / "var/lib/munge").stat()
        folder = self.path("/run/munge")
        folder.mkdir(exist_ok=True)
        os.chown(folder, munge.st_uid, munge.st_gid)
        (folder / "munge.socket.2").unlink(missing_ok=True)
        self.start("munged", ["/usr/bin/setpriv", "--reuid", "munge", "--regid", "munge", "--clear-groups", "/usr/sbin/munged", "-F", "-f"])

    def halt(self):
        """As if the power went: every process of the node is gone at once."""
        if self.imds:
            self.imds.close()
            self.imds = None
        if self.init:
            self.init.stdin.close()
            try:
                self.init.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.init.kill()
                self.init.wait(timeout=10)
            self.init.stdout.close()
        self.init = self.pid = None

    # -- what runs on it ----------------------------------------------------------------------------------------------

    def ask(self, **request):
        self.init.stdin.write(json.dumps(request).encode() + b"\n")
        self.init.stdin.flush()
        line = self.init.stdout.readline()
        if not line:
            raise RigError(f"{self.name} is gone: {(self.folder / 'init.log').read_text()}")
        return json.loads(line)["answer"]

    def start(self, name, argv, env=None):
        """Starts a service of the node (a child of its first process); its words go to /var/log/NAME.out."""
        return self.ask(do="start", name=name, argv=argv, log=f"/var/log/{name}.out", env=env or {})

    def stop(self, name, sig=signal.SIGTERM, limit=15):
        self.ask(do="kill", name=name, signal=int(sig))
        until(f"{name} to end on {self.name}", lambda: self.ask(do="running", name=name) is None, limit, 0.05)

    def run(self, *argv, limit=30.0, stdin=None, env=None):
        """Runs a command on the node, as root, and waits for it."""
        full = ["nsenter", "-t", str(self.pid), "-m", "-u", "-i", "-n", "-p", "-r", "-w", "/usr/bin/env", "-i",
                "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "SLURM_CONF=/rig/etc/slurm.conf",
                *[f"{k}={v}" for k, v in (env or {}).items()], *argv]
        done = subprocess.run(full, capture_output=True, text=True, timeout=limit, input=stdin, check=False)
        return Result(done.returncode, done.stdout, done.stderr)

    def ip(self, *lines):
        done = subprocess.run(["nsenter", "-t", str(self.pid), "-n", "ip", "-batch", "-"], input="\n".join(lines) + "\n",
                              capture_output=True, text=True, timeout=20, check=False)
        if done.returncode != 0:
            raise RigError(f"{self.name}: ip: {done.stderr}")

    def knows(self, *lines):
        """Adds lines to the node's /etc/hosts, until the next test."""
        with open(self.path("/etc/hosts"), "a", encoding="ascii") as hosts:
            hosts.writelines(line + "\n" for line in lines)

    # -- its files ------------------------------------------------------------------------------------------------------

    def path(self, path):
        """The node's file as this process can open it (while the node is up)."""
        return Path(f"/proc/{self.pid}/root{path}")

    def read(self, path):
        try:
            return self.path(path).read_text(errors="replace")
        except FileNotFoundError:
            return ""


class Controller(Node):
    def start_slurmctld(self):
        self.start("slurmctld", ["/usr/sbin/slurmctld", "-D"])


class GpuNode(Node):
    """A node that looks like one of an UltraServer: driver, channels, nvidia-imex unit, instance metadata."""

    driver = "570.172"  # the version that the make-believe daemons tell

    def prepare(self):
        super().prepare()
        up = self.upper
        (self.folder / "devices").write_text("Character devices:\n  1 mem\n  5 /dev/tty\n195 nvidia\n"
                                             "234 nvidia-caps-imex-channels\n235 nvidia-caps\n\nBlock devices:\n259 blkext\n")
        for name, source in ({f.name: f for f in sorted(FAKES.iterdir())} | self.cluster.programs).items():
            target = up / "usr/bin" / name
            for folder in (up / "usr", up / "usr/bin"):
                folder.mkdir(exist_ok=True)
                folder.chmod(0o755)
            shutil.copyfile(source, target)
            target.chmod(0o755)
        write(up / "etc/nvidia-imex/config.cfg", "LOG_LEVEL=4\nSERVER_PORT=50000\nIMEX_CMD_PORT=50005\nIMEX_CMD_ENABLED=1\n"
                                                 "LOG_FILE_NAME=/var/log/nvidia-imex.log\nDAEMONIZE=1\nIMEX_WAIT_FOR_QUORUM=RECOVERY\n"
                                                 "IMEX_NODE_CONFIG_FILE=/etc/nvidia-imex/nodes_config.cfg\n")
        write(up / NODE_LIST[1:], self.cluster.untouched)
        for folder in (up / "etc/nvidia-imex",):
            folder.chmod(0o755)
        (up / "var/lib").mkdir(exist_ok=True)
        (up / "var/lib").chmod(0o755)
        (up / "var/lib/rig").mkdir()

    def binds(self):
        return [[str(self.folder / "devices"), "/proc/devices"]]

    def start_imds(self):
        self.ip("addr add 169.254.169.254/32 dev lo")
        self.imds = imds.Imds(self.pid, "169.254.169.254", self.cluster.instance_type)

    def start_slurmd(self, *options):
        self.start("slurmd", ["/usr/sbin/slurmd", "-D", "-N", self.name, *options])

    def lab(self, **settings):
        """How tests/lab's daemon behaves at its next start (tests/lab/imexd/imexd.hpp says what there is)."""
        write(self.path("/etc/nvidia-imex/lab.cfg"), "".join(f"{k}={v}\n" for k, v in settings.items()))

    def unlab(self):
        self.path("/etc/nvidia-imex/lab.cfg").unlink(missing_ok=True)

    def knob(self, name, value="1"):
        """Sets how a fake of this node behaves (fakes/systemctl and fakes/nvidia-imex-ctl say which knobs there are)."""
        write(self.path(f"/var/lib/rig/{name}"), value)

    def unknob(self, name):
        self.path(f"/var/lib/rig/{name}").unlink(missing_ok=True)

    def unknob_all(self):
        for path in self.path("/var/lib/rig").iterdir():
            if path.is_file():
                path.unlink()

    def calls(self):
        """The systemctl calls since the last forget(), as lists of words."""
        return [line.split()[1:] for line in self.read("/var/log/systemctl.calls").splitlines()]

    def starts(self):
        """Node lists that the nvidia-imex unit was started with since the last forget()."""
        return [json.loads(line) for line in self.read("/var/log/imex.starts").splitlines()]

    def node_list(self):
        return self.read(NODE_LIST)

    def log(self):
        return self.read("/var/log/nvidia-imex-prolog.log")

    def slurmd_log(self):
        return self.read("/var/log/slurmd.log")

    def processes(self):
        """The command lines of what runs on the node beyond what runs on every node of the rig."""
        own = re.compile(r"node_init\.py|/munged|/slurmd |ps -eo args|^COMMAND")
        return "\n".join(line for line in self.run("ps", "-eo", "args").out.splitlines() if not own.search(line))

    def forget(self):
        """Back to a node on which no prolog has run: list, channel, logs, knobs. Only what the last epilog knows stays."""
        self.unknob_all()
        self.unlab()
        self.path("/etc/gpu-prolog.toml").unlink(missing_ok=True)
        shutil.rmtree(self.path("/dev/nvidia-caps-imex-channels"), ignore_errors=True)
        for name in ("systemctl.calls", "imex.starts", "nvidia-imex-prolog.log"):
            self.path(f"/var/log/{name}").unlink(missing_ok=True)
        self.path(NODE_LIST).write_text(self.cluster.untouched)
        with open(self.path("/var/log/slurmd.log"), "a+") as log:
            log.truncate(0)


class Cluster:
    """A controller `ctl` and nodes node1.. on one switch."""

    untouched = "# not configured\n"

    def __init__(self, root, prolog, nodes=4, conf="", blocks=None, instance_type="p6e-gb200.36xlarge", programs=None):
        """`conf`: slurm.conf lines that come last and so win. `blocks`: {"b1": "node[1-2]"} makes topology/block.
        `programs`: {"nvidia-imex": file} in place of the stand-ins in /usr/bin of every node."""
        self.root = Path(root)
        self.prolog = Path(prolog)
        self.conf = conf
        self.blocks = blocks
        self.instance_type = instance_type
        self.programs = programs or {}
        drop_left_overs()
        self.work = Path(tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-"))
        self.work.chmod(0o755)
        self.shared = self.work / "shared"
        self.munge_key = os.urandom(1024)
        self.switch = None
        self.nodes = {f"node{i}": GpuNode(self, f"node{i}", f"10.88.0.{i}") for i in range(1, nodes + 1)}
        self.ctl = Controller(self, "ctl", "10.88.0.254")
        version = subprocess.run(["chroot", self.root, "/usr/sbin/slurmd", "-V"], capture_output=True, text=True, check=True).stdout
        self.version = tuple(int(n) for n in re.search(r"(\d+)\.(\d+)", version).groups())

    def __enter__(self):
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_):
        self.down()

    def __getitem__(self, name):
        return self.nodes[name]

    def machines(self):
        return [self.ctl, *self.nodes.values()]

    def hosts(self):
        return "".join(f"{a} {n}\n" for a, n in [("127.0.0.1", "localhost"), *((m.address, m.name) for m in self.machines())])

    # -- life ---------------------------------------------------------------------------------------------------------

    def up(self):
        (self.shared / "etc").mkdir(parents=True)
        (self.shared / "bin").mkdir()
        (self.shared / "out").mkdir()
        (self.shared / "out").chmod(0o1777)
        shutil.copyfile(self.prolog, self.shared / "bin/gpu-prolog")
        (self.shared / "bin/gpu-prolog").chmod(0o755)
        # The published script's name, for a cluster that keeps its slurm.conf.
        (self.shared / "bin/91_nvidia_imex_prolog.sh").symlink_to("gpu-prolog")
        self.write_conf()
        self.switch = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, preexec_fn=die_with_parent)
        self.switch.stdout.readline()
        self.switch_ip("link add br0 type bridge", "link set br0 up")
        for machine in self.machines():
            machine.prepare()
            machine.boot()
        for machine in self.machines():
            machine.booted()
            machine.plug()
            machine.start_munge()
        for node in self.nodes.values():
            node.start_imds()
        for machine in self.machines():
            until(f"munge on {machine.name}", lambda: machine.path("/run/munge/munge.socket.2").exists(), 30, 0.02)
        self.ctl.start_slurmctld()
        until("slurmctld to answer", lambda: self.ctl.run("scontrol", "ping").rc == 0, 30)
        for node in self.nodes.values():
            node.start_slurmd()
        try:
            self.wait_idle(limit=60)
        except RigError as error:
            raise RigError(f"{error}\n{self.describe()}") from None

    def down(self):
        for machine in self.machines():
            with contextlib.suppress(Exception):
                machine.halt()
        if self.switch:
            self.switch.kill()
            self.switch.wait(timeout=10)
            for stream in (self.switch.stdin, self.switch.stdout):
                stream.close()
            self.switch = None
        keep = os.environ.get("GPU_PROLOG_RIG_KEEP")
        if not keep:
            shutil.rmtree(self.work, ignore_errors=True)

    def switch_ip(self, *lines):
        done = subprocess.run(["nsenter", "-t", str(self.switch.pid), "-n", "ip", "-batch", "-"], input="\n".join(lines) + "\n",
                              capture_output=True, text=True, timeout=20, check=False)
        if done.returncode != 0:
            raise RigError(f"switch: ip: {done.stderr}")

    def reboot(self, node):
        """Power off and on again: disk kept, /run, /dev and processes gone, another boot id."""
        node.halt()
        node.boot()
        node.booted()
        node.plug()
        node.start_munge()
        node.start_imds()
        until(f"munge on {node.name}", lambda: node.path("/run/munge/munge.socket.2").exists(), 30, 0.02)
        started = time.time()
        node.start_slurmd("-b")  # the machine itself was not booted, so slurmd is told to say so

        def registered():
            shown = dict(w.split("=", 1) for w in self.scontrol("-o", "show", "node", node.name).out.split() if "=" in w)
            return int(calendar.timegm(time.strptime(shown["SlurmdStartTime"], "%Y-%m-%dT%H:%M:%S"))) >= int(started)
        until(f"{node.name} to register after its boot", registered, 30)

    def write_conf(self, extra=""):
        lines = [
            "ClusterName=rig", f"SlurmctldHost=ctl({self.ctl.address})", "SlurmUser=root", "AuthType=auth/munge",
            "StateSaveLocation=/var/spool/slurmctld", "SlurmdSpoolDir=/var/spool/slurmd", "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none", "JobAcctGatherType=jobacct_gather/none", "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_Core", "ReturnToService=2", "MpiDefault=none", "SlurmdLogFile=/var/log/slurmd.log",
            "SlurmctldLogFile=/var/log/slurmctld.log", "SlurmdDebug=info", "SlurmctldDebug=verbose", "KillWait=2",
            "SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000,bf_interval=1", "EpilogMsgTime=1"]
        settings = {"Prolog": "/rig/bin/gpu-prolog", "Epilog": "/rig/bin/gpu-prolog", "PrologFlags": "Alloc", "PrologEpilogTimeout": "60"}
        for line in (self.conf + "\n" + extra).splitlines():
            if line.strip():
                key, value = line.split("=", 1)
                settings[key] = value
        lines += [f"{k}={v}" for k, v in settings.items()]
        for node in self.nodes.values():
            lines.append(f"NodeName={node.name} NodeAddr={node.address} CPUs=2 RealMemory=1000 State=UNKNOWN")
        lines += ["PartitionName=no Nodes=ALL Default=YES State=UP OverSubscribe=NO",
                  "PartitionName=excl Nodes=ALL State=UP OverSubscribe=EXCLUSIVE",
                  "PartitionName=yes Nodes=ALL State=UP OverSubscribe=YES:4",
                  "PartitionName=force Nodes=ALL State=UP OverSubscribe=FORCE:1",
                  "PartitionName=xuser Nodes=ALL State=UP ExclusiveUser=YES",
                  "PartitionName=xtopo Nodes=ALL State=UP ExclusiveTopo=YES"]
        if self.blocks:
            lines.append("TopologyPlugin=topology/block")
            size = min(len(expand(nodes)) for nodes in self.blocks.values())
            if self.version >= (25, 5):
                write(self.shared / "etc/topology.yaml",
                      f"---\n- topology: ultra\n  cluster_default: true\n  block:\n    block_sizes:\n      - {size}\n      - {2 * size}\n    blocks:\n"
                      + "".join(f"      - block: {b}\n        nodes: {n}\n" for b, n in self.blocks.items()))
            else:
                write(self.shared / "etc/topology.conf",
                      "".join(f"BlockName={b} Nodes={n}\n" for b, n in self.blocks.items()) + f"BlockSizes={size},{2 * size}\n")
        write(self.shared / "etc/slurm.conf", "\n".join(lines) + "\n")
        write(self.shared / "etc/cgroup.conf", "CgroupPlugin=disabled\n")

    def restart_slurmd(self, node, extra=""):
        """The node's slurmd again, with these slurm.conf lines on top of the cluster's own; other daemons keep what they read."""
        self.write_conf(extra)
        node.stop("slurmd")
        before = node.slurmd_log().count(" slurmd started on ")
        node.start_slurmd()
        until(f"slurmd of {node.name} to start", lambda: node.slurmd_log().count(" slurmd started on ") > before, 20)
        until(f"slurmd of {node.name} to be known", lambda: self.states()[node.name][0] in ("idle", "drained"), 20)

    # -- Slurm ----------------------------------------------------------------------------------------------------------

    def scontrol(self, *words, limit=30.0):
        return self.ctl.run("scontrol", *words, limit=limit)

    def states(self):
        """{node: (state, reason)} as sinfo tells them."""
        said = self.ctl.run("sinfo", "-h", "-N", "-p", "no", "-o", "%N|%T|%E")
        found = {}
        for line in said.out.splitlines():
            name, state, reason = line.split("|", 2)
            found[name] = (state, reason)
        return found

    def wait_idle(self, *names, limit=30.0):
        names = names or tuple(self.nodes)

        def idle():
            states = self.states()
            return all(states.get(n, ("?",))[0] == "idle" for n in names)
        until(lambda: f"{', '.join(names)} to be idle: {self.states()}", idle, limit)

    def drained(self):
        return {name: reason for name, (state, reason) in self.states().items() if "drain" in state or "down" in state}

    def resume(self, *names):
        """Puts drained nodes back; waits until they are free."""
        for name in names or tuple(self.drained()):
            self.scontrol("update", f"NodeName={name}", "State=RESUME")
        self.wait_idle()

    def job(self, job_id):
        """{"JobState": ..} of a job as scontrol shows it."""
        said = self.scontrol("-o", "show", "job", str(job_id)).out.replace("\n", " ")
        return dict(word.split("=", 1) for word in said.split() if "=" in word)

    def sbatch(self, *options, wrap=None, script=None):
        words = ["sbatch", "--parsable", "-D", "/rig/out", "-o", "/rig/out/%j.out", *options]
        if wrap is not None:
            said = self.ctl.run(*words, "--wrap", wrap)
        else:
            said = self.ctl.run(*words, stdin="#!/bin/sh\n" + script)
        return int(said.check().strip().split(";")[0])

    def srun(self, *words, limit=90.0):
        return self.ctl.run("srun", "-D", "/", *words, limit=limit)

    def wait_job(self, job_id, *states, limit=60.0):
        def reached():
            return self.job(job_id).get("JobState") in states
        until(lambda: f"job {job_id} to be {' or '.join(states)}: {self.job(job_id)}", reached, limit)

    def wait_process(self, node, words, limit=40.0):
        """Waits until a process with these words runs on the node: a job counts as running before its tasks are there."""
        until(lambda: f"{words!r} to run on {node.name}: {node.processes()}", lambda: words in node.processes(), limit)

    def again(self, job_id):
        """A requeued and held job runs once more now; Slurm itself would let it wait for two minutes."""
        self.scontrol("update", f"JobId={job_id}", "StartTime=now").check()
        self.scontrol("release", str(job_id)).check()
        self.wait_job(job_id, "COMPLETED", limit=40)

    def output(self, job_id):
        return (self.shared / f"out/{job_id}.out").read_text(errors="replace")

    def look(self, *options, limit=90.0):
        """Runs a job by srun whose tasks keep what they see of IMEX: the node list, and whether the daemon is there."""
        script = ('cp /etc/nvidia-imex/nodes_config.cfg "/rig/out/$SLURM_JOB_ID.$SLURMD_NODENAME.list"; '
                  'echo "$SLURM_JOB_ID $SLURM_JOB_NODELIST"')
        done = self.srun(*options, "sh", "-c", script, limit=limit)
        seen = Seen(done.rc, done.err)
        for line in done.out.splitlines():
            seen.job, nodelist = line.split()
            seen.nodes = expand(nodelist)
        for node in seen.nodes:
            path = self.shared / f"out/{seen.job}.{node}.list"
            seen.lists[node] = path.read_text() if path.exists() else None
        return seen

    def expected_list(self, node, nodes):
        """The node list that `node` has to get for a job on `nodes`: its own block's addresses in node-list order."""
        block = next((expand(b) for b in (self.blocks or {}).values() if node in expand(b)), nodes)
        return "".join(self.nodes[n].address + "\n" for n in nodes if n in block)

    def cancel_all(self):
        self.ctl.run("scancel", "-u", "root", "--state=PENDING")
        self.ctl.run("scancel", "-u", "root")

    def describe(self):
        """All that helps to understand a failure."""
        told = [f"Slurm {self.version}: {self.states()}", self.ctl.run("squeue", "-o", "%i %T %r %N").out]
        for name, node in self.nodes.items():
            for title, text in (("slurmd's words", node.read("/var/log/slurmd.out")), ("systemctl", "\n".join(" ".join(c) for c in node.calls())), ("starts", str(node.starts())),
                                ("node list", node.node_list()), ("prolog log", node.log()), ("slurmd", node.slurmd_log()),
                                ("processes", node.processes())):
                if text.strip() not in ("", "[]", self.untouched.strip()):
                    told.append(f"--- {name}: {title}\n{text.rstrip()[-3000:]}")
        told.append("--- ctl: slurmctld\n" + self.ctl.read("/var/log/slurmctld.log")[-6000:])
        return "\n".join(told)

    def clean(self):
        """Between two tests: no job, every node idle and as new."""
        self.cancel_all()
        for node in self.nodes.values():
            node.unknob_all()
        until("all jobs to be gone", lambda: not self.ctl.run("squeue", "-h").out.strip(), 30)

        def free():
            states = self.states()
            for name, (state, _) in states.items():
                if "drain" in state or "down" in state:
                    self.scontrol("update", f"NodeName={name}", "State=RESUME")
            return all(state == "idle" for state, _ in states.values())
        until(lambda: f"every node to be idle: {self.states()}", free, 40)
        for node in self.nodes.values():
            node.forget()
        for machine in self.machines():
            machine.path("/etc/hosts").write_text(self.hosts())


def expand(hostlist):
    """node[1-3,5] or node1,node2 -> names, in order."""
    names = []
    for prefix, ranges, plain in re.findall(r"([^,\[]+)\[([^\]]+)\]|([^,\[]+)", hostlist):
        if plain:
            names.append(plain)
        for part in ranges.split(",") if ranges else []:
            low, _, high = part.partition("-")
            names += [f"{prefix}{i:0{len(low)}}" for i in range(int(low), int(high or low) + 1)]
    return names
