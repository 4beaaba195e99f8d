"""What every test here shares: the make-believe nvidia-smi as a module."""
import importlib.machinery
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True


def load_fake():
    if "fake_nvidia_smi" in sys.modules:
        return sys.modules["fake_nvidia_smi"]
    loader = importlib.machinery.SourceFileLoader("fake_nvidia_smi", os.path.join(HERE, "fake_nvidia_smi"))
    spec = importlib.util.spec_from_loader("fake_nvidia_smi", loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules["fake_nvidia_smi"] = module
    loader.exec_module(module)
    return module


load_fake()

import shutil        # noqa: E402
import tempfile      # noqa: E402

import pytest        # noqa: E402

import mignode       # noqa: E402


@pytest.fixture
def make_node():
    """A function that gives a booted node; every node is taken down and its folder removed at the end of the test."""
    nodes = []

    def make(*boards, boot=True, prepare=None, **behaviour):
        if not os.access(mignode.BINARY, os.X_OK):
            pytest.fail("no binary at %s (build it, or set GPU_PROLOG)" % mignode.BINARY)
        folder = tempfile.mkdtemp(prefix="mignode-")
        os.chmod(folder, 0o755)
        node = mignode.Node(folder, boards, **behaviour)
        nodes.append(node)
        if prepare:
            prepare(node)
        return node.boot() if boot else node

    yield make
    for node in nodes:
        node.power_off()
        shutil.rmtree(node.folder, ignore_errors=True)
