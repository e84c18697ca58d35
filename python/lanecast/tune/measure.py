# SPDX-License-Identifier: Apache-2.0
"""Times algorithms side by side on the machine it runs on, level by level; every function is collective."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lanecast import _core
from lanecast.communicator import Communicator
from lanecast.tune.groups import ALL_RANKS, Group

COLLECTIVES = _core.KINDS
_LINKS_INSIDE = ("broadcast", "reduce")  # of which the model takes the inner levels from their links alone
_ROUND_S = 1e-3  # a round calls so often that the clock does not count
_MOST_REPEATS = 50


@dataclass(frozen=True)
class Effort:
    """How long to look: sizes of the full buffer, rounds of which the fastest counts, and which calls are too slow."""

    sizes: tuple[int, ...]
    rounds: int
    longest_call_s: float


QUICK = Effort((1 << 12, 1 << 15, 1 << 18, 1 << 20, 1 << 22, 1 << 24), 5, 0.1)
THOROUGH = Effort(tuple(1 << k for k in range(10, 28)), 11, 1.0)


@dataclass(frozen=True)
class Point:
    """One measured time, of a call in so many chunks."""

    size: int
    seconds: float
    chunks: int = 1


Call = Callable[[], object]


def call_for(comm: Communicator | None, collective: str, size: int, algorithm: str, chunks: int = 1) -> Call:
    """A call on buffers of its own whose full buffer has `size` bytes, root 0; nothing for ranks without part."""
    if comm is None:
        return lambda: None
    whole = np.full(size // 4 // comm.size * comm.size, 0, np.float32)  # has pages of its own, as np.zeros has not
    share = np.full(whole.size // comm.size, 0, np.float32)
    how: dict[str, Any] = {"algorithm": algorithm, "chunks": chunks}
    calls: dict[str, Call] = {
        "all_gather": lambda: comm.all_gather_into_tensor(whole, share, **how),
        "reduce_scatter": lambda: comm.reduce_scatter_tensor(share, whole, **how),
        "all_reduce": lambda: comm.all_reduce(whole, **how),
        "broadcast": lambda: comm.broadcast(whole, 0, **how),
        "reduce": lambda: comm.reduce(whole, 0, **how),
        "gather": lambda: comm.gather(whole if comm.rank == 0 else None, share, 0, **how),
        "scatter": lambda: comm.scatter(share, whole if comm.rank == 0 else None, 0, **how),
    }
    if collective != "all_to_all":
        return calls[collective]
    received = np.full_like(whole, 0)
    return lambda: comm.all_to_all_single(received, whole, **how)


class Stopwatch:
    """Times calls that all ranks of `world` make at once; equal on every rank, so that all decide alike."""

    def __init__(self, world: Communicator, effort: Effort) -> None:
        self.world = world
        self.effort = effort

    def once(self, call: Call, repeats: int) -> float:
        """Mean seconds of `repeats` calls one after the other, on the slowest rank, begun together."""
        self._slowest(0)
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        return self._slowest((time.perf_counter() - start) / repeats)

    def fastest(self, calls: Sequence[Call]) -> list[float]:
        """Of each call the fastest round: what disturbs one, other programs say, only ever makes it slower."""
        return [min(times) for times in self.rounds(calls)]

    def rounds(self, calls: Sequence[Call]) -> list[list[float]]:
        """Seconds of each call in some rounds, which alternate between all of them."""
        times: list[list[float]] = [[] for _ in calls]
        repeats = []
        for call in calls:
            self.once(call, 1)  # plans, and meets its buffers
            repeats.append(min(_MOST_REPEATS, math.ceil(_ROUND_S / self.once(call, 1))))
        for turn in range(self.effort.rounds):
            for at in [(turn + k) % len(calls) for k in range(len(calls))]:
                times[at].append(self.once(calls[at], repeats[at]))
        return times

    def _slowest(self, own: float) -> float:
        number = np.array([own])
        self.world.all_reduce(number, "max")
        return float(number[0])


def rows_for(collective: str, group: Group, topology: _core.Topology) -> list[str]:
    """Rows of the registry that a call can take in these groups; not what a library brings of its own."""
    if group.level == ALL_RANKS:
        names = _core.algorithms_for(collective, _core.Topology(group.size))
    elif group.level > 0 and collective in _LINKS_INSIDE:
        names = []
    else:
        combined = [name for name in _core.algorithms_for(collective, topology) if name.endswith(")")]
        names = [name[name.index("(") + 1 : -1].split(",")[group.level] for name in combined]
    return [name for name in dict.fromkeys(names) if name != "native"]


def sweep(
    watch: Stopwatch, group: Group, collective: str, names: Sequence[str], links: _core.Models
) -> dict[str, list[Point]]:
    """Times of these algorithms over the sizes, up to where they take too long.

    Pipelines go in as many chunks as they would by the links alone: ranks that share cores do not fill a pipeline as a
    call in one chunk lets expect.
    """
    points: dict[str, list[Point]] = {name: [] for name in names}
    running = list(points)
    for size in watch.effort.sizes:
        wanted = _core.candidates(collective, size, _core.Topology(group.size), links)
        chunks = {choice["algorithm"]: choice["chunks"] for choice in wanted}
        calls = [call_for(group.comm, collective, size, name, chunks[name]) for name in running]
        for name, seconds in zip(running, watch.fastest(calls), strict=True):
            points[name].append(Point(size, seconds, chunks[name]))
        # Two points at least, or there is nothing to fit.
        running = [n for n in running if points[n][-1].seconds < watch.effort.longest_call_s or len(points[n]) < 2]
        if not running:
            break
    return points
