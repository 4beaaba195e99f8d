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
