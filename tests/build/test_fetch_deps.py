import functools
import hashlib
import http.server
import io
import os
import pathlib
import shutil
import subprocess
import tarfile
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tarball(text):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        info = tarfile.TarInfo("thing-1.0/hello.txt")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text.encode()))
    return data.getvalue()


@pytest.fixture
def project(tmp_path):
    """A project with fetch-deps alone, on a machine whose PATH has no apt sources and a web server with one file."""
    project = tmp_path / "project"
    (project / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/fetch-deps", project / "scripts")
    served = tmp_path / "served"
    served.mkdir()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=served)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Project(project, served, f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Project:
    def __init__(self, folder, served, url):
        self.folder, self.served, self.url = folder, served, url

    def pin(self, *lines):
        (self.folder / "scripts/deps.lock").write_text("# comment\n" + "".join(line + "\n" for line in lines))

    def fetch(self):
        environment = {"PATH": os.environ["PATH"], "APT_CONFIG": str(self.no_mirror()), "no_proxy": "*"}
        return subprocess.run([self.folder / "scripts/fetch-deps"], capture_output=True, text=True, env=environment, timeout=120)

    def no_mirror(self):
        file = self.folder / "apt.conf"
        file.write_text('Dir::Etc::sourcelist "/dev/null"; Dir::Etc::sourceparts "/dev/null"; Acquire::Retries "0";\n')
        return file

    def hello(self):
        return self.folder / ".deps/src/thing-1.0/hello.txt"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def test_a_pinned_file_is_fetched_and_unpacked(project):
    data = tarball("hello")
    (project.served / "thing.tar.gz").write_bytes(data)
    project.pin(f"thing 1.0 upstream {sha256(data)} {project.url}/thing.tar.gz")
    ran = project.fetch()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert project.hello().read_text() == "hello"


def test_a_file_with_another_hash_is_refused_and_nothing_of_it_stays(project):
    (project.served / "thing.tar.gz").write_bytes(tarball("evil"))
    wanted = sha256(tarball("hello"))
    project.pin(f"thing 1.0 upstream {wanted} {project.url}/thing.tar.gz")
    ran = project.fetch()
    assert ran.returncode == 1
    assert f"SHA-256 is {sha256(tarball('evil'))}, the pin says {wanted}" in ran.stderr
    assert "no source gave thing 1.0 as pinned in scripts/deps.lock" in ran.stderr
    assert not project.hello().exists()
    assert list((project.folder / ".deps/files").iterdir()) == []


def test_a_version_that_the_mirror_dropped_names_the_pin_and_the_way_out(project):
    project.pin(f"thing 1.0 upstream {'0' * 64} {project.url}/thing.tar.gz")
    ran = project.fetch()
    assert ran.returncode == 1
    assert "no source gave thing 1.0" in ran.stderr
    assert "404" in ran.stderr
    assert "docs/dependencies.md" in ran.stderr


def test_the_second_source_is_tried_when_the_first_fails(project):
    data = tarball("hello")
    (project.served / "other.tar.gz").write_bytes(data)
    project.pin(f"thing 1.0 upstream {'0' * 64} {project.url}/gone.tar.gz", f"thing 1.0 upstream {sha256(data)} {project.url}/other.tar.gz")
    assert project.fetch().returncode == 0
    assert project.hello().read_text() == "hello"


def test_what_is_there_already_needs_no_network(project):
    data = tarball("hello")
    project.pin(f"thing 1.0 upstream {sha256(data)} {project.url}/gone.tar.gz")
    files = project.folder / ".deps/files"
    files.mkdir(parents=True)
    (files / f"{sha256(data)}-gone.tar.gz").write_bytes(data)
    assert project.fetch().returncode == 0
    assert project.hello().read_text() == "hello"


def test_a_new_pin_replaces_the_unpacked_sources(project):
    for text in ("old", "new"):
        data = tarball(text)
        (project.served / "thing.tar.gz").write_bytes(data)
        project.pin(f"thing 1.0 upstream {sha256(data)} {project.url}/thing.tar.gz")
        assert project.fetch().returncode == 0
        assert project.hello().read_text() == text


def test_every_library_has_a_file_of_debian_and_one_of_upstream():
    origins = {}
    for line in (ROOT / "scripts/deps.lock").read_text().splitlines():
        if line and not line.startswith("#"):
            name, version, origin, digest, location = line.split()
            assert len(digest) == 64 and location.startswith("https://" if origin == "upstream" else "pool/")
            origins.setdefault((name, version), []).append(origin)
    assert set(map(tuple, origins.values())) == {("debian", "upstream")}
    assert len(origins) == len({name for name, _ in origins})
