# SPDX-License-Identifier: Apache-2.0
"""The arithmetic behind the columns of a benchmark."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from lanecast import _core
from lanecast.bench.cases import Case


def busbw_factor(collective: str, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth, by nccl-tests: the share of the buffer that each link has to carry."""
    if collective in {"broadcast", "reduce"}:
        return 1
    return (2 if collective == "all_reduce" else 1) * (ranks - 1) / ranks


def least_traffic_bytes(case: Case) -> int:
    """Bytes that all ranks together must read and write in memory: each input once, each output once."""
    ranks, full = case.ranks, case.full_bytes
    own = full // case.parts
    match case.collective:
        case "all_reduce" | "all_to_all":
            return 2 * ranks * full
        case "broadcast":
            return ranks * full
        case "reduce":
            return (ranks + 1) * full
        case "gather" | "scatter":
            return 2 * (full - own if case.in_place else full)
    if case.collective == "all_gather" and case.in_place:
        return ranks * own + ranks * (full - own)
    return ranks * own + ranks * full


def nodes_of(topology: _core.Topology) -> int:
    """Domains of the outermost level."""
    return len(set(topology.levels[0][1])) if topology.levels else 1


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The lower and the upper one; the value itself where there is only one."""
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high
