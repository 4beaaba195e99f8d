import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

CATCH2 = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite name="unit_x" errors="0" failures="1" skipped="1" tests="7">
  <testcase classname="unit_x.global" name="good" time="0" status="run"/>
  <testcase classname="unit_x.global" name="bad" time="0" status="run"><failure message="1 == 2" type="CHECK">FAILED: at x.cpp:3</failure></testcase>
  <testcase classname="unit_x.global" name="not here" time="0" status="run"><skipped type="SKIP">
SKIPPED
no device
at x.cpp:7
  </skipped></testcase>
</testsuite></testsuites>"""
PYTEST = """<testsuites><testsuite name="pytest" errors="1" failures="0" skipped="1" tests="3">
  <testcase classname="test_x" name="test_good"/>
  <testcase classname="test_x" name="test_left_out"><skipped type="pytest.skip" message="no suite">x.py:1: no suite</skipped></testcase>
  <testcase classname="test_x" name="test_no_setup"><error message="failed on setup">trace</error></testcase>
</testsuite></testsuites>"""


def count(*files):
    ran = subprocess.run([sys.executable, ROOT / "scripts/junit_counts.py", *files], capture_output=True, text=True, check=True)
    numbers, *lines = ran.stdout.splitlines()
    return numbers, [line for line in lines if line]


def write(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_both_kinds_of_file_are_counted_by_test_and_told_by_name(tmp_path):
    numbers, lines = count(write(tmp_path, "c.xml", CATCH2), write(tmp_path, "p.xml", PYTEST))
    assert numbers == "2 2 2"
    assert lines == [
        "FAILED unit_x.global: bad: 1 == 2",
        "SKIPPED unit_x.global: not here: no device",
        "SKIPPED test_x: test_left_out: no suite",
        "FAILED test_x: test_no_setup: failed on setup",
    ]


def test_a_program_that_died_before_its_result_is_a_failure(tmp_path):
    missing = tmp_path / "missing.xml"
    cut = write(tmp_path, "cut.xml", CATCH2[:200])
    numbers, lines = count(missing, cut)
    assert numbers == "0 2 0"
    assert all("no whole result" in line for line in lines)


def test_a_result_without_a_test_is_a_failure(tmp_path):
    empty = write(tmp_path, "e.xml", "<testsuites><testsuite name='pytest' tests='0'/></testsuites>")
    assert count(empty) == ("0 1 0", [f"FAILED {empty}: ran no test"])
