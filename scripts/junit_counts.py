"""junit_counts.py FILE...: one line "passed failed skipped" over JUnit files (Catch2's and pytest's), then one line for each
test that failed or was skipped. A file that is missing, cut off or without a test counts as one failure."""

import pathlib
import sys
import xml.etree.ElementTree


def first_line(element):
    text = (element.get("message") or element.text or "").strip()
    return text.splitlines()[0] if text else ""


def count(path):
    try:
        cases = list(xml.etree.ElementTree.parse(path).iter("testcase"))
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        return 0, 1, 0, [f"FAILED {path}: no whole result ({error})"]
    if not cases:
        return 0, 1, 0, [f"FAILED {path}: ran no test"]
    passed = failed = skipped = 0
    told = []
    for case in cases:
        name = f"{case.get('classname')}: {case.get('name')}"
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        if bad is not None:
            failed += 1
            told.append(f"FAILED {name}: {first_line(bad)}")
        elif case.find("skipped") is not None:
            skipped += 1
            reason = case.find("skipped")
            # Catch2 writes the reason on the second line of the text, pytest as the message.
            lines = [line for line in (reason.get("message") or reason.text or "").strip().splitlines() if line != "SKIPPED"]
            told.append(f"SKIPPED {name}: {lines[0] if lines else 'no reason given'}")
        else:
            passed += 1
    return passed, failed, skipped, told


def main():
    totals = [0, 0, 0]
    told = []
    for path in sys.argv[1:]:
        *numbers, lines = count(pathlib.Path(path))
        totals = [a + b for a, b in zip(totals, numbers)]
        told += lines
    print(*totals)
    print("\n".join(told))


main()
