"""How jobs start on an UltraServer, from the ordinary to the unlucky. The same seed gives the same starts for every subject.

A scenario is played in two parts: what the nodes went through before (daemons of earlier jobs, or none), then one job start whose
prologs begin 0 to 20 s apart. Healthy starts must end connected; in a start with a fault, exactly the node at fault may drain.
"""

import dataclasses
import random

from lab import NODE_LIST, Lab, Measure, Subject

HEALTHY = ("fresh", "stale daemons", "same list again", "back to back")
FAULTS = ("daemon dies", "daemon never starts", "no channel", "node crashes", "other version", "unknown peer")

# What a fault is about: one node (that node may fail, nobody else), its peers (nobody is to blame by exit code: with
# --wait-domain=warn the job starts and the log names the peer), or all nodes alike (exactly one node may fail).
MAY_DRAIN = {"daemon dies": "peer", "daemon never starts": "one", "no channel": "one", "node crashes": "one", "other version": "peer",
             "unknown peer": "shared"}


@dataclasses.dataclass
class Outcome:
    scenario: str
    nodes: int
    seed: int
    measure: Measure
    culprit: str = None      # name of the node with the fault
    drained: list = dataclasses.field(default_factory=list)
    outputs: dict = dataclasses.field(default_factory=dict)

    @property
    def healthy(self):
        return self.scenario in HEALTHY

    def right(self):
        """Why this start was not as it must be; empty: it was."""
        if self.healthy:
            if self.drained:
                return f"drained {self.drained}"
            return "" if self.measure.connected_at_end else "not connected when the last prolog returned"
        kind = MAY_DRAIN[self.scenario]
        if kind == "one":
            return "" if self.drained == [self.culprit] else f"drained {self.drained}, not just {self.culprit}"
        if kind == "shared":
            return "" if len(self.drained) == 1 else f"drained {self.drained}, not exactly one"
        return "" if set(self.drained) <= {self.culprit} else f"drained {self.drained}, more than {self.culprit}"


def some_nodes(rng, lab, least=2):
    """A job's nodes: often a whole block or everything, else a part of one block."""
    if len(lab.nodes) <= least or rng.random() < 0.4:
        return list(lab.nodes)
    block = [n for n in lab.nodes if n.block == rng.randrange(len(lab.blocks))]
    return sorted(rng.sample(block, rng.randint(least, len(block))), key=lambda n: n.index)


def some_groups(rng, nodes):
    """Earlier jobs: the nodes dealt into groups of two or more, each with its own list."""
    left = list(nodes)
    rng.shuffle(left)
    groups = []
    while left:
        size = len(left) if len(left) < 4 else rng.randint(2, len(left))
        size = size if len(left) - size != 1 else len(left)
        groups.append(sorted(left[:size], key=lambda n: n.index))
        left = left[size:]
    return groups


def skews(rng, count):
    """Delays of 0 to 20 s; at least one prolog begins at once, now and then one is very late."""
    spread = rng.choice((0.5, 3.0, 10.0, 20.0))
    delays = [rng.uniform(0, spread) for _ in range(count)]
    delays[rng.randrange(count)] = 0.0
    return delays


class Player:
    def __init__(self, lab, subject):
        self.lab = lab
        self.subject = subject
        self.job = 0

    def play(self, scenario, seed):
        rng = random.Random(f"{scenario}/{seed}")
        lab = self.lab
        nodes = some_nodes(rng, lab)
        self._before(scenario, rng, nodes)
        self._options(scenario)
        delays = skews(rng, len(nodes))
        undo, culprit = None, None
        if scenario in FAULTS:
            culprit = rng.choice(nodes)
            undo = self._break(scenario, rng, culprit, delays[nodes.index(culprit)])
        self.job += 1
        try:
            start = lab.start_job(self.subject, self.job, nodes, delays)
        finally:
            if undo is not None:
                undo()
        measure = start.measure()
        outcome = Outcome(scenario, len(nodes), seed, measure, culprit.name if culprit else None, measure.failed)
        outcome.outputs = {run.node.name: f"exit {run.code}\n{run.output()}{run.node.text('/var/log/nvidia-imex-prolog.log')[-3000:]}"
                           for run in start.runs}
        # Slurm runs the epilog on every node of the job; for half of the starts the next job meets what is left of this one.
        if rng.random() < 0.5:
            lab.end_job(self.subject, self.job, nodes)
        return outcome

    def _before(self, scenario, rng, nodes):
        lab = self.lab
        if scenario == "same list again":
            lab.idle()
            lab.leave_daemons([[n for n in nodes if n.block == b] for b in sorted({n.block for n in nodes})])
        elif scenario == "stale daemons":
            lab.idle()
            lab.leave_daemons(some_groups(rng, lab.nodes))
        elif scenario == "back to back":
            # The job before ran with this very subject on other nodes that overlap; its epilogs, if there are any, have run on the
            # nodes of the new job only: the others are late.
            lab.idle()
            before = some_nodes(rng, lab)
            if not set(n.name for n in before) & set(n.name for n in nodes):
                before = list(lab.nodes)
            self.job += 1
            lab.start_job(self.subject, self.job, before, [0.0] * len(before))
            lab.end_job(self.subject, self.job, [n for n in before if n in nodes])
        else:
            lab.idle()
        lab.rest(rng.uniform(0, 2))

    def _options(self, scenario):
        """Where no start can end connected there is no use in waiting long for it."""
        text = options(self.lab.scale, max(40 * self.lab.scale, 2) if scenario in FAULTS else 30)
        for node in self.lab.nodes:
            node.path("/etc/gpu-prolog.toml").write_text(text)

    def _break(self, scenario, rng, culprit, delay):
        """Arranges the fault; returns what undoes it after the start, or nothing."""
        lab = self.lab
        if scenario == "daemon dies":
            culprit.set_faults(die_after=rng.uniform(1.5, 12))
        elif scenario == "daemon never starts":
            culprit.set_faults(start_fail=1)
        elif scenario == "other version":
            culprit.set_faults(version="580.95", driver_version="580.95")
        elif scenario == "no channel":
            table = culprit.path("/proc/devices")
            good = table.read_text()
            table.write_text("".join(line for line in good.splitlines(True) if "nvidia-caps-imex-channels" not in line))
            channel = culprit.path("/dev/nvidia-caps-imex-channels/channel0")
            if channel.exists():
                channel.unlink()
            return lambda: table.write_text(good)
        elif scenario == "node crashes":
            lab.crash(culprit, delay * lab.scale + rng.uniform(0.005, 0.06))  # while its prolog is at work
            return None
        elif scenario == "unknown peer":
            # The controller knows one node of the job by a placeholder only: every node of the block sees that.
            kept = {node: node.text("/etc/slurm/lab-nodes") for node in lab.nodes}
            for node in lab.nodes:
                node.path("/etc/slurm/lab-nodes").write_text(kept[node].replace(f"{culprit.name} {culprit.address}\n", f"{culprit.name} 0.0.0.0\n"))
            return lambda: [node.path("/etc/slurm/lab-nodes").write_text(text) for node, text in kept.items()]
        return culprit.set_faults


def plan(count, seed, faults=True):
    """Which scenarios, in which order: two thirds healthy, every kind in turn, shuffled."""
    rng = random.Random(seed)
    kinds = []
    while len(kinds) < count:
        turn = list(HEALTHY) * 3 + (list(FAULTS) if faults else [])
        rng.shuffle(turn)
        kinds += turn
    kinds = kinds[:count]
    return [(kind, seed * 1_000_003 + i) for i, kind in enumerate(kinds)]


def options(scale, domain_timeout):
    """gpu-prolog.toml of the nodes: settle scaled as the daemons' times are. Polling and jitter are not scaled, so the wait is not either."""
    return f'[imex-prolog]\nsettle = "{max(3 * scale, 0.05):.3f}s"\ndomain-timeout = "{domain_timeout:.3f}s"\n'


def ours(program):
    return Subject("gpu-prolog", "/usr/bin/gpu-prolog", "/usr/bin/gpu-prolog"), {"gpu-prolog": program}


def published(script):
    return Subject("published script", "/usr/bin/91_nvidia_imex_prolog.sh"), {"91_nvidia_imex_prolog.sh": script}


def run(subject, programs, blocks, starts, scale, say=lambda outcome: None):
    """Plays the starts one after another on one lab."""
    outcomes = []
    with Lab(blocks=blocks, scale=scale, programs=programs) as lab:
        player = Player(lab, subject)
        for scenario, seed in starts:
            outcome = player.play(scenario, seed)
            outcomes.append(outcome)
            say(outcome)
    return outcomes


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else None


def summary(outcomes):
    """The measures of one subject: per scenario, then over all healthy starts."""
    rows = []
    for name, chosen in [(s, [o for o in outcomes if o.scenario == s]) for s in HEALTHY] + [("all healthy", [o for o in outcomes if o.healthy])]:
        if not chosen:
            continue
        ups = [o.measure.up_after for o in chosen if o.measure.up_after is not None]
        rows.append({
            "scenario": name, "starts": len(chosen), "connected at end": sum(o.measure.connected_at_end for o in chosen),
            "connected later": sum(o.measure.connected_later for o in chosen), "came up": len(ups), "median up": median(ups), "longest up": max(ups, default=None),
            "restarts per node": sum(o.measure.restarts for o in chosen) / sum(o.nodes for o in chosen),
            "nodes drained": sum(len(o.drained) for o in chosen),
        })
    faults = []
    for name in FAULTS:
        chosen = [o for o in outcomes if o.scenario == name]
        if chosen:
            faults.append({"scenario": name, "starts": len(chosen), "drained per fault": sum(len(o.drained) for o in chosen) / len(chosen),
                           "as it must be": sum(not o.right() for o in chosen)})
    return rows, faults
