import pathlib
import re

import faults
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUMBERS = [f"F{i}" for i in range(1, 41)] + [f"11.{i}" for i in range(1, 26)]
PAGE = (ROOT / "docs/faults.md").read_text()


@pytest.fixture(scope="module")
def said():
    return faults.literals(ROOT / "src")


def test_every_fault_of_imex_and_slurm_has_a_row_with_tests_that_exist_and_words_that_are_said(said):
    assert faults.problems(PAGE, NUMBERS, ROOT / "tests", said) == []


def test_every_fault_of_mig_has_a_row_with_a_test_that_exists():
    table = faults.rows((ROOT / "docs/faults-mig.md").read_text())
    assert [cells[0] for cells in table] == [str(i) for i in range(1, 60)]
    files = [*(ROOT / "tests/mig").glob("test_*.py"), *(ROOT / "tests/unit/mig").glob("*.cpp"), *(ROOT / "tests/unit/commands").glob("*.cpp")]
    known = set().union(*(faults.test_names(file) for file in files))
    named = {cells[0]: cells[4].strip('`"') for cells in table}
    assert {number: name for number, name in named.items() if name not in known} == {}
    assert [cells[0] for cells in table if cells[2] not in faults.VERDICTS] == []


def test_the_index_names_every_number_once():
    index = PAGE[PAGE.index("| about |"):PAGE.index("## IMEX")]
    assert sorted(re.findall(r"F\d+|11\.\d+", index)) == sorted(NUMBERS)


def test_the_pages_lead_to_each_other():
    assert "(faults-mig.md)" in PAGE
    assert "(faults.md)" in (ROOT / "docs/faults-mig.md").read_text()
    assert "(docs/faults.md)" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("old, new, complaint", [
    ("| F7 |", "| F77 |", "missing: ['F7']"),
    ("| 11.20 |", "| 11.2O |", "missing: ['11.20']"),
    ("::test_ready_is_waited_for`", "::test_ready_is_not_there`", "F12: node/test_service.py has no test 'test_ready_is_not_there'"),
    ("`node/test_service.py::test_ready_is_waited_for`", "`node/test_nowhere.py::test_x`", "F12: there is no file node/test_nowhere.py"),
    ("::a missing channel is made, with its folder`", "::a missing channel is made`", "F23: unit/imex/channel_test.cpp has no test 'a missing channel is made'"),
    ("`node/test_service.py::test_ready_is_waited_for`", "", "F12: prevented, but no test"),
    ("`not registered with the NVLink fabric: …`", "", "F34: detected, but not what is said"),
    ("`not registered with the NVLink fabric: …`", "`no fabric today: …`", "F34: the code does not say 'no fabric today:'"),
    ("| F12 | \"rc: 87\": work began before the daemon was ready (dra#948) | prevented |", "| F12 | x | done |", "F12: 'done' is no verdict"),
])
def test_a_page_that_is_not_true_is_found(said, old, new, complaint):
    assert old in PAGE
    found = faults.problems(PAGE.replace(old, new), NUMBERS, ROOT / "tests", said)
    assert any(complaint in one for one in found), found
