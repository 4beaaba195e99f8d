"""Builds the make-believe programs of the lab, once for each state of their sources."""

import hashlib
import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def _build(name, folder, extra=()):
    """The static program made of folder/*.cpp; built when its sources, or this list of flags, are new."""
    sources = sorted(folder.glob("*.cpp"))
    flags = ["-std=c++20", "-O2", "-static", "-Wall", "-Wextra", *extra]
    digest = hashlib.sha256(" ".join(flags).encode())
    for source in sorted(folder.glob("*.[ch]pp")):
        digest.update(source.read_bytes())
    cache = pathlib.Path(os.environ.get("LAB_BUILD_DIR", ROOT / ".build" / "lab"))
    program = cache / digest.hexdigest()[:16] / name
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        partial = program.with_suffix(f".{os.getpid()}")
        subprocess.run([os.environ.get("CXX", "g++"), *flags, "-o", str(partial), *map(str, sources)], check=True)
        partial.rename(program)
    return program


def imexd():
    """nvidia-imex and nvidia-imex-ctl in one (tests/lab/imexd)."""
    return _build("nvidia-imex", HERE / "imexd")


def node_program():
    """Process 1 of a node: systemd, slurmd, IMDS and syslog in one, and their clients (tests/lab/node)."""
    return _build("lab-node", HERE / "node")
