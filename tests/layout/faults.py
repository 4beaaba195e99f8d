"""What docs/faults.md and docs/faults-mig.md claim: rows, tests that exist, words that the code says."""

import pathlib
import re

VERDICTS = {"prevented", "cured", "detected", "not ours"}
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def rows(page):
    """The rows whose first cell is a fault's number, as lists of cells."""
    found = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().split("|")[1:-1]]
        if cells and re.fullmatch(r"F\d+|11\.\d+|\d+", cells[0]):
            found.append(cells)
    return found


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


def test_names(path):
    """Functions of a Python file or sentences of a Catch2 file."""
    text = pathlib.Path(path).read_text()
    if str(path).endswith(".py"):
        return set(re.findall(r"^def (test_\w+)\(", text, re.M))
    return {re.sub(r'\\(.)', r"\1", name) for name in re.findall(r'TEST_CASE\(\s*"((?:[^"\\]|\\.)*)"', text)}


test_names.__test__ = False  # a helper, whatever pytest makes of its name


def literals(src):
    """Every string literal of the code, those that follow each other joined as the compiler joins them."""
    found = []
    for file in sorted(pathlib.Path(src).rglob("*")):
        if file.suffix not in {".cpp", ".h"}:
            continue
        text = re.sub(r'(?<!\\)"\s*\n\s*"', "", file.read_text())
        found += [match.replace('\\"', '"') for match in LITERAL.findall(text)]
    return found


def problems(page, numbers, tests, said):
    """What is wrong with a page that has the columns number, fault, verdict, how, what is said, tests."""
    found = []
    table = rows(page)
    if [cells[0] for cells in table] != numbers:
        missing = [number for number in numbers if number not in {cells[0] for cells in table}]
        found.append(f"rows are not {numbers[0]} to {numbers[-1]}, once each and in order; missing: {missing}")
    for cells in table:
        number = cells[0]
        if len(cells) != 6:
            found.append(f"{number}: {len(cells)} cells instead of 6")
            continue
        _, _, verdict, how, words, names = cells
        if verdict not in VERDICTS:
            found.append(f"{number}: {verdict!r} is no verdict")
        if not how:
            found.append(f"{number}: does not say how")
        if verdict == "detected" and not quoted(words):
            found.append(f"{number}: detected, but not what is said")
        if verdict != "not ours" and not quoted(names):
            found.append(f"{number}: {verdict}, but no test")
        for text in quoted(words):
            for part in filter(None, (part.strip() for part in text.split("…"))):
                if not any(part in literal for literal in said):
                    found.append(f"{number}: the code does not say {part!r}")
        for name in quoted(names):
            file, _, test = name.partition("::")
            path = pathlib.Path(tests) / file
            if not path.is_file():
                found.append(f"{number}: there is no file {file}")
            elif test not in test_names(path):
                found.append(f"{number}: {file} has no test {test!r}")
    return found
