"""N make-believe nodes on one machine, each with its own network, files, processes and nvidia-imex; jobs start on them as slurmd starts
them; what came out is read from the daemons' own traces, exact to the microsecond, not sampled by polling.

The nodes are tests/lab/node (process 1 of each), the daemons tests/lab/imexd. Nothing leaves the machine: the switch is a bridge in a
namespace of its own. Needs root, Linux with overlayfs and cgroup2, iproute2 and util-linux.
"""

import dataclasses
import os
import pathlib
import selectors
import shutil
import stat
import subprocess
import tempfile
import time

import tools

TRACE = "/run/nvidia-imex-lab.trace"
NODE_LIST = "/etc/nvidia-imex/nodes_config.cfg"
COMMENT_ONLY = "# no job\n"


class LabError(Exception):
    pass


def hostlist(names):
    """ultra-1, ultra-2, ultra-4 -> ultra-[1-2,4], as Slurm writes it."""
    numbers = sorted(int(name.rsplit("-", 1)[1]) for name in names)
    if len(numbers) == 1:
        return f"ultra-{numbers[0]}"
    ranges = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return "ultra-[" + ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges) + "]"


@dataclasses.dataclass
class Run:
    """One prolog or epilog (or any other program) on one node, as slurmd saw it. Times are CLOCK_MONOTONIC."""
    node: "Node"
    id: str
    begin: float = None
    end: float = None
    code: int = None

    def output(self):
        path = self.node.path(f"/run/lab/{self.id}.out")
        return path.read_text(errors="replace") if path.exists() else ""


class Node:
    def __init__(self, lab, index, block):
        self.lab = lab
        self.index = index
        self.block = block
        self.name = f"ultra-{index + 1}"
        self.address = f"172.31.{48 + index // 200}.{10 + index % 200}"
        self.hardware_address = f"02:00:00:00:{index >> 8:02x}:{index & 255:02x}"
        self.faults = {}
        self.pid = None
        self.process = None
        self.unit = ("inactive", 0.0)  # what systemd says of nvidia-imex, since when
        self.history = []              # all of that
        self.crashed = False
        self.input = b""

    def path(self, inside):
        """A file of the node, seen from outside."""
        return pathlib.Path(f"/proc/{self.pid}/root{inside}")

    def text(self, inside):
        path = self.path(inside)
        return path.read_text(errors="replace") if path.exists() else ""

    def node_list(self):
        return [line for line in self.text(NODE_LIST).splitlines() if line and not line.startswith("#")]

    def send(self, *words):
        self.process.stdin.write(("\t".join(words) + "\n").encode())
        self.process.stdin.flush()

    def set_faults(self, **faults):
        """Settings of the daemon's make-believe; read by it at its next start."""
        self.faults = faults
        values = {"time_scale": self.lab.scale, "trace": TRACE, **self.lab.settings, **faults}
        self.path("/etc/nvidia-imex/lab.cfg").write_text("".join(f"{k}={v}\n" for k, v in values.items()))

    def execute(self, *words, limit=30, env=None):
        """Runs a program inside the node and waits for it."""
        base = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        return subprocess.run(["nsenter", "-t", str(self.pid), "-m", "-n", "-p", "-u", "-r", "-w", "--", *words], env={**base, **(env or {})},
                              capture_output=True, text=True, timeout=limit, check=False)


def openable_major(folder):
    """A major whose minor 0 opens on this machine, to stand for the channel's driver (nothing is ever read or written); else 234, which
    opens with ENXIO as a channel without its driver does."""
    names = {"cpu/cpuid", "vcs"}
    for line in pathlib.Path("/proc/devices").read_text().partition("Block devices:")[0].splitlines():
        words = line.split()
        if len(words) == 2 and words[1] in names:
            probe = folder / "probe"
            try:
                os.mknod(probe, 0o600 | stat.S_IFCHR, os.makedev(int(words[0]), 0))
                os.close(os.open(probe, os.O_RDWR))
                return int(words[0])
            except OSError:
                continue
            finally:
                probe.unlink(missing_ok=True)
    return 234


class Lab:
    def __init__(self, blocks=(2,), scale=0.1, settings=None, programs=None, options="", folder=None):
        """`blocks`: nodes of each UltraServer. `programs`: {name: file}, put into /usr/bin of every node. `options`: gpu-prolog.toml."""
        if os.geteuid() != 0:
            raise LabError("the lab needs root: it makes namespaces, mounts and devices")
        self.scale = scale
        self.settings = settings or {}
        self.options = options
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="gpu-prolog-lab."))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        self.selector = selectors.DefaultSelector()
        self.runs = {}
        self.counter = 0
        self.switch = None
        self.nodes = []
        for block, size in enumerate(blocks):
            self.nodes += [Node(self, len(self.nodes) + i, block) for i in range(size)]
        self.blocks = blocks
        try:
            self._tools(programs or {})
            self._start()
        except BaseException:
            self.close()
            raise

    # --- making and unmaking

    def _tools(self, programs):
        folder = self.folder / "usrbin"
        folder.mkdir(mode=0o755)
        for names, source in ((("nvidia-imex", "nvidia-imex-ctl"), tools.imexd()), (("systemctl", "scontrol", "sudo"), tools.node_program())):
            for name in names:
                shutil.copy(source, folder / name)
        (folder / "nvidia-smi").write_text("#!/bin/sh\nprintf '%s, Completed, Success\\n' 0 1 2 3\n")  # validate asks for the fabric
        for name, source in programs.items():
            shutil.copy(source, folder / name)
        for path in folder.iterdir():
            path.chmod(0o755)
            os.chown(path, 0, 0)

    def _write_etc(self, node):
        etc = self.folder / "nodes" / node.name / "etc"
        (etc / "nvidia-imex").mkdir(parents=True)
        (etc / "slurm").mkdir()
        (etc / "nvidia-imex" / "config.cfg").write_text(
            "LOG_LEVEL=4\nLOG_FILE_NAME=/var/log/nvidia-imex.log\nDAEMONIZE=1\nSERVER_PORT=50000\n"
            "IMEX_CMD_ENABLED=1\nIMEX_CMD_PORT=50005\nIMEX_WAIT_FOR_QUORUM=RECOVERY\n")
        (etc / "nvidia-imex" / "nodes_config.cfg").write_text(COMMENT_ONLY)
        if self.options:
            (etc / "gpu-prolog.toml").write_text(self.options)
        (etc / "slurm" / "lab-nodes").write_text("".join(f"{n.name} {n.address}\n" for n in self.nodes))
        by_block = [[n.name for n in self.nodes if n.block == b] for b in range(len(self.blocks))]
        (etc / "slurm" / "lab-topology").write_text("".join(
            f"BlockName=us{b + 1} BlockIndex={b} Nodes={hostlist(names)} BlockSize={len(names)}\n" for b, names in enumerate(by_block)))
        (etc / "slurm" / "topology.yaml").write_text(
            "---\n- topology: ultra\n  cluster_default: true\n  block:\n    block_sizes:\n"
            f"      - {min(self.blocks)}\n    blocks:\n"
            + "".join(f"      - block: us{b + 1}\n        nodes: {hostlist(names)}\n" for b, names in enumerate(by_block)))
        (etc / "slurm" / "slurm.conf").write_text(
            "ClusterName=lab\nSlurmctldHost=ctl\nSlurmUser=root\nAuthType=auth/slurm\nTopologyPlugin=topology/block\n"
            "SlurmdSpoolDir=/var/spool/slurmd\nPrologFlags=Alloc,DeferBatch\nMessageTimeout=240\nGresTypes=gpu\n"
            "Prolog=/usr/bin/gpu-prolog\nEpilog=/usr/bin/gpu-prolog\n"
            + "".join(f"NodeName={n.name} NodeAddr={n.address} CPUs=144 Gres=gpu:4\n" for n in self.nodes)
            + f"PartitionName=ultra Nodes={hostlist([n.name for n in self.nodes])} Default=YES State=UP OverSubscribe=NO\n")
        (etc / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{n.address} {n.name}\n" for n in self.nodes))

    def _popen(self, *words, stderr=None):
        return subprocess.Popen([str(tools.node_program()), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, bufsize=0)

    def _start(self):
        major = openable_major(self.folder)
        self.switch = self._popen("netns")
        switch_pid = self._holder(self.switch)
        for node in self.nodes:
            self._write_etc(node)
            (self.folder / "nodes" / node.name / "node.conf").write_text(
                f"instance_type=p6e-gb200.36xlarge\nmajor={major}\ndriver=570.172\ncgroup=gpu-prolog-lab.{os.getpid()}.{self.folder.name[-8:]}.{node.name}\n")
            node.process = self._popen("node", str(self.folder / "nodes" / node.name))
        for node in self.nodes:
            node.pid = self._holder(node.process)
        batch = ["link add br0 type bridge", "link set br0 up"]
        for node in self.nodes:
            batch += [f"link add p{node.index} type veth peer name eth0 address {node.hardware_address} netns {node.pid}",
                      f"link set p{node.index} master br0 up"]
        self._ip(switch_pid, batch, "make the switch")
        for node in self.nodes:
            if self._line(node.process) != "ready":
                raise LabError(f"node {node.name} did not come up")
            node.send("net", "eth0", node.address, "20")
            if self._line(node.process) != "net\tok":
                raise LabError(f"node {node.name} has no network")
            # The kernel's table of learnt neighbours is one for all namespaces (gc_thresh3, 1,024 entries); 36 nodes need 1,260. Permanent
            # entries do not count.
            self._ip(node.pid, [f"neigh replace {n.address} lladdr {n.hardware_address} dev eth0 nud permanent" for n in self.nodes if n is not node],
                     f"tell {node.name} its neighbours")
            os.set_blocking(node.process.stdout.fileno(), False)
            self.selector.register(node.process.stdout, selectors.EVENT_READ, node)
            node.set_faults()

    @staticmethod
    def _ip(pid, commands, what):
        done = subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", "-batch", "-"], input="\n".join(commands), text=True, capture_output=True, check=False)
        if done.returncode != 0:
            raise LabError(f"cannot {what}: {done.stderr.strip()}")

    @staticmethod
    def _line(process):
        line = b""
        while not line.endswith(b"\n"):
            byte = process.stdout.read(1)
            if not byte:
                raise LabError("a node's process 1 ended; what it said is above")
            line += byte
        return line.decode().rstrip("\n")

    def _holder(self, process):
        words = self._line(process).split("\t")
        if words[0] != "holder":
            raise LabError(f"unexpected: {words}")
        return int(words[1])

    def close(self):
        processes = [n.process for n in self.nodes if n.process is not None] + ([self.switch] if self.switch else [])
        for process in processes:
            process.stdin.close()
        for process in processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        self.selector.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- events

    def pump(self, condition, limit, what):
        """Takes the nodes' events until the condition holds."""
        end = time.monotonic() + limit
        for key, _ in self.selector.select(0):
            self._take(key.data)
        while not condition():
            left = end - time.monotonic()
            if left <= 0:
                raise LabError(f"not within {limit} s: {what}")
            for key, _ in self.selector.select(min(left, 0.2)):
                self._take(key.data)

    def _take(self, node):
        data = node.process.stdout.read()
        if data == b"":
            raise LabError(f"process 1 of {node.name} ended")
        node.input += data or b""
        *lines, node.input = node.input.split(b"\n")
        for line in lines:
            words = line.decode().split("\t")
            if words[0] == "begin":
                self.runs[words[1]].begin = float(words[2])
            elif words[0] == "end":
                run = self.runs[words[1]]
                run.end, run.code = float(words[2]), int(words[3])
            elif words[0] == "unit":
                node.unit = (words[2], float(words[1]))
                node.history.append((float(words[1]), words[2]))
            elif words[0] == "crashed":
                node.crashed = True
            else:
                raise LabError(f"{node.name}: {line!r}")

    # --- programs on nodes

    def launch(self, node, delay, program, arguments=(), env=None):
        self.counter += 1
        run = Run(node, f"run{self.counter}")
        self.runs[run.id] = run
        node.send("run", run.id, f"{delay:.6f}", program, *("+" + a for a in arguments), *(f"{k}={v}" for k, v in (env or {}).items()))
        return run

    def wait(self, runs, limit):
        self.pump(lambda: all(run.code is not None for run in runs), limit, f"{sum(r.code is None for r in runs)} programs have not ended")

    def systemctl(self, nodes, *words, limit=60):
        runs = [self.launch(node, 0, "/usr/bin/systemctl", words) for node in nodes]
        self.wait(runs, limit)
        return runs

    def crash(self, node, delay=None):
        """The node loses power: now, or after `delay` seconds (then this does not wait)."""
        node.crashed = False
        node.send("crash", f"{delay or 0:.6f}")
        if delay is None:
            self.pump(lambda: node.crashed, 10, f"crash of {node.name}")

    def idle(self, nodes=None):
        """No daemon, no list: as after an epilog, or as a node comes up."""
        nodes = nodes or self.nodes
        self.systemctl(nodes, "stop", "nvidia-imex")
        for node in nodes:
            node.set_faults()
            node.path(NODE_LIST).write_text(COMMENT_ONLY)
            persist = node.path("/run/nvidia-imex/persist.dat")
            if persist.exists():
                persist.unlink()

    def leave_daemons(self, groups):
        """Daemons of earlier jobs that nobody stopped: each group of nodes runs with its own list."""
        nodes = [node for group in groups for node in group]
        self.systemctl(nodes, "stop", "nvidia-imex")
        for group in groups:
            for node in group:
                node.path(NODE_LIST).write_text("".join(n.address + "\n" for n in group))
        self.systemctl(nodes, "start", "nvidia-imex")

    # --- jobs

    def job_environment(self, node, job, nodes, context):
        names = hostlist([n.name for n in nodes])
        env = {
            "SLURM_CONF": "/etc/slurm/slurm.conf", "SLURM_CLUSTER_NAME": "lab", "SLURMD_NODENAME": node.name, "SLURM_JOB_ID": job,
            "SLURM_JOBID": job, "SLURM_JOB_NODELIST": names, "SLURM_NODELIST": names, "SLURM_JOB_NUM_NODES": len(nodes), "SLURM_JOB_UID": 1000,
            "SLURM_UID": 1000, "SLURM_JOB_USER": "alice", "SLURM_JOB_GID": 1000, "SLURM_JOB_PARTITION": "ultra",
            "SLURM_JOB_OVERSUBSCRIBE": "NO", "SLURM_JOB_GPUS": "0,1,2,3", "SLURM_JOB_RESTART_COUNT": 0, "SLURM_JOB_SLUID": f"sLAB{job:08d}",
            "SLURM_SCRIPT_CONTEXT": context,
        }
        if context == "epilog_slurmd":
            env["SLURM_JOB_EXIT_CODE"] = 0
        return env

    def start_job(self, subject, job, nodes, skews, limit=120):
        """The prologs of one job, each after its own delay (unscaled seconds); returns when the last has ended."""
        begin = time.monotonic()
        runs = [self.launch(node, skew * self.scale, subject.prolog, subject.arguments, self.job_environment(node, job, nodes, "prolog_slurmd"))
                for node, skew in zip(nodes, skews, strict=True)]
        self.wait(runs, limit)
        return Start(self, job, nodes, runs, begin)

    def end_job(self, subject, job, nodes, skews=None, limit=120):
        if subject.epilog is None:
            return []
        skews = skews or [0.0] * len(nodes)
        runs = [self.launch(node, skew * self.scale, subject.epilog, (), self.job_environment(node, job, nodes, "epilog_slurmd"))
                for node, skew in zip(nodes, skews, strict=True)]
        self.wait(runs, limit)
        return runs

    def rest(self, seconds):
        """Lets scaled time pass while events are taken."""
        end = time.monotonic() + seconds * self.scale
        self.pump(lambda: time.monotonic() >= end, seconds * self.scale + 5, "time to pass")


@dataclasses.dataclass
class Subject:
    name: str
    prolog: str          # path inside the nodes
    epilog: str = None   # None: there is none
    arguments: tuple = ()


# --- what the daemons wrote -------------------------------------------------------------------------------------------------


class Traces:
    """Every daemon's history from the trace files, and the state of all of them at any moment."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.events = {node.name: [] for node in nodes}
        for node in nodes:
            for line in node.text(TRACE).splitlines():
                words = line.split()
                self.events[node.name].append((float(words[0]), int(words[1]), words[2:]))

    def at(self, moment):
        """{name: daemon} of the daemons that were alive, each a dict with hash, status, instance and cells {address: (letter, instance)}."""
        state = {}
        for node in self.nodes:
            daemon = None
            for when, pid, words in self.events[node.name]:
                if when > moment:
                    break
                if words[0] == "START":
                    daemon = {"pid": pid, "hash": words[1], "instance": words[4], "status": "INITIALIZING", "cells": {}, "since": when}
                elif daemon is None or pid != daemon["pid"]:
                    continue
                elif words[0] == "STATUS":
                    daemon["status"] = words[1]
                elif words[0] == "CELL":
                    daemon["cells"][words[2]] = (words[3], words[4])
                elif words[0] == "EXIT":
                    daemon = None
            # A killed daemon writes no EXIT; systemd saw it go.
            gone = [when for when, active in node.history if when <= moment and active in ("inactive", "failed")]
            if daemon is not None and not (gone and gone[-1] > daemon["since"]):
                state[node.name] = daemon
        return state

    def moments(self, after):
        return sorted({when for events in self.events.values() for when, _, _ in events if when > after})

    def starts(self, name, begin, end):
        return sum(1 for when, _, words in self.events[name] if words[0] == "START" and begin <= when <= end)


def connected(state, nodes):
    """Every node of the block runs a READY daemon with the same list, and each is connected to the present daemon of each other."""
    daemons = [state.get(node.name) for node in nodes]
    if any(d is None or d["status"] != "READY" for d in daemons) or len({d["hash"] for d in daemons}) != 1:
        return False
    for i, here in enumerate(daemons):
        for j, there in enumerate(daemons):
            if i != j and here["cells"].get(nodes[j].address) != ("C", there["instance"]):
                return False
    return True


def matrix(state, nodes):
    """Letters of every pair as text rows, `.` where no daemon lives."""
    rows = []
    for i, here in enumerate(nodes):
        daemon = state.get(here.name)
        rows.append([("C" if daemon else ".") if i == j else (daemon["cells"].get(there.address, ("N", "-"))[0] if daemon else ".")
                     for j, there in enumerate(nodes)])
    return rows


class Start:
    """One start of a job: the prologs' runs, and what the traces say about the domain they made."""

    def __init__(self, lab, job, nodes, runs, begin):
        self.lab, self.job, self.nodes, self.runs, self.begin = lab, job, nodes, runs, begin
        self.last_begin = max(run.begin for run in runs)
        self.last_end = max(run.end for run in runs)

    def codes(self):
        return [run.code for run in self.runs]

    def failed(self):
        return [run.node.name for run in self.runs if run.code != 0]

    def groups(self):
        """The job's nodes by UltraServer."""
        blocks = sorted({node.block for node in self.nodes})
        return [[n for n in self.nodes if n.block == b] for b in blocks]

    def measure(self, watch=10.0):
        """Looks on for `watch` scaled seconds after the last prolog's end, less when everything has been connected for a while."""
        self.lab.rest(min(watch, 3.0))
        traces = Traces(self.nodes)
        if not self._all(traces.at(self.last_end)) and watch > 3.0:
            self.lab.rest(watch - 3.0)
            traces = Traces(self.nodes)
        end = time.monotonic()
        up = None
        for moment in [self.last_end] + traces.moments(self.last_begin):
            if self._all(traces.at(moment)):
                up = moment if up is None else up
            elif moment > self.last_begin:
                up = None  # it did not last
        return Measure(
            connected_at_end=self._all(traces.at(self.last_end)),
            connected_later=self._all(traces.at(end)),
            up_after=None if up is None else (up - self.last_begin) / self.lab.scale,
            restarts=sum(traces.starts(n.name, self.begin, self.last_end) for n in self.nodes),
            restarts_after=sum(traces.starts(n.name, self.last_end, end) for n in self.nodes),
            failed=self.failed(),
            longest=max(run.end - run.begin for run in self.runs) / self.lab.scale,
        )

    def _all(self, state):
        return all(connected(state, group) for group in self.groups())


@dataclasses.dataclass
class Measure:
    connected_at_end: bool      # every pair of every UltraServer when the last prolog returned
    connected_later: bool       # the same a while later
    up_after: float             # scaled seconds from the last prolog's start until UP for good; None: never
    restarts: int
    restarts_after: int
    failed: list                # nodes whose prolog did not return 0
    longest: float              # scaled seconds of the longest prolog
