# SPDX-License-Identifier: Apache-2.0
"""Compositions with data: payloads unique per rank and element, results compared with the independent oracle."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from composition_oracle import Array, outcome
from lanecast import Communicator
from lanecast.compose import Composition, Knobs, forms

FORMS = forms.SINGLE_STEP | forms.MULTI_STEP


def form(name: str, size: int, root: int = 0, op: str = "sum") -> Composition:
    """A form of Table II, with as much of root and op as it takes."""
    wanted = inspect.signature(FORMS[name]).parameters
    return FORMS[name](size, **{key: value for key, value in (("root", root), ("op", op)) if key in wanted})


def to_the_right(size: int) -> Composition:
    """Each rank's part goes to its right neighbour, and rank 0 gets the largest of a last one."""
    outputs = [[(rank - 1) % size] + ([size] if rank == 0 else []) for rank in range(size)]
    c = Composition([[rank, size] for rank in range(size)], outputs)
    for rank in range(size):
        c.multicast(rank, [(rank + 1) % size], rank)
    c.reduce(range(size), 0, size, "max")
    return c


def joined(values: dict[int, Array], parts: Sequence[int]) -> Array:
    return np.concatenate([values[part] for part in parts]) if parts else np.empty(0, np.int64)


@dataclass(frozen=True)
class Memory:
    """Where a composition's buffers lie. settle: until what was enqueued has run."""

    buffer: Callable[[Array], Any] = lambda array: array
    settle: Callable[[], object] = lambda: None
    dtype: str = "int64"


HOST = Memory()


def wrong_in(  # noqa: PLR0913
    comm: Communicator,
    composition: Composition,
    counts: Sequence[int],
    knobs: Knobs,
    seed: int = 0,
    *,
    memory: Memory = HOST,
) -> str:
    """Runs the composition twice, the second time with other buffers; what is wrong, or nothing."""
    described = composition._core.to_dict()
    ends = described["outputs"][comm.rank]
    calls = []
    for turn in range(2):
        rng = np.random.default_rng([seed, turn])  # every rank draws what all bring
        brought = [
            {part: rng.integers(-9999, 9999, counts[part]).astype(memory.dtype) for part in own}
            for own in described["inputs"]
        ]
        source = joined(brought[comm.rank], described["inputs"][comm.rank])
        calls.append(
            (
                source,
                source.copy(),
                np.full(sum(counts[part] for part in ends), -1).astype(memory.dtype),
                outcome(described, brought),
            )
        )
    call = comm.compile(
        composition, memory.buffer(calls[0][2]), memory.buffer(calls[0][0]), counts=counts, **vars(knobs)
    )
    for turn, (source, before, target, promised) in enumerate(calls):
        if turn:
            call.start(memory.buffer(target), memory.buffer(source))
            call.wait()
        else:
            call.run()
        memory.settle()
        if not np.array_equal(target, joined(promised[comm.rank], ends)):
            return f"rank {comm.rank} turn {turn}: {knobs}, counts {counts}: wrong result of\n{composition}"
        if not np.array_equal(source, before):
            return f"rank {comm.rank} turn {turn}: {knobs}: the input has been written by\n{composition}"
    return ""


def all_forms(comm: Communicator, knobs_of: Sequence[Knobs], seed: int = 0) -> list[str]:
    """Every form with each of the knobs, even counts and uneven ones; what is wrong."""
    rng = random.Random(seed)
    wrong = []
    for name in FORMS:
        for knobs in knobs_of:
            composition = form(name, comm.size, rng.randrange(comm.size), rng.choice(["sum", "min", "bxor"]))
            counts = [rng.choice([0, 1, 7, 60]) for _ in range(composition.parts)]
            even = [13] * composition.parts
            wrong += [wrong_in(comm, composition, each, knobs, seed) for each in (counts, even)]
    return [line for line in wrong if line]
