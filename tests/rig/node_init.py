"""First process of one rig node: the caller starts it in fresh mount, network, pid, uts and ipc namespaces.

It mounts the node's own root, says "ready" with its process id as the machine sees it, and then is to the node what
systemd is to a real one: it starts what it is told to start over stdin (one JSON object a line), reaps orphans, and dies
when stdin closes. The node is gone with it: the kernel ends every process of its pid namespace and drops every mount.
"""
import ctypes
import json
import os
import select
import signal
import stat
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)
ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "SLURM_CONF": "/rig/etc/slurm.conf"}


def mount(source, target, kind, options=""):
    subprocess.run(["mount", "-t", kind, *(["-o", options] if options else []), source, target], check=True)


def bind(source, target):
    subprocess.run(["mount", "--bind", source, target], check=True)


def device(path, major, minor):
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    os.chmod(path, 0o666)


def build_root(spec):
    root = spec["root"]
    mount("overlay", root, "overlay", f"lowerdir={spec['lower']},upperdir={spec['upper']},workdir={spec['work']}")
    machine_pid = int(os.readlink("/proc/self"))  # the old /proc still counts as the machine does
    for name in ("proc", "sys", "dev", "run", "tmp", "rig"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
    mount("proc", f"{root}/proc", "proc")
    mount("sysfs", f"{root}/sys", "sysfs", "ro")
    mount("run", f"{root}/run", "tmpfs", "mode=0755")
    mount("tmp", f"{root}/tmp", "tmpfs", "mode=1777")
    # A /dev of the node's own: the program under test makes device nodes in it.
    mount("dev", f"{root}/dev", "tmpfs", "mode=0755")
    for name, (major, minor) in {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9),
                                 "tty": (5, 0)}.items():
        device(f"{root}/dev/{name}", major, minor)
    for name in ("pts", "shm"):
        os.mkdir(f"{root}/dev/{name}")
    mount("devpts", f"{root}/dev/pts", "devpts", "newinstance,ptmxmode=0666")
    mount("shm", f"{root}/dev/shm", "tmpfs", "mode=1777")
    for link, target in {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0",
                         "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}.items():
        os.symlink(target, f"{root}/dev/{link}")
    bind(spec["shared"], f"{root}/rig")
    for source, target in spec["binds"]:
        if not os.path.exists(f"{root}{target}"):
            os.makedirs(os.path.dirname(f"{root}{target}"), exist_ok=True)
            open(f"{root}{target}", "w").close()
        bind(source, f"{root}{target}")
    if spec["driver"]:
        mount("driver", f"{root}/proc/driver", "tmpfs", "mode=0555")
        os.mkdir(f"{root}/proc/driver/nvidia")
        with open(f"{root}/proc/driver/nvidia/version", "w", encoding="ascii") as version:
            version.write(f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {spec['driver']}  Release Build  (root@rig)\n")
    libc.sethostname(spec["name"].encode(), len(spec["name"]))
    os.chdir(root)
    subprocess.run(["pivot_root", ".", "."], check=True)
    os.chroot(".")
    subprocess.run(["umount", "-l", "."], check=True, env=ENV)
    os.chdir("/")
    return machine_pid


class Services:
    def __init__(self):
        self.pids = {}
        self.exits = {}

    def start(self, name, argv, log, env):
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                null = os.open("/dev/null", os.O_RDONLY)
                out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
                for fd, target in ((null, 0), (out, 1), (out, 2)):
                    os.dup2(fd, target)
                os.closerange(3, 256)
                signal.pthread_sigmask(signal.SIG_SETMASK, [])
                os.execve(argv[0], argv, ENV | env)
            finally:
                os._exit(127)
        self.pids[name] = pid
        self.exits.pop(name, None)
        return pid

    def reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for name, known in list(self.pids.items()):
                if known == pid:
                    del self.pids[name]
                    self.exits[name] = os.waitstatus_to_exitcode(status)

    def handle(self, request):
        if request["do"] == "start":
            return self.start(request["name"], request["argv"], request["log"], request.get("env", {}))
        if request["do"] == "kill":
            pid = self.pids.get(request["name"])
            if pid is not None:
                os.kill(pid, request["signal"])
            return pid
        if request["do"] == "running":
            return self.pids.get(request["name"])
        if request["do"] == "exit":
            return self.exits.get(request["name"])
        raise ValueError(request)


def main():
    spec = json.loads(sys.argv[1])
    machine_pid = build_root(spec)
    services = Services()
    wake, wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_w)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    answers = os.dup(1)
    os.set_inheritable(answers, False)
    os.write(answers, json.dumps({"ready": machine_pid}).encode() + b"\n")
    pending = b""
    while True:
        ready, _, _ = select.select([0, wake], [], [])
        if wake in ready:
            try:
                os.read(wake, 4096)
            except BlockingIOError:
                pass
        services.reap()
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                return
            pending += data
            while b"\n" in pending:
                line, pending = pending.split(b"\n", 1)
                os.write(answers, json.dumps({"answer": services.handle(json.loads(line))}).encode() + b"\n")


main()
