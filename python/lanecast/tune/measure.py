# SPDX-License-Identifier: Apache-2.0
"""Times algorithms side by side on the machine it runs on, level by level; every function is collective."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lanecast import _core
from lanecast.communicator import Communicator
from lanecast.tune.groups import Group

COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce")  # those that call_for() can make
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
    """One measured time."""

    size: int
    seconds: float


Call = Callable[[], object]


def call_for(comm: Communicator | None, collective: str, size: int, algorithm: str, chunks: int = 1) -> Call:
    """A call on buffers of its own whose full buffer has `size` bytes; nothing where this rank takes no part."""
    if comm is None:
        return lambda: None
    whole = np.zeros(size // 4 // comm.size * comm.size, np.float32)
    share = np.zeros(whole.size // comm.size, np.float32)
    if collective == "all_reduce":
        return lambda: comm.all_reduce(whole, algorithm=algorithm, chunks=chunks)
    if collective == "all_gather":
        return lambda: comm.all_gather_into_tensor(whole, share, algorithm=algorithm, chunks=chunks)
    return lambda: comm.reduce_scatter_tensor(share, whole, algorithm=algorithm, chunks=chunks)


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
        """Of each call the fastest of some rounds, which alternate between all of them.

        What disturbs a round, other programs say, only ever makes it slower.
        """
        times: list[list[float]] = [[] for _ in calls]
        repeats = []
        for call in calls:
            self.once(call, 1)  # plans, and meets its buffers
            repeats.append(min(_MOST_REPEATS, math.ceil(_ROUND_S / self.once(call, 1))))
        for turn in range(self.effort.rounds):
            for at in [(turn + k) % len(calls) for k in range(len(calls))]:
                times[at].append(self.once(calls[at], repeats[at]))
        return [min(each) for each in times]

    def _slowest(self, own: float) -> float:
        number = np.array([own])
        self.world.all_reduce(number, "max")
        return float(number[0])


def rows_for(collective: str, group: Group) -> list[str]:
    """Rows of the registry that this collective can take in these groups; not what a library brings of its own."""
    wanted = [dict.fromkeys(_core.algorithms_for(collective, _core.Topology(size))) for size in group.sizes]
    return [
        name
        for name in wanted[0]
        if name != "native" and all(name in other for other in wanted)
        and (group.level < 0 or collective != "all_reduce" or _is_all_gather(name))
    ]  # fmt: skip


def _is_all_gather(name: str) -> bool:
    """Only those make hierarchical all-reduces."""
    return any(row["name"] == name and "all_gather" in row["collectives"] for row in _core.algorithm_rows(1))


def sweep(watch: Stopwatch, group: Group, collective: str) -> dict[str, list[Point]]:
    """Times of every algorithm over the sizes, up to where it takes too long."""
    points: dict[str, list[Point]] = {name: [] for name in rows_for(collective, group)}
    running = list(points)
    for size in watch.effort.sizes:
        calls = [call_for(group.comm, collective, size, name) for name in running]
        for name, seconds in zip(running, watch.fastest(calls), strict=True):
            points[name].append(Point(size, seconds))
        # Two points at least, or there is nothing to fit.
        running = [n for n in running if points[n][-1].seconds < watch.effort.longest_call_s or len(points[n]) < 2]
        if not running:
            break
    return points
