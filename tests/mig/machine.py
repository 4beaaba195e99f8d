"""A machine with real systemd and real cloud-init (systemd-nspawn on a Debian root), the make-believe nvidia-smi and a
stand-in for slurmd. Its disk outlives a boot; /proc/uptime and CLOCK_MONOTONIC are the host's, so times compare."""
import json
import os
import shutil
import subprocess
import tempfile
import time

import fake_nvidia_smi as fake
import mignode

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = mignode.PROJECT
INSTANCE = "i-0a1b2c3d4e5f60718"
STATE = "/var/lib/fake-nvidia-smi/state.json"

SLURMD_UNIT = """[Unit]
Description=Stand-in for slurmd
After=network-online.target
Wants=network-online.target

[Service]
ExecStart=/bin/sh -c 'cut -d" " -f1 /proc/uptime >>/var/log/slurmd.started; exec /usr/sbin/slurmd 1000000'

[Install]
WantedBy=multi-user.target
"""

SYSTEMCTL_WATCH = """#!/bin/sh
echo "$*" >>/var/log/systemctl.calls
exec /usr/bin/systemctl.real "$@"
"""


def root(suite):
    r = subprocess.run([os.path.join(HERE, "make-roots"), suite], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=900)
    if r.returncode != 0:
        raise RuntimeError("make-roots %s: %s" % (suite, r.stderr[-500:]))
    return r.stdout.split()[-1]


class Machine:
    def __init__(self, boards, suite="trixie", cloud_init=True, **behaviour):
        self.folder = tempfile.mkdtemp(prefix="migmachine-")
        self.name = "mig" + os.path.basename(self.folder)[-8:].replace("_", "x").lower()
        self.root = os.path.join(self.folder, "root")
        for d in ("root", "upper", "work"):
            os.mkdir(os.path.join(self.folder, d))
        os.chmod(os.path.join(self.folder, "upper"), 0o755)
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", "lowerdir=%s,upperdir=%s/upper,workdir=%s/work" % (root(suite), self.folder, self.folder), self.root], check=True)
        # An overlay may be in memory, so that no marker is kept there: this folder is on the disk itself.
        for d in (os.path.join(self.folder, "kept"), self.path("/var/lib/gpu-prolog")):
            os.makedirs(d, mode=0o755, exist_ok=True)
        subprocess.run(["mount", "--bind", os.path.join(self.folder, "kept"), self.path("/var/lib/gpu-prolog")], check=True)
        self.process = None
        self.boots = 0
        self.copy(os.path.join(HERE, "fake_nvidia_smi"), "/usr/bin/nvidia-smi")
        self.copy(mignode.BINARY, "/usr/local/sbin/gpu-prolog")
        self.copy(self.path("/bin/sleep"), "/usr/sbin/slurmd")
        self.write("/usr/sbin/modprobe", "#!/bin/sh\nexit 0\n", 0o755, replace=True)
        if not os.path.exists(self.path("/usr/bin/systemctl.real")):
            os.rename(self.path("/usr/bin/systemctl"), self.path("/usr/bin/systemctl.real"))
            self.write("/usr/bin/systemctl", SYSTEMCTL_WATCH, 0o755)
        os.makedirs(self.path("/var/lib/fake-nvidia-smi"), exist_ok=True)
        behaviour.setdefault("boots_itself", True)
        fake.save(self.path(STATE), fake.new_state(list(boards), **behaviour))
        self.unit("slurmd.service", SLURMD_UNIT)
        for noise in ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer", "systemd-networkd-wait-online.service"):
            self.mask(noise)
        self.write("/etc/machine-id", "")
        if cloud_init:
            self.write("/etc/cloud/cloud.cfg.d/99_test.cfg", "datasource_list: [ NoCloud, None ]\nnetwork: {config: disabled}\n")
            self.write("/var/lib/cloud/seed/nocloud/meta-data", "instance-id: %s\nlocal-hostname: gpu1\n" % INSTANCE)
            self.write("/var/lib/cloud/seed/nocloud/user-data", "#cloud-config\n{}\n")
        else:
            self.write("/etc/cloud/cloud-init.disabled", "")
            # Without cloud-init the instance id is where a node that ran it once has it.
            self.write("/var/lib/cloud/data/instance-id", INSTANCE + "\n")

    def path(self, inside):
        full = self.root + inside
        if os.path.islink(self.root + "/bin") and inside.startswith(("/bin/", "/sbin/")):
            full = self.root + "/usr" + inside
        return full

    def write(self, inside, text, mode=0o644, replace=False):
        full = self.path(inside)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        if replace and os.path.lexists(full):
            os.unlink(full)
        with open(full, "w") as f:
            f.write(text)
        os.chmod(full, mode)

    def read(self, inside):
        try:
            with open(self.path(inside)) as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def copy(self, source, inside):
        shutil.copy(source, self.path(inside))
        os.chmod(self.path(inside), 0o755)

    def unit(self, name, text, wanted_by="multi-user.target"):
        self.write("/etc/systemd/system/" + name, text)
        if wanted_by and name.endswith(".service"):
            self.enable(name, wanted_by)

    def enable(self, name, wanted_by="multi-user.target"):
        folder = self.path("/etc/systemd/system/%s.wants" % wanted_by)
        os.makedirs(folder, exist_ok=True)
        os.symlink("/etc/systemd/system/" + name, os.path.join(folder, name))

    def mask(self, name):
        os.makedirs(self.path("/etc/systemd/system"), exist_ok=True)
        link = self.path("/etc/systemd/system/" + name)
        if not os.path.lexists(link):
            os.symlink("/dev/null", link)

    def boothook(self, text):
        self.write("/var/lib/cloud/seed/nocloud/user-data", text)

    # -- state
    def state(self):
        return fake.load(self.path(STATE))

    def edit(self, change):
        s = self.state()
        change(s)
        fake.save(self.path(STATE), s)

    def calls(self):
        return fake.calls(self.path(STATE))

    def layouts(self):
        out = []
        for g in self.state()["gpus"]:
            names = {p["id"]: p["name"] for p in fake.BOARDS[g["board"]]["profiles"]}
            full = {}
            for gi in g["gis"]:
                if len(gi["cis"]) == 1:
                    full[names[gi["profile"]]] = full.get(names[gi["profile"]], 0) + 1
            out.append(full)
        return out

    def slurmd_starts(self):
        return [float(x) for x in self.read("/var/log/slurmd.started").split()]

    def systemctl_calls(self):
        return self.read("/var/log/systemctl.calls").splitlines()

    # -- running
    def start(self, limit=120):
        """Boots; returns "up" when systemd has finished, or "reboot" / "off" when the machine went down before."""
        self.boots += 1
        log = open(os.path.join(self.folder, "console.%d" % self.boots), "w")
        self.process = subprocess.Popen(["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "-D", self.root, "-M", self.name, "--private-network", "--link-journal=no", "--resolv-conf=off", "--timezone=off",
                                         "-b", "--console=pipe"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=dict(os.environ, SYSTEMD_NSPAWN_UNIFIED_HIERARCHY="1"))
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                rc = self.process.returncode
                self.process = None
                return "reboot" if rc == 133 else "off" if rc == 0 else "nspawn ended with %d: %s" % (rc, self.console())
            r = self.run("/usr/bin/systemctl.real", "is-system-running")
            if r is not None and r.stdout.strip() in ("running", "degraded"):
                return "up"
            time.sleep(0.2)
        return "not up within %d s:\n%s\n%s" % (limit, self.console(), self.jobs())

    def console(self):
        with open(os.path.join(self.folder, "console.%d" % self.boots), errors="replace") as f:
            return f.read()[-3000:]

    def jobs(self):
        r = self.run("/usr/bin/systemctl.real", "list-jobs", "--no-legend")
        return r.stdout if r else ""

    def leader(self):
        try:
            with open("/proc/%d/task/%d/children" % (self.process.pid, self.process.pid)) as f:
                kids = f.read().split()
            return int(kids[0]) if kids else None
        except (OSError, AttributeError):
            return None

    def run(self, *argv, timeout=60):
        pid = self.leader()
        if pid is None:
            return None
        try:
            return subprocess.run(["nsenter", "-t", str(pid), "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *argv],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            return None

    def show(self, unit, key):
        r = self.run("/usr/bin/systemctl.real", "show", "-P", key, unit)
        return r.stdout.strip() if r else ""

    def wait_for(self, what, limit=30):
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            if what():
                return True
            time.sleep(0.1)
        return False

    def stop(self):
        if self.process is None:
            return
        self.run("/usr/bin/systemctl.real", "--no-block", "poweroff")
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            pid = self.leader()
            if pid:
                os.kill(pid, 9)
            self.process.kill()
            self.process.wait()
        self.process = None

    def close(self):
        if self.process is not None:
            pid = self.leader()
            if pid:
                try:
                    os.kill(pid, 9)
                except OSError:
                    pass
            self.process.kill()
            self.process.wait()
            self.process = None
        subprocess.run(["umount", self.path("/var/lib/gpu-prolog")], stderr=subprocess.DEVNULL)
        for _ in range(20):
            if subprocess.run(["umount", self.root], stderr=subprocess.DEVNULL).returncode == 0:
                break
            time.sleep(0.1)
        else:
            subprocess.run(["umount", "-l", self.root])
        shutil.rmtree(self.folder, ignore_errors=True)

    def status(self):
        text = self.read("/var/lib/gpu-prolog/mig-setup.json")
        return json.loads(text) if text else None
