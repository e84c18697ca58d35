# SPDX-License-Identifier: Apache-2.0
"""From a communicator to its profile: links, algorithms and the overlap of levels, measured and fitted."""

from __future__ import annotations

import datetime
import itertools
import platform
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

import lanecast
from lanecast import _core
from lanecast.communicator import Communicator
from lanecast.profiles.profile import AlgorithmFit, CollectiveOverlap, LevelLink, Profile
from lanecast.profiles.shape import level_names, shape_of
from lanecast.tune.fit import Curve, Segment, fit_line, fit_overlap, fit_segments
from lanecast.tune.groups import Group, groups, pairs
from lanecast.tune.measure import COLLECTIVES, Contest, Effort, Point, Stopwatch, calls_for, rows_for, sweep

_CHUNKS = (1, 2, 4, 8, 16)
_SMALLEST_CHUNK = 256 << 10  # as in src/select/choose.cpp
_OVERLAPPING = 2  # algorithms, and sizes, over which the overlap of a collective is fitted

Say = Callable[[str], None]


def tune(
    comm: Communicator, effort: Effort, collectives: Sequence[str] = COLLECTIVES, say: Say = lambda _: None
) -> Profile:
    """Measure and fit; the same profile on every rank, but for its `measured`. Collective, and nothing else may run.

    collectives: some of COLLECTIVES; the others stay predicted from links. say: is told what is measured next.
    """
    watch = Stopwatch(comm, effort)
    all_groups = groups(comm)
    contests = [
        Contest(collective, group, names)
        for collective in collectives
        for group in all_groups
        if (names := rows_for(collective, group, comm.topology))
    ]
    in_chunks = collectives if comm.topology.levels else []
    # By how many algorithms each has at each size.
    weights = [2 * (len(comm.topology.levels) + 1), *(len(contest.names) for contest in contests)]
    weights += [_OVERLAPPING**2] * len(in_chunks)
    shares = watch.shares(effort.seconds, weights)
    number = itertools.count(1)

    def begin(what: str) -> float:
        say(f"{what} ({next(number)} of {len(weights)})")
        return next(shares)

    links, reduce_s_per_byte = _links(watch, all_groups, begin("links"))
    fits: list[AlgorithmFit] = []
    largest: dict[str, int] = {}
    for contest in contests:
        level = contest.group.level
        where = "all ranks" if level < 0 else f"groups of level {level_names(comm.topology)[level]}"
        share = begin(f"{contest.collective} among {where}")
        found = sweep(watch, contest, _link_of(links[max(level, 0)]), share)
        fits += _fitted(contest.collective, contest.group, found, links[max(level, 0)].transport)
        if level < 0:
            largest[contest.collective] = max(point.size for points in found.values() for point in points)
    profile = Profile(shape_of(comm._core), links, reduce_s_per_byte, fits, [], _measured(comm))
    for collective in in_chunks:
        share = begin(f"{collective} in chunks")
        profile.overlaps.append(_overlap(watch, profile.models(), collective, largest[collective], share))
    return profile


def curves(profile: Profile, collective: str, level: int = -1) -> dict[str, Curve]:
    """The fitted algorithms of one collective at a level, by name."""
    found: dict[str, Curve] = {}
    for fit in profile.fits:
        if (fit.collective, fit.level) == (collective, level):
            rounds, volume = _core.cost(collective, fit.algorithm, fit.ranks)
            segment = Segment(fit.from_bytes, fit.alpha_s, fit.beta_s_per_byte, fit.error)
            before = found[fit.algorithm].segments if fit.algorithm in found else ()
            found[fit.algorithm] = Curve(rounds, volume, (*before, segment))
    return found


def _fitted(collective: str, group: Group, found: dict[str, list[Point]], transport: str) -> Iterator[AlgorithmFit]:
    for name, points in found.items():
        rounds, volume = _core.cost(collective, name, group.size)
        fills = _core.is_pipeline(collective, name, group.size)
        lost = [_core.filling_of(transport, p.size) if fills else 1 for p in points]
        steps = [share * (rounds - 1) + p.chunks for share, p in zip(lost, points, strict=True)]
        volumes = [volume * step / rounds / p.chunks for step, p in zip(steps, points, strict=True)]
        for s in fit_segments([p.size for p in points], [p.seconds for p in points], steps, volumes):
            yield AlgorithmFit(
                collective, name, group.level, group.size, s.from_bytes, s.alpha_s, s.beta_s_per_byte, s.error
            )


def _link_of(level: LevelLink) -> _core.Models:
    filling = _core.filling_of(level.transport, 1 << 40)
    return _core.Models([(level.alpha_s, level.beta_s_per_byte)]).with_filling(filling)


def _links(watch: Stopwatch, all_groups: Sequence[Group], seconds: float) -> tuple[list[LevelLink], float]:
    """Each level's link, outermost first, and what a byte costs that is also added."""
    comm = watch.world
    transports = shape_of(comm._core).transports
    links: list[LevelLink] = []
    reduce_s_per_byte = 0.0
    names = level_names(comm.topology)
    for level, (name, of_level) in enumerate(zip(names, watch.shares(seconds, [1] * len(names)), strict=True)):
        if len(transports) > 1 and level not in {group.level for group in all_groups}:
            links.append(LevelLink(name, transports[level], 0, 0, 0))  # groups of one rank: nothing passes here
            continue
        pair = pairs(comm, level)
        times: dict[str, list[float]] = {"all_gather": [], "reduce_scatter": []}
        sizes = watch.effort.sizes
        for size, share in zip(sizes, watch.shares(of_level, [1] * len(sizes)), strict=True):
            calls = [call for collective in times for call in calls_for(pair, collective, size, [("direct", 1)])]
            for collective, each in zip(times, watch.fastest(calls, share), strict=True):
                times[collective].append(each)
            if times["all_gather"][-1] > watch.effort.longest_call_s:
                break
        # Two ranks exchange halves: one round, half of the bytes each way.
        sizes = sizes[: len(times["all_gather"])]
        line = fit_line(sizes, times["all_gather"], 1, 0.5)
        adding = fit_line(sizes, times["reduce_scatter"], 1, 0.5)
        links.append(LevelLink(name, transports[level], line.alpha_s, line.beta_s_per_byte, line.error))
        reduce_s_per_byte = max(0.0, adding.beta_s_per_byte - line.beta_s_per_byte)  # the innermost level's stays
    return links, reduce_s_per_byte


def _overlap(
    watch: Stopwatch, models: _core.Models, collective: str, largest: int, seconds: float
) -> CollectiveOverlap:
    """Times in several numbers of chunks beside what the levels alone predict for them."""
    topology = watch.world.topology
    predictions: list[Callable[[float, float], float]] = []
    times: list[float] = []
    sizes = [largest >> (2 * k) for k in range(_OVERLAPPING)]
    for size, share in zip(sizes, watch.shares(seconds, sizes), strict=True):
        ranked = [c["algorithm"] for c in _core.candidates(collective, size, topology, models)]
        best = [name for name in ranked if name.startswith("hierarchical(")][:_OVERLAPPING]
        cases = [(name, n) for n in _CHUNKS for name in best if n == 1 or size // n >= _SMALLEST_CHUNK]
        least = 0 if times else 2 * len(best)
        found = watch.fastest(calls_for(watch.world, collective, size, cases), share, least)
        times += found
        predictions += [partial(_predict, models, collective, topology, (size, *case)) for case in cases[: len(found)]]
    fit = fit_overlap(predictions, times)
    return CollectiveOverlap(collective, fit.hidden, fit.latency, fit.scale, fit.error)


def _predict(  # noqa: PLR0913, PLR0917  bound one by one
    models: _core.Models,
    collective: str,
    topology: _core.Topology,
    case: tuple[int, str, int],
    hidden: float,
    latency: float,
) -> float:
    size, algorithm, chunks = case
    tried = models.with_overlap(collective, hidden, latency, 1.0)
    return _core.predict(collective, size, topology, tried, algorithm, chunks)


def _measured(comm: Communicator) -> dict[str, str]:
    return {
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "lanecast": lanecast.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "kernel": platform.release(),
        "ranks": str(comm.size),
        "over": comm.transports,
    }
