# SPDX-License-Identifier: Apache-2.0
"""Averages at both ends of every float type's range by the GPUs' kernels, without a GPU."""

from __future__ import annotations

import itertools

import pytest

from averages_rank import ENDS, KINDS
from collective_cases import FLOATS, Case, even
from gpu_stand_in import in_place_is_offered, judge

ALIGNED = 16  # elements between which a buffer lies, so that it begins where 16-byte accesses may


@pytest.mark.timeout(400)  # the first one builds the driver
@pytest.mark.parametrize("guard", [3, ALIGNED])
@pytest.mark.parametrize("size", [2, 3])
def test_within_a_host(size: int, guard: int, kernel_cache: str) -> None:
    cases = [
        Case(kind, even(kind, 83, size), engine, dtype, "avg", in_place_is_offered(kind)[-1], end=end, root=size - 1)
        for engine in ("peer_kernel", "copy_engine", "peer_two_shot")
        for kind in (KINDS if engine != "peer_two_shot" else ("all_reduce", "reduce"))
        for dtype, end in itertools.product(FLOATS, ENDS)
    ]
    judge(size, cases, kernel_cache, guard)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("size", "topology", "algorithm"),
    [(3, "3x1", "ring"), (4, "2x2", "hierarchical(ring,peers)"), (5, "5x1", "double_tree")],
)
def test_between_hosts(size: int, topology: str, algorithm: str, kernel_cache: str) -> None:
    """Partial sums travel, from kernels that have added those of a host."""
    kinds = KINDS[:1] if algorithm == "double_tree" else KINDS[:2]
    cases = [
        Case(kind, even(kind, 67, size), algorithm, dtype, "avg", chunks=chunks, end=end)
        for kind in kinds
        for dtype, end in itertools.product(FLOATS, ENDS)
        for chunks in (1, 3)
    ]
    judge(size, cases, kernel_cache, ALIGNED, topology=topology)
