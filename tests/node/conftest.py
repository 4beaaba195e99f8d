"""Fixtures of the tests on make-believe nodes.

The program under test: $GPU_PROLOG, else dist/x86_64/gpu-prolog. For another architecture: $GPU_PROLOG_AARCH64 with qemu-aarch64-static
(or $QEMU_AARCH64). What is missing fails: no root, no namespaces, no program, no emulator. Nothing is skipped.
"""

import os
import shutil
from pathlib import Path

import pytest

import node as node_module
from node import Node


def pytest_configure(config):
    config.addinivalue_line("markers", "aarch64: also run with the aarch64 program under qemu-user (-m aarch64, GPU_PROLOG_AARCH64)")


def pytest_addoption(parser):
    parser.addoption("--aarch64", action="store_true", help="run the tests marked aarch64 with $GPU_PROLOG_AARCH64 under qemu-aarch64-static")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--aarch64"):
        chosen = [item for item in items if item.get_closest_marker("aarch64")]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


class Product:
    def __init__(self, path, runner=()):
        self.path, self.runner = path, list(runner)

    @property
    def emulated(self):
        return bool(self.runner)


@pytest.fixture(scope="session")
def product(pytestconfig):
    if pytestconfig.getoption("--aarch64"):
        path = os.environ.get("GPU_PROLOG_AARCH64") or str(node_module.ROOT / "dist/aarch64/gpu-prolog")
        emulator = os.environ.get("QEMU_AARCH64") or shutil.which("qemu-aarch64-static") or "qemu-aarch64-static"
        if not Path(emulator).is_file():
            pytest.fail(f"no emulator {emulator}: install qemu-user-static")
        runner = [emulator]
    else:
        path = os.environ.get("GPU_PROLOG") or str(node_module.ROOT / "dist/x86_64/gpu-prolog")
        runner = []
    if not os.access(path, os.X_OK):
        pytest.fail(f"no program to test at {path}: run scripts/build, or set GPU_PROLOG")
    return Product(os.path.abspath(path), runner)


@pytest.fixture
def bare_node():
    """Makes nodes without the program; for tests of the make-believe surroundings themselves."""
    made = []

    def make(**settings):
        made.append(Node(None, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def make_node(product):
    """Makes nodes with the program; at the end nothing may be left behind and no make-believe tool may have been asked in vain."""
    made = []

    def make(**settings):
        made.append(Node(product.path, runner=product.runner, **settings))
        return made[-1]

    yield make
    problems = []
    for one in made:
        if not one.closed:
            if not one.expected_refusals:
                problems += one.refusals()
            problems += [f"left behind: {left}" for left in one.leftovers()]
        one.close()
    assert not problems, problems


@pytest.fixture
def node(make_node):
    """One node of an UltraServer of two, with everything in order."""
    return make_node()
