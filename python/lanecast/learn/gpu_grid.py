# SPDX-License-Identifier: Apache-2.0
"""Which calls on GPUs are timed for learning, and by which ways."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lanecast import _core
from lanecast.bench.cases import REDUCING, WHOLE
from lanecast.bench.measure import EAGER, GRAPH
from lanecast.communicator import Communicator
from lanecast.dtypes import itemsize
from lanecast.explanation import Candidate
from lanecast.profiles.profile import Shape
from lanecast.profiles.scope import MEASURED, Scope, scope_of

FULL = "float32"  # stands for all but sums of 16-bit floats, for which stands:
HALF = "bfloat16"
_LEAST, _MOST = 10, 30  # log2 of bytes


@dataclass(frozen=True)
class GpuGrid:
    """Sizes are bytes of the full buffer; rounds alternate between the ways.

    seconds: all that there are; what did not fit stays for another run.
    """

    collectives: Sequence[str]
    sizes: Sequence[int]
    rounds: int
    seconds: float
    max_ctas: int = 0  # multiprocessors of a call; 0: as many as it takes
    round_s: float = 1e-3


def usual_sizes() -> tuple[int, ...]:
    """Steps of half a doubling, from coarse to fine: where time runs out, what was timed lies evenly."""
    found: dict[int, None] = {}
    for step in (4, 2, 1):
        found |= {1 << k: None for k in range(_LEAST, _MOST + 1, step)}
    halves = [3 << (k - 1) for k in range(_LEAST, _MOST)]
    return *found, *halves[::2], *halves[1::2]


def configurations(grid: GpuGrid, within_host: bool) -> Iterator[tuple[int, str, str]]:
    """Bytes, collective, type: size by size, in the grid's order. Between hosts all types go the same ways."""
    for size, collective in itertools.product(grid.sizes, grid.collectives):
        yield size, collective, FULL
        if within_host and collective in REDUCING:
            yield size, collective, HALF


def scopes(shape: Shape, gpu: str, few_ctas: bool = False) -> dict[tuple[str, str], Scope]:
    """By type and mode, those of the times of ranks of this shape. UsageError where nodes differ, between hosts."""
    few = " few" if few_ctas else ""
    if shape.hosts == 1:
        # Engines of one host know no levels, and nothing of what carries messages.
        within = Scope(shape.cpu, MEASURED, "", 0, "", shape.lanecast, one_host=True, gpu=gpu)
        pairs = itertools.product((FULL, HALF), (EAGER, GRAPH))
        return {(dtype, mode): replace(within, calls=f"{dtype} {mode}{few}") for dtype, mode in pairs}
    return {(FULL, EAGER): replace(scope_of(shape), gpu=gpu, calls=f"{FULL} {EAGER}")}


def predicted(collective: str, size: int, ranks: int, gpu: str, calls: tuple[str, str]) -> dict[str, float]:
    """Seconds of each engine of a host, without any measurement."""
    dtype, mode = calls
    lines = _core.PeerLines(gpu)
    found = _core.explain_on_peers(collective, size, ranks, True, lines, dtype == HALF, captured=mode == GRAPH)
    return {each["algorithm"]: each["seconds"] for each in found["candidates"]}


def ways_between_hosts(comm: Communicator, collective: str, size: int) -> dict[str, Candidate]:
    """Of algorithms whose plans are equal the first: on two ranks several are.

    The GPU has to be open. Equal on all ranks.
    """
    count = size // itemsize(FULL) // (1 if collective in WHOLE else comm.size)
    found: dict[str, Candidate] = {}
    for each in comm.explain_on_gpu(collective, count).candidates:
        found.setdefault(f"{each.chunks} {_steps(collective, comm.topology, each.algorithm)}", each)
    return {each.algorithm: each for each in found.values()}


def _steps(collective: str, topology: _core.Topology, algorithm: str) -> str:
    """What all ranks do, without the algorithm's name."""
    plans: list[dict[str, Any]] = [plan.to_dict() for plan in _core.make_plans(collective, topology, algorithm)]
    return json.dumps([{**plan, "algorithm": ""} for plan in plans])
