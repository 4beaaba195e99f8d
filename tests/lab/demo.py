"""The main job on a make-believe UltraServer of 18 nodes on this machine: the engine of scripts/demo.

Nothing is scripted to succeed: the real gpu-prolog runs as Prolog and Epilog on every node, and whatever is shown is read back from
the nodes' files and from the daemons' own traces. Exit code 0 only if everything came out as it must.
"""

import argparse
import hashlib
import os
import pathlib
import re
import shutil
import signal
import sys
import time

import reliability
from lab import NODE_LIST, Lab, LabError, Subject, Traces, connected, matrix

PROLOG_LOG = "/var/log/nvidia-imex-prolog.log"
COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ
WIDTH = min(shutil.get_terminal_size((100, 40)).columns, 132)


def paint(text, code):
    return f"\033[{code}m{text}\033[0m" if COLOUR else text


def good(text):
    return paint(text, "32")


def bad(text):
    return paint(text, "31;1")


def title(text):
    print("\n" + paint(f"== {text} ", "1") + paint("=" * max(0, WIDTH - len(text) - 4), "1"))


class Shown:
    """One line that says how far the nodes are, drawn over itself on a terminal."""

    def __init__(self, lab, nodes):
        self.lab, self.nodes = lab, nodes
        self.begin = time.monotonic()
        self.last = ""
        self.next = 0.0

    def line(self, running):
        state = Traces(self.nodes).at(time.monotonic())
        letters = [c for row in matrix(state, self.nodes) for c in row]
        count = len(self.nodes)
        pairs = letters.count("C") - sum(n.name in state for n in self.nodes)
        ready = sum(d["status"] == "READY" for d in state.values())
        blocked = letters.count("M")
        text = (f"  {time.monotonic() - self.begin:5.1f} s   prologs running {running:2d}   daemons READY {ready:2d}/{count}   "
                f"pairs connected {pairs:3d}/{count * (count - 1)}")
        return text + (f"   !M! {blocked}" if blocked else "")

    def show(self, running, last=False):
        now = time.monotonic()
        if not last and now < self.next:
            return
        self.next = now + (0.15 if COLOUR else 2.0)
        text = self.line(running)
        if COLOUR:
            print("\r" + text.ljust(WIDTH - 1)[:WIDTH - 1], end="\n" if last else "", flush=True)
        else:
            print(text, flush=True)


def run_prologs(lab, subject, job, nodes, delays, context="prolog_slurmd"):
    """Starts the prologs and draws how far they are until the last has ended."""
    program = subject.prolog if context == "prolog_slurmd" else subject.epilog
    runs = [lab.launch(node, delay, program, (), lab.job_environment(node, job, nodes, context)) for node, delay in zip(nodes, delays, strict=True)]
    shown = Shown(lab, nodes)
    end = time.monotonic() + 180
    while any(run.code is None for run in runs):
        if time.monotonic() > end:
            raise LabError("the prologs did not end within 180 s")
        tick = time.monotonic() + 0.2
        lab.pump(lambda: time.monotonic() >= tick or all(run.code is not None for run in runs), 5, "events")
        if context == "prolog_slurmd":
            shown.show(sum(run.code is None for run in runs))
    if context == "prolog_slurmd":
        shown.show(0, last=True)
    return runs


def draw(state, nodes):
    letters = matrix(state, nodes)
    print("        " + " ".join(f"{i:2d}" for i in range(len(nodes))))
    for i, row in enumerate(letters):
        cells = " ".join(good(" C") if c == "C" else bad(f" {c}") for c in row)
        print(f"    {i:2d}  {cells}   {nodes[i].name:<9} {nodes[i].address}")


class Checks:
    def __init__(self):
        self.failed = []

    def __call__(self, holds, text):
        print(("  " + good("ok   ") if holds else "  " + bad("WRONG ")) + text)
        if not holds:
            self.failed.append(text)


def show_steps(node, job):
    """The log of one node's run, without what stands in every line."""
    for line in node.text(PROLOG_LOG).splitlines():
        found = re.match(r"\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d\.\d{3}) \[(\w+)\] \[PID:\d+\] \[JOB:(\w*)\] (.*)", line)
        if found and found.group(3) == str(job) and not set(found.group(4)) <= {"-"}:
            text = f"  {found.group(1)}  {found.group(4)}"
            text = text if len(text) <= WIDTH or not sys.stdout.isatty() else text[:WIDTH - 3] + "..."
            print(text if found.group(2) == "INFO" else paint(text, "33"))


def sha(node):
    return hashlib.sha256(node.path(NODE_LIST).read_bytes()).hexdigest()


def part_one(lab, subject, check):
    title("1. A job starts on 18 nodes of one UltraServer; slurmd starts the prologs up to 3 s apart")
    nodes = lab.nodes
    begin = time.monotonic()
    runs = run_prologs(lab, subject, 1, nodes, [(i * 7 % 18) / 6 for i in range(18)])
    last_end = max(run.end for run in runs)
    traces = Traces(nodes)
    print(f"\n  What {nodes[0].name} did ({PROLOG_LOG}):")
    show_steps(nodes[0], 1)
    print()
    lists = {sha(node) for node in nodes}
    own = [node.node_list() for node in nodes]
    check(all(run.code == 0 for run in runs), f"18 prologs, exit codes {sorted({run.code for run in runs})}")
    check(len(lists) == 1 and own[0] == [n.address for n in nodes],
          f"18 node lists of {len(own[0])} addresses, {len(lists)} sha256: {', '.join(h[:16] + '...' for h in sorted(lists))}")
    starts = [traces.starts(n.name, begin, last_end) for n in nodes]
    check(all(s >= 1 for s in starts) and all(n.unit[0] == "active" for n in nodes),
          f"18 services started anew ({sum(starts)} starts), {sum(n.unit[0] == 'active' for n in nodes)} active")
    state = traces.at(last_end)
    check(connected(state, nodes), f"every pair was connected when the last prolog returned, {last_end - runs[0].begin:.1f} s after the first began")
    said = nodes[5].execute("nvidia-imex-ctl", "-N").stdout
    check(said.rstrip().endswith("Domain State: UP"), f"nvidia-imex-ctl -N on {nodes[5].name} says: {said.rstrip().splitlines()[-1] if said else 'nothing'}")
    print("\n  Connections, from (row) to (column):")
    draw(state, nodes)
    for run in runs:
        if run.code != 0:
            print(bad(f"  {run.node.name}: exit {run.code}"), run.output().strip())


def part_two(lab, subject, check):
    title("2. The job ends; its epilog leaves no domain behind")
    runs = run_prologs(lab, subject, 1, lab.nodes, [0.0] * 18, "epilog_slurmd")
    check(all(run.code == 0 for run in runs), f"18 epilogs, exit codes {sorted({run.code for run in runs})}")
    check(all(n.unit[0] in ("inactive", "failed") for n in lab.nodes), "no daemon runs")
    check(all(n.node_list() == [] for n in lab.nodes), "no node list names a node")


def part_three(lab, subject, check):
    title("3. A job starts over stale daemons: earlier jobs on parts of these nodes were never cleaned up")
    nodes = lab.nodes
    lab.idle()
    lab.leave_daemons([nodes[0:7], nodes[7:12], nodes[12:18]])
    lab.rest(3)
    stale = Traces(nodes).at(time.monotonic())
    print(f"  Before: {len({d['hash'] for d in stale.values()})} different lists on {len(stale)} running daemons")
    begin = time.monotonic()
    runs = run_prologs(lab, subject, 2, nodes, [(i * 5 % 18) / 3 for i in range(18)])
    last_end = max(run.end for run in runs)
    traces = Traces(nodes)
    met = sum(1 for n in nodes for when, _, words in traces.events[n.name] if when > begin and words[0] == "CELL" and words[3] == "M")
    starts = [traces.starts(n.name, begin, last_end) for n in nodes]
    cured = [f"{n.name} ({s - 1}x)" for n, s in zip(nodes, starts, strict=True) if s > 1]
    print(f"\n  {met} times a daemon met a peer that still held an old list (!M!, blocked until a restart of its own side).")
    print(f"  Restarted once more to lift such a block: {', '.join(cured) or 'nobody had to'}\n")
    check(all(run.code == 0 for run in runs), f"18 prologs, exit codes {sorted({run.code for run in runs})}")
    check(len({sha(n) for n in nodes}) == 1, "18 equal node lists")
    check(connected(traces.at(last_end), nodes), f"every pair was connected when the last prolog returned, {last_end - runs[0].begin:.1f} s after the first began")
    if not connected(traces.at(last_end), nodes):
        draw(traces.at(last_end), nodes)
    for run in runs:
        if run.code != 0:
            print(bad(f"  {run.node.name}: exit {run.code}"), run.output().strip())


def part_comparison(lab, script):
    title("   For comparison: the published script, the same stale daemons and the same delays")
    nodes = lab.nodes
    lab.idle()
    lab.leave_daemons([nodes[0:7], nodes[7:12], nodes[12:18]])
    lab.rest(3)
    run_prologs(lab, Subject("published", f"/usr/bin/{script.name}"), 3, nodes, [(i * 5 % 18) / 3 for i in range(18)])
    lab.rest(15)
    letters = matrix(Traces(nodes).at(time.monotonic()), nodes)
    cells = [c for i, row in enumerate(letters) for j, c in enumerate(row) if i != j]
    print(f"  15 s after its last prolog returned 0: {cells.count('C')} of {len(cells)} connected, {cells.count('M')} blocked (!M!) until restarted")


def part_four(lab, check):
    title("4. One node's list is wrong: found and explained")
    nodes = lab.nodes
    probe = nodes[0].execute("/usr/bin/gpu-prolog", "validate", "imex", "--help")
    if probe.returncode != 0:
        print("  left out: this build has no `validate imex`")
        return
    culprit = nodes[6]
    addresses = culprit.node_list()
    culprit.execute("systemctl", "stop", "nvidia-imex")
    culprit.path(NODE_LIST).write_text("".join(a + "\n" for a in [addresses[1], addresses[0], *addresses[2:]]))
    culprit.execute("systemctl", "start", "nvidia-imex")
    lab.rest(6)
    print(f"  On {culprit.name} the first two lines of the node list were swapped and nvidia-imex restarted.")
    print(f"  gpu-prolog validate imex on {nodes[0].name}:\n")
    done = nodes[0].execute("/usr/bin/gpu-prolog", "validate", "imex", limit=60)
    print("\n".join("  | " + line for line in done.stdout.splitlines()))
    check(done.returncode == 1, f"validate imex exits {done.returncode}")
    told_as = culprit.name if culprit.name in done.stdout else f"{culprit.address} ({culprit.name})"
    check("!M!" in done.stdout and (culprit.name in done.stdout or culprit.address in done.stdout), f"it names {told_as} and !M!")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the lab takes its nodes and folder away
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=reliability.program(), help="the gpu-prolog to show")
    words = parser.parse_args()
    if not words.program.exists():
        sys.exit(f"demo: {words.program} is not there: scripts/build makes it")
    programs = {"gpu-prolog": words.program}
    script = reliability.published_script()
    if script is not None:
        programs[script.name] = script
    subject = Subject("gpu-prolog", "/usr/bin/gpu-prolog", "/usr/bin/gpu-prolog")
    check = Checks()
    print(paint("gpu-prolog on a make-believe UltraServer", "1") + ": 18 nodes on this machine, each with its own network, files, processes,")
    print("systemd, instance metadata and nvidia-imex. No GPU, no cloud, no Slurm; the program is the real one.")
    begin = time.monotonic()
    try:
        with Lab(blocks=(18,), scale=1.0, programs=programs) as lab:
            print(f"  18 nodes up after {time.monotonic() - begin:.1f} s")
            part_one(lab, subject, check)
            part_two(lab, subject, check)
            part_three(lab, subject, check)
            part_four(lab, check)
            if script is not None:
                part_comparison(lab, script)
    except LabError as error:
        sys.exit(f"demo: {error}")
    title("Outcome")
    if check.failed:
        print(bad(f"  {len(check.failed)} checks failed:"))
        for text in check.failed:
            print("  - " + text)
        sys.exit(1)
    print(good(f"  everything as it must be, {time.monotonic() - begin:.0f} s"))


if __name__ == "__main__":
    main()
