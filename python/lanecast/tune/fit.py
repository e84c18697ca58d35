# SPDX-License-Identifier: Apache-2.0
"""From measured times to alpha and beta, and from two fits to the size at which they cross. Pure arithmetic.

T = rounds * alpha + volume * bytes * beta, alpha and beta fitted per algorithm (PCCL, section IV-C).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Bend:
    """When two segments are better than one."""

    worth: float = 0.5  # they must leave at most this share of its error
    least_error: float = 0.1  # below, one is good enough
    least_points: int = 4  # of a segment: two would fit anything


Each = float | Sequence[float]  # the same for all points, or one for each


@dataclass(frozen=True)
class Segment:
    """A fit that holds from so many bytes on; error: root mean square of its relative errors."""

    from_bytes: int
    alpha_s: float
    beta_s_per_byte: float
    error: float


@dataclass(frozen=True)
class Curve:
    """All segments of one algorithm, with what the registry says of its rounds and its share of the bytes."""

    rounds: float
    volume: float
    segments: tuple[Segment, ...]

    def at(self, size: float) -> Segment:
        """The segment that holds for so many bytes."""
        return max(
            (s for s in self.segments if s.from_bytes <= size), key=lambda s: s.from_bytes, default=self.segments[0]
        )

    def seconds(self, size: float) -> float:
        segment = self.at(size)
        return self.rounds * segment.alpha_s + self.volume * size * segment.beta_s_per_byte


@dataclass(frozen=True)
class Crossover:
    """Where two curves meet, and the sizes between which their errors leave open which is faster."""

    at_bytes: float
    low_bytes: float
    high_bytes: float


@dataclass(frozen=True)
class OverlapFit:
    """What src/select/models.h calls an Overlap; error: root mean square of the relative errors."""

    hidden: float
    latency: float
    scale: float
    error: float


def _relative_fit(columns: Sequence[Sequence[float]], seconds: Sequence[float]) -> tuple[list[float], float]:
    """Weights of the columns, none negative, that make the relative errors least; their root mean square."""
    target = np.asarray(seconds)
    relative = np.asarray(columns).T / target[:, None]
    best: tuple[float, list[float]] = (math.inf, [0.0] * len(columns))
    for used in itertools.product((True, False), repeat=len(columns)):
        weights = np.zeros(len(columns))
        if any(used):
            weights[list(used)] = np.linalg.lstsq(relative[:, used], np.ones(len(target)), rcond=None)[0]
        if (weights < 0).any():
            continue
        error = float(np.sqrt(np.mean((relative @ weights - 1) ** 2)))
        best = min(best, (error, [float(w) for w in weights]))
    return best[1], best[0]


def fit_line(sizes: Sequence[float], seconds: Sequence[float], rounds: Each = 1, volume: Each = 1) -> Segment:
    """One alpha and one beta for all sizes; relative errors count, so that small messages matter as large ones do."""
    of_alpha, of_beta = np.broadcast_to(rounds, len(sizes)), np.broadcast_to(volume, len(sizes)) * sizes
    (alpha, beta), error = _relative_fit([of_alpha.tolist(), of_beta.tolist()], seconds)
    return Segment(0, alpha, beta, error)


def fit_curve(sizes: Sequence[int], seconds: Sequence[float], rounds: float, volume: float) -> Curve:
    """The segments of an algorithm that takes the same rounds and volume at every size."""
    return Curve(rounds, volume, fit_segments(sizes, seconds, rounds, volume))


def fit_segments(
    sizes: Sequence[int], seconds: Sequence[float], rounds: Each, volume: Each, bend: Bend = Bend()
) -> tuple[Segment, ...]:
    """One segment, or two where they fit much better: a protocol or a cache ends at some size. Sizes ascend."""
    whole = fit_line(sizes, seconds, rounds, volume)
    best: tuple[Segment, ...] = (whole,)
    error = whole.error
    of_alpha, of_beta = (np.broadcast_to(each, len(sizes)).tolist() for each in (rounds, volume))
    for cut in range(bend.least_points, len(sizes) - bend.least_points + 1):
        low = fit_line(sizes[:cut], seconds[:cut], of_alpha[:cut], of_beta[:cut])
        high = fit_line(sizes[cut:], seconds[cut:], of_alpha[cut:], of_beta[cut:])
        both = math.sqrt((cut * low.error**2 + (len(sizes) - cut) * high.error**2) / len(sizes))
        if both < error and whole.error > bend.least_error and both < bend.worth * whole.error:
            border = int(math.sqrt(sizes[cut - 1] * sizes[cut]))
            best, error = (low, Segment(border, high.alpha_s, high.beta_s_per_byte, high.error)), both
    return best


def fit_bends(sizes: Sequence[int], seconds: Sequence[float], bend: Bend) -> tuple[Segment, ...]:
    """As many segments of T = alpha + bytes * beta as the bends are worth. Sizes ascend."""
    found = fit_segments(sizes, seconds, 1, 1, bend)
    if len(found) == 1:
        return found
    border = found[1].from_bytes
    cut = next(k for k, size in enumerate(sizes) if size > border)
    first, *others = fit_bends(sizes[cut:], seconds[cut:], bend)
    return (*fit_bends(sizes[:cut], seconds[:cut], bend), replace(first, from_bytes=border), *others)


def crossover(one: Curve, other: Curve, smallest: float, largest: float) -> Crossover | None:
    """The first size at which the faster one changes; None where it never does between these sizes."""
    sizes = np.geomspace(smallest, largest, 1024)
    gap = np.array([one.seconds(size) - other.seconds(size) for size in sizes])
    changes = np.flatnonzero(np.sign(gap[1:]) * np.sign(gap[:-1]) < 0)
    if len(changes) == 0:
        return None
    at = int(changes[0])
    doubt = [
        abs(g) <= one.at(size).error * one.seconds(size) + other.at(size).error * other.seconds(size)
        for size, g in zip(sizes, gap, strict=True)
    ]
    low, high = at, at + 1
    while low > 0 and doubt[low - 1]:
        low -= 1
    while high < len(sizes) - 1 and doubt[high + 1]:
        high += 1
    return Crossover(float(math.sqrt(sizes[at] * sizes[at + 1])), float(sizes[low]), float(sizes[high]))


def fit_overlap(predicted: Sequence[Callable[[float, float], float]], seconds: Sequence[float]) -> OverlapFit:
    """The overlap under which the predictions meet the times best; each prediction takes (hidden, latency), scale 1."""
    best = OverlapFit(1, 1, 1, math.inf)
    for hidden, latency in itertools.product(np.linspace(1, 0, 11), np.linspace(1, 0, 11)):
        column = [predict(float(hidden), float(latency)) for predict in predicted]
        (scale,), error = _relative_fit([column], seconds)
        if error < best.error:
            best = OverlapFit(float(hidden), float(latency), scale, error)
    return best
