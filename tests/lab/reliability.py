"""Plays many job starts and tells how many ended as they must: the engine of scripts/bench/reliability and of its test."""

import dataclasses
import json
import os
import pathlib
import platform
import time

import scenarios
from lab import Measure

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Nodes of the UltraServers, and the share of the starts that each size gets.
SIZES = (((2,), 0.2), ((18,), 0.6), ((18, 18), 0.2))


def program():
    return pathlib.Path(os.environ.get("GPU_PROLOG", ROOT / "dist" / platform.machine() / "gpu-prolog"))


def published_script():
    """The published script is not part of the project: its path comes from outside, or the comparison is left out."""
    path = os.environ.get("PUBLISHED_SCRIPT", "")
    return pathlib.Path(path) if path else None


def shares(count):
    sizes = [(blocks, round(count * share)) for blocks, share in SIZES]
    blocks, first = sizes[1]
    sizes[1] = (blocks, first + count - sum(n for _, n in sizes))
    return sizes


def play(subject, programs, count, seed, scale, say):
    outcomes = []
    for number, (blocks, starts) in enumerate(shares(count)):
        if starts > 0:
            outcomes += scenarios.run(subject, programs, blocks, scenarios.plan(starts, seed * 10 + number), scale, say)
    return outcomes


def to_json(subject, outcome):
    record = dataclasses.asdict(outcome)
    record.pop("outputs")
    return json.dumps({"subject": subject, **record})


def from_json(line):
    record = json.loads(line)
    subject = record.pop("subject")
    record["measure"] = Measure(**record["measure"])
    return subject, scenarios.Outcome(**record)


def _seconds(value):
    return "never" if value is None else f"{value:.1f} s"


def _share(part, whole):
    return f"{part} of {whole} ({100 * part / whole:.1f} %)"


def table(results):
    """What came out, as Markdown; `results`: {subject: outcomes}."""
    lines = ["| subject | starts like | starts | all connected when the last prolog returned | connected a while later | daemon starts a node |"
             " nodes drained |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for subject, outcomes in results.items():
        for row in scenarios.summary(outcomes)[0]:
            lines.append(
                f"| {subject} | {row['scenario']} | {row['starts']} | {_share(row['connected at end'], row['starts'])} | "
                f"{_share(row['connected later'], row['starts'])} | {row['restarts per node']:.2f} | {row['nodes drained']} |")
    lines += ["", "| subject | fault | starts | nodes drained for each | as it must be |", "| --- | --- | --- | --- | --- |"]
    for subject, outcomes in results.items():
        for row in scenarios.summary(outcomes)[1]:
            lines.append(f"| {subject} | {row['scenario']} | {row['starts']} | {row['drained per fault']:.2f} | "
                         f"{_share(row['as it must be'], row['starts'])} |")
    return "\n".join(lines) + "\n"


def times(results):
    """How long it took, as Markdown: only from starts at true scale, where polling weighs what it weighs on a node."""
    lines = ["| subject | starts like | starts | never UP | last prolog's begin to UP, median | longest |", "| --- | --- | --- | --- | --- | --- |"]
    for subject, outcomes in results.items():
        for row in scenarios.summary(outcomes)[0]:
            lines.append(f"| {subject} | {row['scenario']} | {row['starts']} | {row['starts'] - row['came up']} | {_seconds(row['median up'])} | "
                         f"{_seconds(row['longest up'])} |")
    return "\n".join(lines) + "\n"


def machine():
    return f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, {time.strftime('%Y-%m-%d', time.gmtime())}"
