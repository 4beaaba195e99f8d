"""The rig leaves nothing behind, whatever ends it."""
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import rig

PROGRAM = """
import sys, time
sys.path.insert(0, sys.argv[1])
import rig
with rig.Cluster(sys.argv[2], sys.argv[3], nodes=2) as c:
    print(c.work, flush=True)
    if sys.argv[4] == "raise":
        raise SystemExit(9)
    time.sleep(60)
"""


def left(work):
    """Processes and mounts of a cluster that was in this folder."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if str(work) in (process / "cmdline").read_text().replace("\0", " "):
                    found.append(process.name)
            except OSError:
                pass
    return found + [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(work) in line]


@pytest.mark.parametrize("end", ["raise", "kill"])
def test_nothing_outlives_a_cluster(clusters, end, tmp_path):
    clusters.close()
    clusters.need_root()
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    true = tmp_path / "true"
    true.write_text("#!/bin/sh\n")
    true.chmod(0o755)
    child = subprocess.Popen([sys.executable, program, Path(rig.__file__).parent, clusters.root, true, end], stdout=subprocess.PIPE, text=True)
    work = Path(child.stdout.readline().strip())
    assert work.name.startswith(rig.FOLDER)
    if end == "kill":
        assert left(work) != []
        child.send_signal(signal.SIGKILL)
    child.wait(timeout=60)
    child.stdout.close()
    rig.until(lambda: f"{left(work)} to go", lambda: left(work) == [], 20)
    if end == "kill":
        assert work.exists()
        rig.drop_left_overs()
    assert not work.exists()
    assert os.path.dirname(work) == tempfile.gettempdir()
