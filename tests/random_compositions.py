# SPDX-License-Identifier: Apache-2.0
"""Compositions and knobs that nobody would think of, for property tests."""

from __future__ import annotations

import random
from fractions import Fraction

from lanecast import _core
from lanecast.compose import Block, Composition, Knobs

OPS = ("sum", "max", "min", "prod", "avg", "bxor")


def some_composition(rng: random.Random, size: int, ops: tuple[str, ...] = OPS, *, cuts: bool = True) -> Composition:
    """Several steps of primitives with sparse leaves, over parts that any ranks bring and end with."""
    parts = rng.randint(1, 4)
    inputs = [sorted(rng.sample(range(parts), rng.randint(0, parts)), key=lambda _: rng.random()) for _ in range(size)]
    has: list[set[tuple[int, int]]] = [{(part, k) for part in own for k in range(6)} for own in inputs]
    primitives: list[tuple[str, int, list[int], list[Block], str] | None] = []
    for _ in range(rng.randint(1, 3)):
        before = [set(values) for values in has]
        written: list[set[tuple[int, int]]] = [set() for _ in range(size)]
        for _ in range(rng.randint(1, 2 * size)):
            part = rng.randrange(parts)
            lo, hi = sorted(rng.sample([0, 2, 3, 4, 6], 2)) if cuts and rng.random() < 0.5 else (0, 6)
            wanted = {(part, k) for k in range(lo, hi)}
            having = [rank for rank in range(size) if wanted <= before[rank]]
            if not having:
                continue
            block = [Block(part, Fraction(lo, 6), Fraction(hi, 6))]
            if rng.random() < 0.5:
                leaves = rng.sample(range(size), rng.randint(1, size))
                leaves = [leaf for leaf in leaves if not wanted & written[leaf]]
                if leaves:
                    primitives.append(("multicast", rng.choice(having), leaves, block, ""))
                targets = leaves
            else:
                leaves, root = rng.sample(having, rng.randint(1, len(having))), rng.randrange(size)
                targets = [] if wanted & written[root] else [root]
                if targets:
                    primitives.append(("reduce", root, leaves, block, rng.choice(ops)))
            for rank in targets:
                written[rank] |= wanted
                has[rank] |= wanted
        primitives.append(None)
    whole = [[part for part in range(parts) if all((part, k) in values for k in range(6))] for values in has]
    outputs = [rng.sample(own, rng.randint(0, len(own))) for own in whole]
    composition = Composition(inputs, outputs)
    for primitive in primitives:
        if primitive is None:
            composition.fence()
        elif primitive[0] == "multicast":
            composition.multicast(*primitive[1:4])
        else:
            composition.reduce(primitive[2], primitive[1], primitive[3], primitive[4])
    return composition


def some_factors(rng: random.Random, size: int) -> list[int]:
    factors = []
    while size > 1:
        factor = rng.choice([f for f in range(2, size + 1) if size % f == 0])
        factors.append(factor)
        size //= factor
    return factors or [1]


def some_topology(rng: random.Random, size: int) -> _core.Topology:
    """Nodes of any size, ranks dealt out in any way, and devices inside the nodes."""
    nodes = [rng.randrange(3) for _ in range(size)]
    levels = [("node", nodes)]
    if rng.random() < 0.5:
        levels.append(("device", [2 * node + rng.randrange(2) for node in nodes]))
    return _core.Topology(size, levels)


def some_knobs(rng: random.Random, size: int) -> Knobs:
    """Any that fit."""
    hierarchy = some_factors(rng, size) if rng.random() < 0.6 else some_topology(rng, size)
    while True:
        try:
            knobs = Knobs(
                hierarchy, rng.choice([0, 1, 1, 2, 3, 4]), rng.choice([1, 1, 2, 3, 4, 6]), rng.choice([1, 2, 5])
            )
            knobs.machine(_core.Topology(size))
            return knobs
        except _core.UsageError:
            continue
