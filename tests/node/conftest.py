"""Fixtures of the tests on make-believe nodes.

The program under test: $GPU_PROLOG, else dist/x86_64/gpu-prolog. Tests marked aarch64 run a second time with $GPU_PROLOG_AARCH64, else
dist/aarch64/gpu-prolog, under qemu-aarch64-static (or $QEMU_AARCH64). What is missing fails: no root, no namespaces, no program, no
emulator. Nothing is skipped.
"""

import os
import shutil
from pathlib import Path

import pytest

import node as node_module
from node import Node


def pytest_configure(config):
    config.addinivalue_line("markers", "aarch64: runs a second time with the aarch64 program under qemu-user")


def pytest_generate_tests(metafunc):
    if "product" in metafunc.fixturenames:
        both = metafunc.definition.get_closest_marker("aarch64") is not None
        metafunc.parametrize("product", ["x86_64", "aarch64"] if both else ["x86_64"], indirect=True, scope="session")


class Product:
    def __init__(self, architecture, path, runner=()):
        self.architecture, self.path, self.runner = architecture, path, list(runner)


@pytest.fixture(scope="session")
def product(request):
    architecture = request.param
    variable = "GPU_PROLOG" if architecture == "x86_64" else "GPU_PROLOG_AARCH64"
    path = os.environ.get(variable) or str(node_module.ROOT / "dist" / architecture / "gpu-prolog")
    if not os.access(path, os.X_OK):
        pytest.fail(f"no program to test at {path}: run scripts/build --arch {architecture}, or set {variable}")
    runner = []
    if architecture == "aarch64":
        emulator = os.environ.get("QEMU_AARCH64") or shutil.which("qemu-aarch64-static") or "/usr/bin/qemu-aarch64-static"
        if not Path(emulator).is_file():
            pytest.fail(f"no emulator {emulator}: install qemu-user-static")
        runner = [emulator]
    return Product(architecture, os.path.abspath(path), runner)


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
    """The first node of an UltraServer of two, with everything in order."""
    return make_node()
