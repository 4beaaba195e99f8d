"""Fifty job starts with gpu-prolog as Prolog= and Epilog=: every healthy one ends connected, a fault drains the node at fault alone.
The published script in the same lab, for comparison, when PUBLISHED_SCRIPT names it."""

import os

import pytest

import reliability
import scenarios
from lab import Lab

SCALE = 0.05
STARTS = int(os.environ.get("LAB_STARTS", "50"))
SEED = int(os.environ.get("LAB_SEED", "7"))


def test_every_healthy_start_of_fifty_ends_connected_and_a_fault_drains_its_own_node_only():
    program = reliability.program()
    assert program.exists(), f"{program} is not there: scripts/build makes it"
    subject, programs = scenarios.ours(program)
    outcomes = reliability.play(subject, programs, STARTS, SEED, SCALE, lambda outcome: None)
    assert len(outcomes) == STARTS
    wrong = [o for o in outcomes if o.right()]
    for outcome in wrong[:3]:
        print(f"--- {outcome.scenario}, {outcome.nodes} nodes, seed {outcome.seed}, fault on {outcome.culprit}: {outcome.right()}\n{outcome.measure}")
        for name, text in outcome.outputs.items():
            if name in outcome.drained or name == outcome.culprit:
                print(f"[{name}] {text}")
    print(reliability.table({subject.name: outcomes}))
    assert [(o.scenario, o.nodes, o.seed, o.right()) for o in wrong] == []


def test_the_published_script_leaves_starts_unconnected_in_the_same_lab():
    script = reliability.published_script()
    if script is None:
        pytest.skip("NO COMPARISON: set PUBLISHED_SCRIPT to the path of 91_nvidia_imex_prolog.sh to run it")
    subject, programs = scenarios.published(script)
    outcomes = scenarios.run(subject, programs, (18,), scenarios.plan(16, SEED), SCALE)
    print(reliability.table({subject.name: outcomes}))
    assert any(o.right() for o in outcomes if o.healthy)


def test_the_same_seed_plays_the_same_starts():
    assert scenarios.plan(40, 3) == scenarios.plan(40, 3)
    assert scenarios.plan(40, 3) != scenarios.plan(40, 4)
    assert {kind for kind, _ in scenarios.plan(18, 1)} == set(scenarios.HEALTHY) | set(scenarios.FAULTS)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_earlier_jobs_never_leave_a_node_alone_and_never_use_one_twice(seed):
    import random
    with_names = [f"n{i}" for i in range(18)]

    class Named:
        def __init__(self, index):
            self.name, self.index = with_names[index], index

    nodes = [Named(i) for i in range(18)]
    groups = scenarios.some_groups(random.Random(seed), nodes)
    assert sorted(n.name for g in groups for n in g) == sorted(with_names)
    assert all(len(g) >= 2 for g in groups)
