# SPDX-License-Identifier: Apache-2.0
"""A ring in one chunk does the same in each step, and its steps grow with the ranks: what many take, few tell."""

from __future__ import annotations

from dataclasses import replace

from lanecast.scale.contenders import Case, Plan

MOST_RANKS = 512  # that a ring is simulated on


def on_fewer_ranks(case: Case, plan: Plan, most_ranks: int = MOST_RANKS) -> Case:
    """The case itself, or what takes as long for each step."""
    # Of all-reduces the two halves meet, and how they do changes with the ranks.
    if (plan.algorithm, plan.chunks) != ("ring", 1) or case.collective == "all_reduce" or case.ranks <= most_ranks:
        return case
    return replace(case, ranks=most_ranks, bytes=case.bytes // case.ranks * most_ranks)


def seconds_on_all(seconds: float, case: Case, fewer: Case) -> float:
    """What the case takes, when one on fewer ranks takes so long."""
    return seconds * (case.ranks - 1) / (fewer.ranks - 1)
