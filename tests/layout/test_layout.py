import pathlib
import shutil
import subprocess

import pytest
import rooms

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src")
    return tmp_path / "src"


def plant(src, name, line):
    file = src / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("#pragma once\n" + line + "\n")


def test_every_include_goes_down_the_table():
    assert rooms.violations(ROOT / "src") == []


def test_the_table_has_the_rooms_and_directions_that_it_should():
    table = rooms.read_table((ROOT / "src/CMakeLists.txt").read_text())
    assert set(table) == {"site", "base", "host", "net", "systemd", "slurm", "ec2", "mig", "imex", "flow", "commands", "cli"}
    assert table["host"] == {"host", "base", "site"}
    assert table["slurm"] == {"slurm", "host", "base", "site"}
    assert table["imex"] == {"imex", "systemd", "net", "host", "base", "site"}
    assert [room for room in table if "flow" in table[room]] == ["flow", "commands", "cli"]


@pytest.mark.parametrize(
    "name, line, complaint",
    [
        ("base/planted.h", '#include "host/files.h"', "base/planted.h:2: base may not include host"),
        ("slurm/planted.h", '#include "imex/planted.h"', "slurm/planted.h:2: slurm may not include imex"),
        ("systemd/planted.h", '#include "net/planted.h"', "systemd/planted.h:2: systemd may not include net"),
        ("imex/planted.h", '#include "flow/planted.h"', "imex/planted.h:2: imex may not include flow"),
        ("commands/planted.h", '#include "cli/planted.h"', "commands/planted.h:2: commands may not include cli"),
        ("base/planted.h", '#include "build_info.h"', 'base/planted.h:2: "build_info.h" is not a file of src/ named from src/'),
        ("base/planted.h", '#include "fakes/fake_clock.h"', 'base/planted.h:2: "fakes/fake_clock.h" is not a file of src/ named from src/'),
        ("slurm/planted.h", "#include <unistd.h>", "slurm/planted.h:2: <unistd.h>: only host makes system calls"),
        ("slurm/planted.h", "#  include <sys/stat.h>", "slurm/planted.h:2: <sys/stat.h>: only host makes system calls"),
        ("ec2/planted.h", "#include <curl/curl.h>", "ec2/planted.h:2: <curl/curl.h>: only host may include it"),
        ("attic/planted.h", "", "attic/planted.h: attic is no room of src/CMakeLists.txt"),
    ],
)
def test_a_planted_include_is_found(copy, name, line, complaint):
    for room in ("imex", "net", "flow", "cli"):
        plant(copy, f"{room}/planted.h", "")
    before = rooms.violations(copy)
    plant(copy, name, line)
    assert sorted(set(rooms.violations(copy)) - set(before)) == [complaint]


def test_two_rooms_that_link_each_other_are_found(copy):
    cmake = copy / "CMakeLists.txt"
    cmake.write_text(cmake.read_text().replace("add_room(base gp_site", "add_room(base gp_host gp_site"))
    assert "base and host link each other" in rooms.violations(copy)


def test_nothing_else_lies_at_the_top():
    if not (ROOT / ".git").exists():
        pytest.skip("no git here to say what belongs to the project")
    listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", ROOT, "ls-tree", "--name-only", "HEAD"],
                            check=True, capture_output=True, text=True).stdout.split()
    assert rooms.root_entries_not_allowed(listed) == []
    assert rooms.root_entries_not_allowed(["src", "notes.txt"]) == ["notes.txt"]
