"""The clusters of the rig tests: one for each Slurm version, made once, as new for each test."""
import os
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import rig  # noqa: E402

BLOCKS = {"b1": "node[1-3]", "b2": "node[4-6]"}


def pytest_configure(config):
    # A run that is told to stop takes its clusters with it, also where a shell started it with SIGINT ignored. (A worker of
    # pytest-xdist is told by the run.)
    if not hasattr(config, "workerinput"):
        for sig in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sig, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """One group for each version and kind of cluster: its tests follow one another on one worker of pytest-xdist."""
    kinds = {"test_domain": "domain", "test_addresses": "addresses"}
    for item in items:
        version = item.callspec.params["clusters"]
        item.add_marker(pytest.mark.xdist_group(f"{version} {kinds.get(item.module.__name__, 'jobs')}"))


def binary():
    path = Path(os.environ.get("GPU_PROLOG", rig.PROJECT / "dist/x86_64/gpu-prolog"))
    if not path.is_file():
        pytest.fail(f"no program to test at {path}: run scripts/build, or name one in GPU_PROLOG", pytrace=False)
    return path


class Clusters:
    """The cluster of one Slurm version: made when it is first asked for, and anew for a test that wants it otherwise or after
    one that left it in a state that cannot be cleaned."""

    def __init__(self, version):
        self.version = version
        self.options = None
        self.cluster = None
        self.root = None
        self.missing = ""

    def need_root(self):
        if self.root is None and not self.missing:
            try:
                self.root = rig.slurm_root(self.version)
            except rig.NoSuite as reason:
                self.missing = str(reason)
        if self.missing:
            pytest.skip(f"NOT TRIED: {self.missing}")

    def get(self, **options):
        self.need_root()
        options = {"nodes": 6, "blocks": BLOCKS} | options
        if self.cluster is not None and self.options == options:
            try:
                self.cluster.clean()
                return self.cluster
            except (rig.RigError, OSError):
                pass
        self.close()
        self.options = options
        self.cluster = rig.Cluster(self.root, binary(), **options)
        try:
            self.cluster.up()
        except BaseException:
            self.close()
            raise
        return self.cluster

    def close(self):
        cluster, self.cluster = self.cluster, None
        if cluster is not None:
            cluster.down()


@pytest.fixture(scope="session", params=os.environ.get("RIG_SLURM", "24.11 26.05").split())
def clusters(request):
    if os.geteuid() != 0:
        pytest.fail("the rig needs root: it makes namespaces, mounts and device nodes", pytrace=False)
    made = Clusters(request.param)
    yield made
    made.close()


@pytest.fixture
def cluster(clusters):
    """Six idle nodes in two blocks of three, on which no prolog has run yet."""
    return clusters.get()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test tells what its nodes know: their logs are gone with the cluster."""
    outcome = yield
    report = outcome.get_result()
    clusters = getattr(item, "funcargs", {}).get("clusters")
    if report.when == "call" and report.failed and clusters is not None and clusters.cluster is not None:
        cluster = clusters.cluster
        try:
            report.sections.append(("cluster", cluster.describe()))
        except Exception as error:  # a broken cluster must not hide the failure itself
            report.sections.append(("cluster", f"cannot be described: {error}"))


def pytest_terminal_summary(terminalreporter):
    reasons = {report.longrepr[2] for report in terminalreporter.stats.get("skipped", [])}
    for reason in sorted(reasons):
        terminalreporter.write_sep("!", "SKIPPED, NOT PASSED", red=True, bold=True)
        terminalreporter.write_line(reason)
