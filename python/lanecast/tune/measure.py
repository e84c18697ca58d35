# SPDX-License-Identifier: Apache-2.0
"""Times algorithms side by side on the machine it runs on, level by level; every function is collective."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from lanecast import _core
from lanecast.bench.device import Call
from lanecast.bench.ranks import Ranks
from lanecast.communicator import Communicator
from lanecast.profiles import surprises
from lanecast.profiles.shape import shape_of
from lanecast.tune.groups import ALL_RANKS, Group

COLLECTIVES = _core.KINDS
_LINKS_INSIDE = ("broadcast", "reduce")  # of which the model takes the inner levels from their links alone
_ROUND_S = 1e-3  # a round calls so often that the clock does not count
_MOST_REPEATS = 50
_LEAST_POINTS = 2  # or there is nothing to fit
_SMALL = 1 << 20  # bytes up to which a round takes about the same time


@dataclass(frozen=True)
class Effort:
    """How long to look: sizes of the full buffer, rounds of which the fastest counts, and which calls are too slow.

    seconds: of all together, about. Where calls are slow, there are fewer rounds, or no large sizes.
    """

    sizes: tuple[int, ...]
    rounds: int
    longest_call_s: float
    seconds: float = math.inf


QUICK = Effort((1 << 12, 1 << 15, 1 << 18, 1 << 20, 1 << 22, 1 << 24), 5, 0.1, 22.0)
THOROUGH = Effort(tuple(1 << k for k in range(10, 28)), 11, 1.0)


@dataclass(frozen=True)
class Point:
    """One measured time, of a call in so many chunks."""

    size: int
    seconds: float
    chunks: int = 1


def surprises_of(comm: Communicator) -> list[surprises.Configuration]:
    """The configurations that have surprised jobs of this shape, as rank 0 knows them. Collective."""
    numbers = np.zeros(2 * surprises.MOST, np.int64)
    if comm.rank == 0:
        for at, each in enumerate(surprises.known(shape_of(comm._core))[-surprises.MOST :]):
            numbers[2 * at : 2 * at + 2] = _core.KINDS.index(each.collective), each.bytes
    comm.broadcast(numbers, 0)
    return [(_core.KINDS[kind], int(size)) for kind, size in numbers.reshape(-1, 2) if size]


def calls_for(comm: Communicator | None, collective: str, size: int, ways: Iterable[tuple[str, int]]) -> list[Call]:
    """Calls by these algorithms in so many chunks, root 0, on the same buffers, of which the full one has `size` bytes.

    For ranks without part they do nothing.
    """
    if comm is None:
        return [lambda: None for _ in ways]
    whole = np.full(size // 4 // comm.size * comm.size, 0, np.float32)  # has pages of its own, as np.zeros has not
    share = np.full(whole.size // comm.size, 0, np.float32)
    on_root = whole if comm.rank == 0 else None
    bound: dict[str, Callable[..., object]] = {
        "all_gather": partial(comm.all_gather_into_tensor, whole, share),
        "reduce_scatter": partial(comm.reduce_scatter_tensor, share, whole),
        "all_reduce": partial(comm.all_reduce, whole),
        "broadcast": partial(comm.broadcast, whole, 0),
        "reduce": partial(comm.reduce, whole, 0),
        "gather": partial(comm.gather, on_root, share, 0),
        "scatter": partial(comm.scatter, share, on_root, 0),
    }
    if collective == "all_to_all":
        bound[collective] = partial(comm.all_to_all_single, np.full_like(whole, 0), whole)
    return [partial(bound[collective], algorithm=algorithm, chunks=chunks) for algorithm, chunks in ways]


class Stopwatch:
    """Times calls that all ranks of `world` make at once; equal on every rank, so that all decide alike."""

    def __init__(self, world: Communicator, effort: Effort) -> None:
        self.world = world
        self.effort = effort
        self._ranks = Ranks(world)

    def once(self, call: Call, repeats: int) -> float:
        """Mean seconds of `repeats` calls one after the other, on the slowest rank, begun together."""
        return self._ranks.timed(call, repeats).device_us * 1e-6

    def clock(self) -> Callable[[], float]:
        """Tells the seconds since now. Asking is collective, and the answer equal on every rank."""
        device = self._ranks.device
        begin = device.mark()
        return lambda: self._ranks.latest(device.elapsed_us(begin, device.mark())) * 1e-6

    def shares(self, seconds: float, weights: Sequence[float]) -> Iterator[float]:
        """Seconds for one thing after the other: its share, by weight, of what those before it have left of all."""
        clock = self.clock()
        for k, weight in enumerate(weights):
            yield max(0.0, seconds - clock()) * weight / sum(weights[k:])

    def fastest(self, calls: Sequence[Call], seconds: float = math.inf, least: int | None = None) -> list[float]:
        """Of each call the fastest round: what disturbs one, other programs say, only ever makes it slower."""
        return [min(times) for times in self.rounds(calls, seconds, least)]

    def rounds(self, calls: Sequence[Call], seconds: float = math.inf, least: int | None = None) -> list[list[float]]:
        """Seconds of each call in some rounds, which alternate between all of them.

        Of the rounds as many as fit, but one at least; of the calls as many of the first, but `least`, default all.
        """
        clock = self.clock()
        times: list[list[float]] = []
        repeats: list[int] = []
        for call in calls:
            tried = len(times)
            if tried >= (len(calls) if least is None else least) and clock() * (1 + 1 / max(1, tried)) >= seconds:
                break
            self.once(call, 1)  # plans, and meets its buffers
            first = self.once(call, 1)
            repeats.append(min(_MOST_REPEATS, math.ceil(_ROUND_S / first)))
            times.append([first] if repeats[-1] == 1 else [])
        for turn in range(self.effort.rounds):
            if turn > 0 and clock() * (1 + 1 / (turn + 1)) > seconds:  # with the planning so many calls of each
                break
            for at in [(turn + k) % len(times) for k in range(len(times))]:
                if turn > 0 or not times[at]:
                    times[at].append(self.once(calls[at], repeats[at]))
        return times


def rows_for(collective: str, group: Group, topology: _core.Topology) -> list[str]:
    """Rows of the registry that a call can take in these groups; not what a library brings of its own."""
    if group.level == ALL_RANKS:
        names = _core.algorithms_for(collective, _core.Topology(group.size))
    elif group.level > 0 and collective in _LINKS_INSIDE:
        names = []
    else:
        combined = [name for name in _core.algorithms_for(collective, topology) if name.endswith(")")]
        names = [name[name.index("(") + 1 : -1].split(",")[group.level] for name in combined]
    return [name for name in dict.fromkeys(names) if not _core.has_library(name)]


@dataclass(frozen=True)
class Contest:
    """Algorithms of one collective that run against each other in the groups of a level."""

    collective: str
    group: Group
    names: list[str]


def sweep(watch: Stopwatch, contest: Contest, links: _core.Models, seconds: float) -> dict[str, list[Point]]:
    """Times of these algorithms over the sizes, up to where they take too long, or too long for `seconds` in all.

    Pipelines go in as many chunks as they would by the links alone: ranks that share cores do not fill a pipeline as a
    call in one chunk lets expect.
    """
    collective, group = contest.collective, contest.group
    points: dict[str, list[Point]] = {name: [] for name in contest.names}
    running = list(points)
    sizes = watch.effort.sizes
    clock = watch.clock()
    shares = watch.shares(seconds, [math.sqrt(max(1.0, size / _SMALL)) for size in sizes])
    for k, (size, share) in enumerate(zip(sizes, shares, strict=True)):
        # All or none: an algorithm that has stopped earlier than others would seem fast beyond.
        if k >= _LEAST_POINTS and sum(_expected(points[name], size) for name in running) > seconds - clock():
            break
        wanted = _core.candidates(collective, size, _core.Topology(group.size), links)
        chunks = {choice["algorithm"]: choice["chunks"] for choice in wanted}
        calls = calls_for(group.comm, collective, size, [(name, chunks[name]) for name in running])
        for name, each in zip(running, watch.fastest(calls, share), strict=True):
            points[name].append(Point(size, each, chunks[name]))
        running = [n for n in running if points[n][-1].seconds < watch.effort.longest_call_s or k + 1 < _LEAST_POINTS]
        if not running:
            break
    return points


def _expected(points: Sequence[Point], size: int) -> float:
    """Seconds of a call of that size by the line through the last two."""
    before, last = points[-2:]
    return last.seconds + max(0.0, last.seconds - before.seconds) / (last.size - before.size) * (size - last.size)
