import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STATIC = "in statically linked applications requires at runtime the shared libraries from the glibc version used for linking"


def unknown_warnings(tmp_path, log):
    (tmp_path / "build.log").write_text(log)
    ran = subprocess.run(["bash", "-c", '. "$1/scripts/lib.sh"; unknown_warnings "$2"', "bash", ROOT, tmp_path / "build.log"],
                         capture_output=True, text=True)
    assert ran.stderr == ""
    return ran.returncode, ran.stdout


@pytest.mark.parametrize("function", ["getaddrinfo", "getpwuid", "getpwuid_r"])
def test_the_known_linker_warnings_pass(tmp_path, function):
    log = f"[3/4] Linking\n/usr/bin/ld: a.o: in function `f':\nx.cpp:(.text+0x1): warning: Using '{function}' {STATIC}\n"
    assert unknown_warnings(tmp_path, log) == (1, "")


@pytest.mark.parametrize("line", [
    f"x.cpp:(.text+0x1): warning: Using 'getpwnam' {STATIC}",
    f"x.cpp:(.text+0x1): warning: Using 'dlopen' {STATIC}",
    "/usr/bin/ld: warning: a.o: missing .note.GNU-stack section implies executable stack",
    "src/x.cpp:1:2: warning: unused variable 'x' [-Wunused-variable]",
])
def test_any_other_warning_is_told(tmp_path, line):
    assert unknown_warnings(tmp_path, f"[1/2] x\n{line}\n[2/2] y\n") == (0, line + "\n")


def test_a_file_that_has_warning_in_its_name_is_none(tmp_path):
    assert unknown_warnings(tmp_path, "[1/2] Building C object curl/lib/warnless.c.o\n") == (1, "")
