"""A make-believe compute node: private mount, network, process, host name and IPC namespaces with the true default paths inside.

    with Node(binary="dist/x86_64/gpu-prolog", names=["ultra-1", "ultra-2"], index=0) as node:
        run = node.prolog()
        assert run.code == 0 and node.list() == b"10.20.0.1\\n10.20.0.2\\n"

Process 1 of the node is a make-believe systemd (fakes/manager.cpp); scontrol, systemctl, getent, nvidia-imex and nvidia-imex-ctl are
make-believe tools at their true absolute paths; instance metadata is served on the true 169.254.169.254. Nothing of it is visible
outside of the namespaces, and all of it is gone when process 1 is gone. Needs root.
"""

import ctypes
import fcntl
import hashlib
import json
import os
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DATA = ROOT / "tests" / "data"

LOG = "/var/log/nvidia-imex-prolog.log"
LIST = "/etc/nvidia-imex/nodes_config.cfg"
CHANNEL_DIR = "/dev/nvidia-caps-imex-channels"
CHANNEL = CHANNEL_DIR + "/channel0"
OLD_LIST = b"# the list of an earlier job\n10.99.0.1\n10.99.0.2\n"
LOG_LINE = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}) \[(INFO|WARN|ERROR)\] \[PID:(\d+)\] \[JOB:([^\]]*)\] (.*)$")
SUPPORTED = "p6e-gb200.36xlarge"
BY_TEST = "CALLED_BY_THE_TEST=1"
# The wait for the peers' daemons costs seconds in every run; what is about it leaves this config file out (config=None).
NO_DOMAIN_WAIT = '[imex-prolog]\nwait-domain = "off"\n'


def build_fakes():
    """Compiles the make-believe tools once per state of their sources and returns the program."""
    sources = sorted((HERE / "fakes").glob("*.cpp"))
    text = b"".join(path.read_bytes() for path in sorted((HERE / "fakes").iterdir()) if path.suffix in (".cpp", ".h"))
    folder = Path(tempfile.gettempdir()) / ("gpu-prolog-node-fakes-" + hashlib.sha256(text).hexdigest()[:16])
    folder.mkdir(mode=0o755, exist_ok=True)
    program = folder / "fakes"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            made = folder / "fakes.new"
            subprocess.run(["g++", "-std=c++20", "-O1", "-static", "-s", "-o", made, *sources], check=True)
            made.rename(program)
    return program


def captured_environment(version="25.11", job=2, context="prolog_slurmd", node="node1"):
    """The environment that a real slurmd of this version gave its Prolog; what the dumping shell added is dropped."""
    environment = {}
    path = DATA / f"slurm-{version}" / "prolog-env" / f"job{job}.{context}.{node}"
    for line in path.read_text().splitlines():
        if line.startswith("#") or "=" not in line:
            continue
        key, value = line.split("=", 1)
        if key not in ("PWD", "SHLVL", "_", "OLDPWD"):
            environment[key] = value
    return environment


class Run:
    """How one run of the program ended."""

    def __init__(self, node, popen, tag, began):
        self.node, self.popen, self.tag, self.began = node, popen, tag, began
        self.out = self.err = None
        self.code = self.signal = None
        self.usage = {}

    def pid(self, limit=5):
        """Process id of the program, as the node sees it."""
        return int(self.node.wait_for(lambda: self.node.read(f"/fake/runs/{self.tag}.result.pid", "").strip(), limit, "the program's pid"))

    def send(self, number):
        self.node.kill(self.pid(), number)

    def wait(self, limit=60):
        try:
            out, err = self.popen.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            raise AssertionError(f"the program, or something that holds its output, did not end within {limit} s; log:\n"
                                 + "\n".join(self.node.log_text())) from None
        self.seconds = time.monotonic() - self.began
        self.out = (out or b"").decode(errors="surrogateescape")
        self.err = (err or b"").decode(errors="surrogateescape")
        result = self.node.read(f"/fake/runs/{self.tag}.result", "")
        if not result:
            raise AssertionError(f"the parent of the program said nothing: rc {self.popen.returncode}, stderr {self.err!r}")
        self.usage = json.loads(result)
        self.signal = self.usage["signal"]
        self.code = 128 + self.signal if self.signal else self.usage["exit"]
        return self

    def __repr__(self):
        return f"Run(code={self.code}, signal={self.signal}, err={self.err!r}, out={self.out!r}, log={self.node.log_text()!r})"


class Syslog:
    """What a syslog daemon would have got on /dev/log."""

    def __init__(self, path, read=True):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        os.chmod(path, 0o666)
        self.received = []
        self.thread = None
        if read:
            self.thread = threading.Thread(target=self._listen, daemon=True)
            self.thread.start()

    def _listen(self):
        while True:
            try:
                data = self.socket.recv(1 << 20)
            except OSError:
                return
            if data == b"\0stop":
                return
            self.received.append(data.decode(errors="surrogateescape"))

    def close(self):
        self.socket.close()


class Imds:
    """Instance metadata on 169.254.169.254:80 inside the node.

    mode: ok | silent (takes the connection and says nothing) | drip | slow (answers after `delay`) | status (answers `status` to everything)
    | token_status | value_status | endless | big (64 MiB) | endless_header | cut (Content-Length too large) | redirect
    | body (200 with `body`) | chunked | no_token_needed
    """

    def __init__(self, pid, value=SUPPORTED, mode="ok", address="169.254.169.254", port=80, listen=True):
        self.value, self.mode, self.address, self.port = value, mode, address, port
        self.status, self.delay, self.body = 503, 5.0, ""
        self.fail_first = 0  # this many requests get `status` first
        self.requests = []
        self.connections = 0
        self.token = "AQAEAMakeBelieveToken=="
        self.stopped = threading.Event()
        self.ready = threading.Event()
        self.listener = None
        self.pid = pid
        if listen:
            self.start()

    def start(self):
        self.stopped.clear()
        self.ready.clear()
        threading.Thread(target=self._serve, daemon=True).start()
        if not self.ready.wait(10) or self.listener is None:
            raise RuntimeError("the instance metadata service of the node did not start")

    def _serve(self):
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f"/proc/{self.pid}/ns/net") as namespace:  # of this thread only
            if libc.setns(namespace.fileno(), 0x40000000) != 0:
                self.ready.set()
                return
        listener = socket.socket(socket.AF_INET6 if ":" in self.address else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self.address, self.port))
        listener.listen(64)
        self.listener = listener
        self.ready.set()
        while not self.stopped.is_set():
            if not select.select([listener], [], [], 0.2)[0]:
                continue
            try:
                connection, _ = listener.accept()
            except OSError:
                break
            self.connections += 1
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()
        listener.close()

    def close(self):
        self.stopped.set()

    def _send(self, connection, data):
        connection.sendall(data if isinstance(data, bytes) else data.encode())

    def _answer(self, connection, status, body, headers=()):
        reason = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 503: "Service Unavailable"}
        head = [f"HTTP/1.1 {status} {reason.get(status, 'Status')}", "Content-Type: text/plain", f"Content-Length: {len(body)}",
                "Server: EC2ws", *headers]
        self._send(connection, "\r\n".join(head) + "\r\n\r\n" + body)

    def _error(self, connection, status):
        self._answer(connection, status, f'<?xml version="1.0"?>\n<html><head><title>{status}</title></head><body><h1>{status}</h1></body></html>\n')

    def _talk(self, connection):
        try:
            self._conversation(connection)
        except OSError:
            pass
        finally:
            connection.close()

    def _conversation(self, connection):
        buffer = b""
        while True:
            while b"\r\n\r\n" not in buffer:
                data = connection.recv(65536)
                if not data:
                    return
                buffer += data
            head, buffer = buffer.split(b"\r\n\r\n", 1)
            lines = head.decode(errors="replace").split("\r\n")
            method, path, *_ = lines[0].split(" ")
            headers = {}
            for line in lines[1:]:
                key, _, value = line.partition(":")
                headers[key.strip().lower()] = value.strip()
            self.requests.append({"method": method, "path": path, "headers": headers, "time": time.time()})
            is_token = method == "PUT" and path == "/latest/api/token"
            if self.mode == "silent":
                self.stopped.wait(120)
                return
            if self.mode == "slow":
                self.stopped.wait(self.delay)
            if self.mode == "status" or (self.mode == "token_status" and is_token) or (self.mode == "value_status" and not is_token):
                self._error(connection, self.status)
                continue
            if self.fail_first > 0:
                self.fail_first -= 1
                self._error(connection, self.status)
                continue
            if self.mode == "redirect" and not is_token:
                self._answer(connection, 302, "", ["Location: http://169.254.169.254/elsewhere"])
                continue
            if self.mode == "endless_header":
                self._send(connection, "HTTP/1.1 200 OK\r\n")
                while not self.stopped.is_set():
                    self._send(connection, "X-Water: " + "w" * 4000 + "\r\n")
                return
            if self.mode == "drip":
                for byte in (b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n" + self.value.encode() * 300):
                    if self.stopped.wait(0.2):
                        return
                    self._send(connection, bytes([byte]))
                return
            if path == "/elsewhere":
                self._answer(connection, 200, SUPPORTED)
                continue
            if is_token:
                ttl = headers.get("x-aws-ec2-metadata-token-ttl-seconds", "")
                if "x-forwarded-for" in headers:
                    self._error(connection, 403)
                elif not ttl.isdigit() or not 1 <= int(ttl) <= 21600:
                    self._error(connection, 400)
                else:
                    self._answer(connection, 200, self.token, [f"X-aws-ec2-metadata-token-ttl-seconds: {ttl}"])
                continue
            if headers.get("x-aws-ec2-metadata-token") != self.token and self.mode != "no_token_needed":
                self._error(connection, 401)
                continue
            if path not in ("/latest/meta-data/instance-type", "/latest/meta-data/instance-type/"):
                self._error(connection, 404)
                continue
            if self.mode in ("endless", "big"):
                size = 1 << 26
                self._send(connection, "HTTP/1.1 200 OK\r\n" + (f"Content-Length: {size}\r\n" if self.mode == "big" else "") + "\r\n")
                block = (self.value + "\n").encode() * 1000
                sent = 0
                while not self.stopped.is_set() and (self.mode == "endless" or sent < size):
                    connection.sendall(block[: size - sent] if self.mode == "big" else block)
                    sent += len(block)
                return
            if self.mode == "cut":
                self._send(connection, f"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n{self.value}")
                return
            if self.mode == "chunked":
                half = len(self.value) // 2
                self._send(connection, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                for part in (self.value[:half], self.value[half:], ""):
                    self._send(connection, f"{len(part):x}\r\n{part}\r\n")
                continue
            self._answer(connection, 200, self.body if self.mode == "body" else self.value)


class Node:
    def __init__(self, binary=None, *, names=("ultra-1", "ultra-2"), index=0, addresses=None, instance_type=SUPPORTED, dmi=SUPPORTED,
                 scontrol="/opt/slurm/bin/scontrol", parent="/opt/slurm/sbin/slurmd", imds=True, syslog="read", channel_major="235",
                 slurm_version="25.11", context="prolog_slurmd", own_addresses=True, old_list=OLD_LIST, imex_ctl=True, runner=(), config=NO_DOMAIN_WAIT, topology=True):
        if os.geteuid() != 0:
            raise PermissionError("make-believe nodes need root: mount, network and process namespaces")
        self.names = list(names)
        self.index = index
        self.addresses = list(addresses) if addresses else [f"10.20.{i // 250}.{i % 250 + 1}" for i in range(len(self.names))]
        self.parent, self.scontrol = parent, scontrol
        self.slurm_version, self.context = slurm_version, context
        self.runner = list(runner)  # what runs the program, such as an emulator of another architecture
        self.runs = 0
        self.stand_ins = []
        self.expected_refusals = False
        self.closed = False
        self.top = Path(tempfile.mkdtemp(prefix="gpu-prolog-node-"))
        (self.top / "root").mkdir()
        self.program = "/opt/gpu-prolog/bin/gpu-prolog"
        self._seed(binary, instance_type, dmi, channel_major, own_addresses, old_list, imex_ctl, config, topology)
        self.holder = subprocess.Popen(
            # A test run that is killed takes its nodes along.
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--propagation", "private",
             "/bin/sh", str(HERE / "fakes" / "boot.sh"), str(self.top / "root"), str(self.top / "seed")],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/", env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
        try:
            self._wait_until_up()
        except BaseException:
            self.holder.kill()
            raise
        self.syslog = None
        self.set_syslog(syslog)
        self.imds = Imds(self.pid, value=instance_type, listen=imds)

    # -- life ------------------------------------------------------------------------------------------------------------------

    def _seed(self, binary, instance_type, dmi, channel_major, own_addresses, old_list, imex_ctl, config, topology):
        seed = self.top / "seed"

        def put(path, text, mode=0o644):
            target = seed / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text if isinstance(text, bytes) else text.encode())
            target.chmod(mode)

        fakes = build_fakes()
        (seed / "fake" / "bin").mkdir(parents=True)
        for folder in ("runs", "systemd", "scontrol", "imex", "nvidia-imex-ctl", "getent", "systemctl"):
            (seed / "fake" / folder).mkdir()
        program = seed / "fake" / "bin" / "manager"
        shutil.copy(fakes, program)
        program.chmod(0o755)

        def tool(path):  # a file of its own for each, as on a real node: who compares inodes must not take one tool for another
            if path:
                target = seed / path.lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(fakes, target)
                target.chmod(0o755)

        for path in ["/usr/bin/systemctl", "/usr/bin/getent", "/usr/bin/nvidia-imex", self.scontrol, self.parent]:
            tool(path)
        if imex_ctl:
            tool("/usr/bin/nvidia-imex-ctl")
        if binary:
            target = seed / self.program.lstrip("/")
            target.parent.mkdir(parents=True)
            shutil.copy(binary, target)
            target.chmod(0o755)
        for command in self.runner[:1]:
            target = seed / command.lstrip("/")
            if not command.startswith("/usr/"):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(command, target)

        name = self.names[self.index] if self.names else "localhost"
        put("/etc/hostname", name + "\n")
        put("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n")
        put("/etc/group", "root:x:0:\nnogroup:x:65534:\n")
        put("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")
        put("/etc/hosts", "127.0.0.1 localhost\n")
        put("/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
        put("/etc/slurm/slurm.conf", "ClusterName=ultra\nSlurmctldHost=ctl\nSlurmdSpoolDir=/var/spool/slurmd\nPrologFlags=Alloc\n"
            f"Prolog={self.program}\nMessageTimeout=100\nSwitchType=switch/none\nNodeName={name} State=CLOUD\n"
            "PartitionName=ultra Nodes=ALL OverSubscribe=EXCLUSIVE\n")
        if topology and len(self.names) <= 18:  # one UltraServer; slurmd of a configless cluster gets this file beside its slurm.conf
            put("/etc/slurm/topology.yaml", "---\n- topology: ultra\n  cluster_default: true\n  block:\n    block_sizes:\n      - 18\n"
                f"    blocks:\n      - block: u1\n        nodes: {hostlist(self.names)}\n")
        put("/etc/nvidia-imex/config.cfg", "LOG_LEVEL=4\nLOG_FILE_NAME=/var/log/nvidia-imex.log\nDAEMONIZE=1\nBIND_INTERFACE_IP=\n"
            "SERVER_PORT=50000\nIMEX_NODE_CONFIG_FILE=/etc/nvidia-imex/nodes_config.cfg\nIMEX_WAIT_FOR_QUORUM=RECOVERY\n"
            "IMEX_CMD_ENABLED=1\nIMEX_CMD_PORT=50005\n")
        if old_list is not None:
            put(LIST, old_list)
        if config is not None:
            put("/etc/gpu-prolog.toml", config)
        put("/usr/lib/systemd/system/nvidia-imex.service", "[Unit]\nDescription=NVIDIA IMEX service\n\n[Service]\nType=forking\n"
            "TimeoutStartSec=infinity\nExecStart=/usr/bin/nvidia-imex -c /etc/nvidia-imex/config.cfg\n\n[Install]\nWantedBy=multi-user.target\n")
        (seed / "sys/fs/cgroup/system.slice/slurmstepd.scope").mkdir(parents=True)
        if dmi is not None:
            put("/sys/class/dmi/id/product_name", dmi + "\n", 0o444)
            put("/sys/class/dmi/id/sys_vendor", "Amazon EC2\n", 0o444)
            put("/sys/devices/virtual/dmi/id/product_name", dmi + "\n", 0o444)
        devices = "Character devices:\n  1 mem\n  5 /dev/tty\n 10 misc\n136 pts\n195 nvidia\n195 nvidiactl\n"
        if channel_major is not None:
            devices += f"{channel_major:>3} nvidia-caps-imex-channels\n"
        devices += "239 nvidia-caps\n511 nvidia-caps-imex-channels-not\n\nBlock devices:\n  7 loop\n259 blkext\n"
        put("/fake/proc-devices", devices, 0o444)
        lines = ["addr add 169.254.169.254/32 dev lo", "link add eth0 type veth peer name eth0peer", "link set eth0peer up", "link set eth0 up"]
        if own_addresses and self.addresses:
            own = self.addresses[self.index]
            lines.append(f"addr add {own}/64 dev eth0 nodad" if ":" in own else f"addr add {own}/16 dev eth0")
        put("/fake/ip.batch", "\n".join(lines) + "\n")
        put("/fake/systemd/unit.conf", "file=enabled\nversion=252\n")
        put("/fake/imex/conf", "")
        put("/fake/scontrol/nodes", "".join(f"{n}\t{a}\t6818\t{n}\t\n" for n, a in zip(self.names, self.addresses)))
        put("/fake/scontrol/topology", "")
        put("/fake/scontrol/config", "Configuration data as of 2026-05-04T06:00:00\nSLURM_VERSION           = 25.11.7\n")

    def _wait_until_up(self):
        end = time.monotonic() + 30
        while True:
            if self.holder.poll() is not None:
                raise RuntimeError("the node did not come up: " + self.holder.stdout.read().decode(errors="replace"))
            try:
                self.pid = int((self.top / "pid").read_text())
                if os.path.exists(f"/proc/{self.pid}/root/fake/ready"):
                    return
            except (FileNotFoundError, ValueError):
                pass
            if time.monotonic() > end:
                raise RuntimeError("the node did not come up within 30 s")
            time.sleep(0.005)

    def close(self):
        if self.closed:
            return
        self.closed = True
        self.imds.close()
        if self.syslog:
            self.syslog.close()
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.holder.wait()
        self.holder.stdout.close()
        for stand_in in self.stand_ins:
            stand_in.kill()
            stand_in.wait()
        shutil.rmtree(self.top, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # -- files -----------------------------------------------------------------------------------------------------------------

    def path(self, path):
        """The node's file as this process can reach it; absolute links inside would lead outside, so nothing here follows them."""
        return f"/proc/{self.pid}/root{path}"

    def read_bytes(self, path, default=None):
        try:
            with open(self.path(path), "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            if default is None:
                raise
            return default

    def read(self, path, default=None):
        return self.read_bytes(path, None if default is None else default.encode()).decode(errors="surrogateescape")

    def write(self, path, text, mode=0o644):
        os.makedirs(os.path.dirname(self.path(path)), exist_ok=True)
        with open(self.path(path), "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode(errors="surrogateescape"))
        os.chmod(self.path(path), mode)

    def remove(self, path):
        target = self.path(path)
        if os.path.isdir(target) and not os.path.islink(target):
            shutil.rmtree(target)
        elif os.path.lexists(target):
            os.unlink(target)

    def exists(self, path):
        return os.path.lexists(self.path(path))

    def lstat(self, path):
        return os.lstat(self.path(path))

    def install_tool(self, path):
        os.makedirs(os.path.dirname(self.path(path)), exist_ok=True)
        self.write(path, self.read_bytes("/fake/bin/manager"), 0o755)

    def config(self, text, mode=0o644):
        self.write("/etc/gpu-prolog.toml", text, mode)

    def set_slurm_conf(self, **keys):
        """Sets keys of slurm.conf, each on a line of its own."""
        lines = [line for line in self.read("/etc/slurm/slurm.conf").splitlines()
                 if line.split("=", 1)[0].lower() not in {key.lower() for key in keys}]
        self.write("/etc/slurm/slurm.conf", "\n".join(lines + [f"{key}={value}" for key, value in keys.items()]) + "\n")

    def tree(self, ignore=("/proc", "/fake", "/usr", "/dev/log")):
        """Everything in the node: kind, mode, owner, content and time of change of every path."""
        found = {}
        top = self.path("/").rstrip("/")
        for folder, folders, files in os.walk(top):
            inside = folder[len(top):] or "/"
            folders[:] = [name for name in folders if os.path.join(inside, name) not in ignore]
            for name in [""] + folders + files:
                path = os.path.join(inside, name) if name else inside
                if path in ignore or (name and name in folders and path not in found and False):
                    continue
                info = os.lstat(top + path)
                entry = [stat.S_IFMT(info.st_mode), stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid, info.st_mtime_ns, info.st_rdev, info.st_ino]
                if stat.S_ISREG(info.st_mode):
                    with open(top + path, "rb") as file:
                        entry.append(hashlib.sha256(file.read()).hexdigest())
                elif stat.S_ISLNK(info.st_mode):
                    entry.append(os.readlink(top + path))
                found[path] = tuple(entry)
        return found

    # -- the surroundings ------------------------------------------------------------------------------------------------------

    def set_syslog(self, how):
        """read: a daemon that reads; unread: a socket nobody reads; absent: no /dev/log."""
        if self.syslog:
            self.syslog.close()
            self.syslog = None
        self.remove("/dev/log")
        if how != "absent":
            self.syslog = Syslog(self.path("/dev/log"), read=how == "read")

    def unit(self, **settings):
        """Settings of the make-believe unit, see fakes/manager.cpp."""
        lines = dict(line.split("=", 1) for line in self.read("/fake/systemd/unit.conf").splitlines())
        lines.update({key: str(value) for key, value in settings.items()})
        self.write("/fake/systemd/unit.conf", "".join(f"{key}={value}\n" for key, value in lines.items()))

    def daemon(self, **settings):
        """Settings of the make-believe daemon, see fakes/imex.cpp; None takes one back."""
        lines = dict(line.split("=", 1) for line in self.read("/fake/imex/conf").splitlines())
        lines.update({key: str(value) for key, value in settings.items() if value is not None})
        for key in [key for key, value in settings.items() if value is None]:
            lines.pop(key, None)
        self.write("/fake/imex/conf", "".join(f"{key}={value}\n" for key, value in lines.items()))

    def script(self, tool, verb, *actions):
        """Scripted actions for a verb of a tool, one for each call, the last one stays; see fakes/common.cpp."""
        self.remove(f"/fake/{tool}/{verb}.seq.n")
        if actions:
            self.write(f"/fake/{tool}/{verb}.seq", "".join(action + "\n" for action in actions))
        else:
            self.remove(f"/fake/{tool}/{verb}.seq")

    def nodes(self, entries):
        """What scontrol knows: list of (name, address, port, comment); address '-' is none."""
        lines = []
        for entry in entries:
            name, address, port, comment = (list(entry) + [6818, ""][len(entry) - 2:])[:4]
            lines.append(f"{name}\t{address}\t{port}\t{name}\t{comment}\n")
        self.write("/fake/scontrol/nodes", "".join(lines))

    def hosts(self, **names):
        self.write("/fake/getent/hosts", "".join(f"{name} {addresses}\n" for name, addresses in names.items()))

    def ip(self, *words):
        subprocess.run(["nsenter", "-t", str(self.pid), "-n", "ip", *words], check=True, capture_output=True)

    def sh(self, command, check=True, limit=30):
        """Runs a shell line in the node, as root, with an ordinary PATH."""
        done = subprocess.run(self.enter() + ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", BY_TEST, "/bin/sh", "-c", command],
                              capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise RuntimeError(f"{command!r} in the node: rc {done.returncode}: {done.stderr}")
        return done

    def enter(self):
        return ["nsenter", "-t", str(self.pid), "-m", "-u", "-i", "-n", "-p", "--"]

    def kill(self, pid, number):
        subprocess.run(self.enter() + ["/bin/kill", f"-{int(number)}", "--", str(pid)], check=True, capture_output=True)

    def start_unit(self):
        """As a boot or an earlier job left it: the daemon runs, with the list that is there (any list: nothing is checked)."""
        self.daemon(no_strict=1)
        self.sh("systemctl start nvidia-imex")
        self.daemon(no_strict=None)
        self.forget_calls()

    def stand_in(self, *argv):
        """A process in the node that lives until the node is closed; returns its process id there."""
        popen = subprocess.Popen(self.enter() + ["/bin/sh", "-c", 'echo $$; exec "$@"', "sh", *(argv or ("sleep", "1000"))],
                                 stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.stand_ins.append(popen)
        return int(popen.stdout.readline())

    def job_process(self, job, step="step_0/user/task_0", scope="slurmstepd.scope", hierarchy="v2"):
        """A live process in a job's cgroup; returns (pid, path of cgroup.procs)."""
        pid = self.stand_in()
        if hierarchy == "v2":
            folder = f"/sys/fs/cgroup/system.slice/{scope}/job_{job}/{step}"
        else:
            folder = f"/sys/fs/cgroup/freezer/slurm/uid_1000/job_{job}/{step}"
        self.write(folder + "/cgroup.procs", f"{pid}\n")
        return pid, folder + "/cgroup.procs"

    # -- what happened ---------------------------------------------------------------------------------------------------------

    def calls(self, tool=None, verb=None, by_test=False):
        """Every call of a make-believe tool, in order; those of the test's own shell lines only where they are wanted."""
        found = [json.loads(line) for line in self.read("/fake/calls", "").splitlines()]
        found = [call for call in found if (BY_TEST in call["env"]) == by_test]
        if tool:
            found = [call for call in found if call["tool"] == tool]
        if verb:
            found = [call for call in found if verb in call["argv"]]
        return found

    def forget_calls(self):
        self.remove("/fake/calls")

    def verbs(self):
        """The systemctl verbs in the order they were asked."""
        known = {"is-enabled", "is-active", "is-failed", "show", "start", "stop", "kill", "reset-failed", "cancel", "list-jobs"}
        return [next((word for word in call["argv"][1:] if word in known), "?") for call in self.calls("systemctl")]

    def log_text(self):
        return self.read(LOG, "").splitlines()

    def log(self, level=None):
        """(level, job, text) of every line of the log file; a line of another form fails."""
        found = []
        for line in self.log_text():
            match = LOG_LINE.match(line)
            assert match, f"not a line of the script's form: {line!r}"
            if level is None or match[2] == level:
                found.append((match[2], match[4], match[5]))
        return found

    def list(self):
        return self.read_bytes(LIST, b"")

    def starts(self):
        """The node list that the daemon read at each of its starts."""
        return [json.loads(line)["list"] for line in self.read("/fake/imex/starts", "").splitlines()]

    def unit_state(self):
        out = self.sh("systemctl show nvidia-imex -p ActiveState -p SubState -p MainPID -p Job").stdout
        return dict(line.split("=", 1) for line in out.splitlines())

    def processes(self):
        """(pid, parent, command line) of every process in the node but process 1."""
        found = []
        for entry in os.listdir(self.path("/proc")):
            if not entry.isdigit() or entry == "1":
                continue
            try:
                status = self.read(f"/proc/{entry}/stat")
                words = self.read(f"/proc/{entry}/cmdline").replace("\0", " ").strip()
            except (OSError, ProcessLookupError):
                continue
            rest = status.rsplit(")", 1)[1].split()
            if rest[0] in "ZX":
                continue
            found.append((int(entry), int(rest[1]), words))
        return found

    def leftovers(self, grace=2.0):
        """Processes that a run left behind: neither the unit's nor a stand-in of the test, and still there after the grace time."""
        end = time.monotonic() + grace
        while True:
            found = [p for p in self.processes() if p[2] and "nvidia-imex -c" not in p[2] and not p[2].startswith("sleep 1000")]
            if not found or time.monotonic() > end:
                return found
            time.sleep(0.02)

    def refusals(self):
        return self.read("/fake/refused", "").splitlines()

    def wait_for(self, condition, limit=20, what="a condition"):
        end = time.monotonic() + limit
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"waited {limit} s for {what}; log:\n" + "\n".join(self.log_text()))
            time.sleep(0.01)

    # -- running the program ---------------------------------------------------------------------------------------------------

    def environment(self, **changes):
        """What slurmd of this version gives its Prolog for an exclusive job on all nodes of this node's cluster."""
        environment = captured_environment(self.slurm_version, 2, self.context)
        nodes = changes.pop("NODES", None) or hostlist(self.names)
        environment.update(SLURM_JOB_ID="4711", SLURM_JOBID="4711", SLURMD_NODENAME=self.names[self.index], SLURM_CONF="/etc/slurm/slurm.conf",
                           SLURM_NODELIST=nodes, SLURM_JOB_NODELIST=nodes, SLURM_JOB_NUM_NODES=str(len(self.names)),
                           SLURM_JOB_PARTITION="ultra", SLURM_CLUSTER_NAME="ultra")
        for key, value in changes.items():
            if value is None:
                environment.pop(key, None)
            else:
                environment[key] = value
        return environment

    def start(self, *args, argv0=None, env=None, environment=None, tracer=(), stdin="null", stdout=None, stderr=None, umask="022", cwd="/",
              group="1", parent=None):
        """Starts the program as slurmd starts a Prolog (no arguments) or with arguments; returns a Run that is still going on."""
        self.runs += 1
        tag = str(self.runs)
        environment = self.environment(**(env or {})) if environment is None else environment
        self.write(f"/fake/runs/{tag}.env", "\0".join(f"{key}={value}" for key, value in environment.items()) + "\0")
        command = [*tracer, *self.runner] + ([self.program] if tracer or self.runner else [])
        first = argv0 or self.program
        if self.runner and argv0:
            command = [*tracer, *self.runner, "-0", argv0, self.program]
        path = command[0] if command else self.program
        words = [command[0] if command else first, path, *command[1:], *args]
        if not command and argv0 and argv0.startswith("/"):
            words[1] = argv0  # a link to the program, or a copy of it
        options = [f"env=/fake/runs/{tag}.env", f"result=/fake/runs/{tag}.result", f"in={stdin}", f"umask={umask}", f"cwd={cwd}", f"group={group}"]
        pipes = {}
        for name, how in (("out", stdout), ("err", stderr)):
            if how in ("closed", "full"):
                options.append(f"{name}={how}")
                pipes[name] = subprocess.PIPE
            else:
                pipes[name] = how if how is not None else subprocess.PIPE
        began = time.monotonic()
        popen = subprocess.Popen(self.enter() + [parent or self.parent, *options, "--", *words], stdin=subprocess.DEVNULL,
                                 stdout=pipes["out"], stderr=pipes["err"], env={})
        return Run(self, popen, tag, began)

    def run(self, *args, limit=60, **how):
        return self.start(*args, **how).wait(limit)

    def prolog(self, *args, limit=60, **how):
        """As slurmd runs it: no arguments. With arguments, the word imex-prolog stands in front of them."""
        return self.run(*(("imex-prolog",) + args if args else ()), limit=limit, **how)

    def strace(self, what, *args, limit=60, **how):
        """A run under strace; returns (Run, lines). strace is a grandchild, so the program's parent stays what it is."""
        tag = self.runs + 1
        run = self.run(*args, limit=limit, tracer=["/usr/bin/strace", "-D", "-f", "-qq", "-e", what, "-o", f"/fake/runs/{tag}.strace", "--"], **how)
        return run, self.read(f"/fake/runs/{run.tag}.strace", "").splitlines()


def hostlist(names):
    """ultra-1,ultra-2,ultra-3 as ultra-[1-3], as Slurm writes it."""
    groups = []
    for name in names:
        match = re.fullmatch(r"(.*?)(\d+)", name)
        if match and groups and groups[-1][0] == match[1] and groups[-1][2] + 1 == int(match[2]) and len(groups[-1][3]) == len(match[2]):
            groups[-1][2] = int(match[2])
        elif match:
            groups.append([match[1], int(match[2]), int(match[2]), match[2]])
        else:
            groups.append([name, None, None, ""])
    words = []
    for prefix, low, high, first in groups:
        words.append(prefix if low is None else prefix + first if low == high else f"{prefix}[{first}-{high:0{len(first)}d}]")
    return ",".join(words)
