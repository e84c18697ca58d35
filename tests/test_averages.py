# SPDX-License-Identifier: Apache-2.0
"""Averages at both ends of every float type's range: no mean of numbers is lost, by any algorithm and at any size."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import lanecast
from averages_rank import ENDS, at_both_ends
from collective_cases import DTYPES, FLOATS, Case, among_threads
from kernel_oracle import NARROW, VARIANTS, Array, as_bytes, assert_same, every_code, finite_codes, largest
from lanecast import Communicator, _core
from lanecast.compose import Composition
from launch import OPENMPI, mpich, openmpi

WIDE = ("float64", "float32", "float16", "bfloat16")  # types that have room for sums beyond their range
SIZES = {1: "", 2: "2x1", 3: "2+1", 4: "2x2", 5: "3+2", 6: "3x2", 7: "3+2+2", 8: "2x4"}
PROGRAM = str(Path(__file__).parent / "averages_rank.py")


def average(sources: list[Array], dtype: str, divisor: float, ranks: int, variant: str = "") -> Array:
    dst = np.empty_like(sources[0])
    _core.reduce(dtype, "avg", as_bytes(dst), [as_bytes(s) for s in sources], dst.size, divisor, variant, ranks)
    return dst


def in_a_chain(sources: list[Array], dtype: str, variant: str) -> Array:
    """As in a ring: each rank adds its own to what the ranks before it have added."""
    ranks = len(sources)
    sums = sources[0]
    for rank in range(1, ranks):
        sums = average([sums, sources[rank]], dtype, ranks if rank == ranks - 1 else 1, ranks, variant)
    return sums


def near_the_largest(dtype: str, ranks: int, count: int) -> list[Array]:
    """Positive ones mostly, some of them much smaller."""
    rng = np.random.default_rng(ranks)
    share = rng.random((ranks, count)) * rng.choice([1, 1, 1, -1, 2.0**-12], (ranks, count))
    return list((share * np.longdouble(largest_of(dtype))).astype(DTYPES[dtype]))


def largest_of(dtype: str) -> float:
    return float(largest(dtype)[0]) if dtype in NARROW else float(np.finfo(DTYPES[dtype]).max)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 7, 8, 17, 64])
def test_partial_sums_beyond_the_range(dtype: str, ranks: int) -> None:
    """Against fractions: an addition rounds once, with some bits less beyond the range."""
    sources = near_the_largest(dtype, ranks, 67)
    epsilon = Fraction(2) ** -{"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}[dtype]
    exact = [[Fraction(float(source[i])) for source in sources] for i in range(67)]
    for variant in VARIANTS:
        whole, chain = average(sources, dtype, ranks, ranks, variant), in_a_chain(sources, dtype, variant)
        for values, at_once, one_by_one in zip(exact, whole, chain, strict=True):
            step = epsilon * sum(map(abs, values), Fraction(0)) / ranks
            mean = sum(values, Fraction(0)) / ranks
            assert abs(Fraction(float(one_by_one)) - mean) <= ranks * step
            assert abs(Fraction(float(at_once)) - mean) <= (step if dtype in NARROW else ranks * step)


@pytest.mark.parametrize("dtype", WIDE)
def test_all_variants_give_the_same_bits(dtype: str) -> None:
    sources = near_the_largest(dtype, 9, 331)
    for divisor in (9, 1):
        assert len({average(sources, dtype, divisor, 9, variant).tobytes() for variant in VARIANTS}) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_number_passes_through_an_average(dtype: str) -> None:
    """And infinity, and NaN."""
    codes = np.concatenate([finite_codes(dtype), np.array([np.inf, -np.inf, np.nan], DTYPES[dtype])])
    for variant in VARIANTS:
        assert_same(average([codes, codes], dtype, 2, 2, variant), codes)
        assert_same(in_a_chain([codes] * 2, dtype, variant), codes)
        assert_same(average([codes, np.zeros_like(codes)], dtype, 1, 5, variant), codes, either_zero=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_step_that_adds_all_takes_no_nan_for_a_number(dtype: str) -> None:
    codes = every_code(dtype)
    for variant in VARIANTS:
        assert_same(average([codes, codes, codes], dtype, 3, -1, variant), codes)


@pytest.mark.parametrize("dtype", WIDE)
def test_infinity_and_nan_are_what_they_always_were(dtype: str) -> None:
    top, inf, nan = largest_of(dtype), np.inf, np.nan
    for values, result in (
        ((inf, 1, 1), inf), ((top, -inf, top), -inf), ((inf, top, -inf), nan), ((top, top, nan), nan),
        ((top, top, -inf), -inf), ((top, top, inf), inf), ((-top, -top, -top), -top), ((top, top, top), top),
    ):  # fmt: skip
        sources = [np.full(5, value, DTYPES[dtype]) for value in values]
        for got in (average(sources, dtype, 3, 3), in_a_chain(sources, dtype, "")):
            np.testing.assert_array_equal(got.astype(np.float64), np.full(5, result))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", SIZES)
def test_every_algorithm(size: int, dtype: str) -> None:
    cases = at_both_ends(size, SIZES[size], dtype)
    assert among_threads(size, cases, **({"topology": SIZES[size]} if SIZES[size] else {})) == []


@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3", "float32"])
def test_every_size(dtype: str) -> None:
    """On both sides of every switch of the algorithm that is chosen."""
    cases = [
        Case("all_reduce", (count,), "", dtype, "avg", in_place=True, end=end)
        for count, end in itertools.product((1, 700, 5_000, 40_000, 300_000, 1 << 20), ENDS)
    ]
    assert among_threads(4, cases) == []
    assert among_threads(4, cases[4:8], topology="2x2") == []


def means_and_sums(comm: Communicator) -> list[bool]:
    same = []
    for dtype, algorithm in itertools.product((np.float64, np.float32), ("ring", "direct", "double_tree", "bruck")):
        x = np.random.default_rng(comm.rank).standard_normal(5001).astype(dtype)
        mean = x.copy()
        comm.all_reduce(x, algorithm=algorithm, chunks=3)
        comm.all_reduce(mean, "avg", algorithm=algorithm, chunks=3)
        same.append((x / dtype(comm.size)).tobytes() == mean.tobytes())
    return same


def test_a_mean_is_the_sum_divided_where_no_sum_leaves_the_range() -> None:
    assert all(all(same) for same in lanecast.run_threads(5, means_and_sums))


def the_same(comm: Communicator) -> list[float]:
    found = []
    for value, algorithm in itertools.product((65504.0, 30000.0, 6e-8), ("", "ring", "direct", "double_tree")):
        for count in (5_000, 300_000):
            x = np.full(count, value, np.float16)
            comm.all_reduce(x, "avg", algorithm=algorithm)
            found += [float(x.min()), float(x.max())]
    return found


def test_the_mean_of_one_number_is_that_number() -> None:
    for found in lanecast.run_threads(4, the_same):
        assert found == [float(np.float16(value)) for value in (65504, 30000, 6e-8) for _ in range(16)]


def composed(comm: Communicator) -> list[bool]:
    """Part 0 becomes all ranks' mean at rank 0, part 1 that of two at rank 1; a step of its own divides the sum."""
    size = comm.size
    composition = Composition([[0, 1]] * size, [[rank] if rank < 2 else [] for rank in range(size)])
    composition.reduce(range(size), 0, 0, "avg")
    composition.reduce([0, size - 1], 1, 1, "avg")
    right = []
    for dtype in WIDE:
        top = largest_of(dtype)
        mean = np.empty(9 if comm.rank < 2 else 0, DTYPES[dtype])
        comm.compile(composition, mean, np.full(18, top, DTYPES[dtype])).run()
        right.append(np.array_equal(mean, np.full(mean.size, top, DTYPES[dtype])))
    with pytest.raises(lanecast.UsageError, match=r"reduce \(avg\) .*: sums of float8_e4m3 end where the type does"):
        comm.compile(composition, np.empty(mean.size, NARROW["float8_e4m3"]), np.empty(18, NARROW["float8_e4m3"]))
    return right


@pytest.mark.parametrize("size", [2, 3, 4, 7])
def test_compositions(size: int) -> None:
    assert all(all(right) for right in lanecast.run_threads(size, composed, topology=SIZES[size]))


@pytest.mark.parametrize("launcher", [mpich, openmpi])
def test_mpis_own_collectives(launcher: Callable[..., str]) -> None:
    python = sys.executable if launcher is mpich else str(OPENMPI / "python")
    output = launcher(3, [python, PROGRAM])
    assert sorted(re.findall(r"rank (\d): \d\d+ calls", output)) == ["0", "1", "2"], output
    assert not re.sub(r"rank \d: \d\d+ calls", "", output).strip(), output
