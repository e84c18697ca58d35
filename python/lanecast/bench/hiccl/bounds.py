# SPDX-License-Identifier: Apache-2.0
"""How fast a collective can be at most: HiCCL's Table III over what the links of this run really carry.

All are bounds of the algorithm bandwidth p*d/t, with buffers of p*d bytes: p ranks, g of them on each node, whose NICs
carry kf bytes per second.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

_ONE_WAY = ("gather", "scatter")  # the root's node only receives, or only sends
_ALL_FROM_ONE = ("broadcast", "reduce")  # to one, played backwards
_SHARES = ("all_gather", "reduce_scatter", "gather", "scatter")


@dataclass(frozen=True)
class Limits:
    """What links carry, in bytes per second; None where there are none."""

    unidirectional: float | None  # kf, out of one node into another that sends nothing
    bidirectional: float | None  # kf, each way between two nodes that send at once
    within: float | None  # into each rank from another of its node, on all nodes at once
    between_by: str = ""  # how those between nodes were measured

    def in_gbps(self) -> dict[str, float | str | None]:
        """For rows."""
        return {key: value / 1e9 if isinstance(value, float) else value for key, value in asdict(self).items()}


def best(first: Limits, second: Limits) -> Limits:
    """Of two measurements: a busy machine lowers what links carry and never raises it."""

    def better(a: float | None, b: float | None) -> float | None:
        return a if b is None else b if a is None else max(a, b)

    return Limits(
        better(first.unidirectional, second.unidirectional),
        better(first.bidirectional, second.bidirectional),
        better(first.within, second.within),
        first.between_by,
    )


def between_nodes(collective: str, limits: Limits, p: int, g: int) -> float | None:
    """Bytes per second that the NICs allow: Table III; None on one node."""
    kf = limits.unidirectional if collective in _ONE_WAY else limits.bidirectional
    if kf is None or p == g:
        return None
    if collective in _SHARES:
        return kf * p / (p - g)
    if collective == "all_reduce":
        return kf * p / (2 * (p - g))
    if collective == "all_to_all":
        return kf * p / (g * (p - g))
    return kf


def within_nodes(collective: str, limits: Limits, p: int, g: int) -> float | None:
    """Bytes per second that the links within a node allow; None where a node has one rank.

    Of the p*d bytes that a rank ends with (or, played backwards, begins with) one g-th comes through its own NIC and
    the rest through its neighbours', in an all-to-all only what they bring themselves. On one node a broadcast has no
    NIC to come through. The paper gives no formula for "the intra-node cost in isolation" that it marks.
    """
    if limits.within is None or g == 1:
        return None
    if collective == "all_to_all":
        return limits.within * p / (g - 1)
    if p == g and collective in _ALL_FROM_ONE:
        return limits.within
    passes = 2 if collective == "all_reduce" else 1
    return limits.within * g / (passes * (g - 1))
