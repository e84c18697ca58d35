# SPDX-License-Identifier: Apache-2.0
"""By which stores a rank writes what others read, with writes that take as long as a test says."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import lanecast
from lanecast import Communicator, _core

KIB = 1 << 10
FIRST, RETRY = 8, 1024  # writes
SHORT_S, LONG_S = 20e-6, 200e-6

x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="only there two kinds of stores are known")


class Writer:
    """Whose ordinary stores are slow while `far`; keeps the kinds of its writes."""

    def __init__(self) -> None:
        self.choice = _core.StoreChoice()
        self.far = False
        self.bypassed: list[bool] = []

    def write(self, times: int, size: int = 256 * KIB) -> list[bool]:
        """The kinds of so many more. Writes of this size are timed by the thread's own clock: others may be at work."""
        for _ in range(times):
            self.choice.write(size, self._write)
        return self.bypassed[-times:]

    def _write(self, bypassing: bool) -> None:
        self.bypassed.append(bypassing)
        until = time.thread_time() + (LONG_S if self.far and not bypassing else SHORT_S)
        while time.thread_time() < until:
            pass


@x86
def test_far_readers_are_written_past_the_cache_and_near_ones_are_not() -> None:
    writer = Writer()
    assert writer.write(FIRST) == [False, True] * (FIRST // 2)
    assert sum(writer.write(200)) == 4  # writes 16, 32, 64 and 128: the other kind is tried soon at first
    writer.far = True
    writer.write(RETRY)  # one write of 16 is timed, several slow ones in a row count, and so do retries: 256, 512, 1024
    assert writer.choice.ratio() > 5
    assert all(writer.write(16))


@x86
def test_a_reader_that_has_come_near_is_noticed() -> None:
    writer = Writer()
    writer.far = True
    assert all(writer.write(100)[-16:])
    writer.far = False
    writer.write(RETRY)  # one of them by ordinary stores, and a fast write is proof
    assert writer.choice.ratio() < 2


@x86
def test_one_slow_write_decides_nothing() -> None:
    writer = Writer()
    writer.far = True
    writer.write(1)  # on new pages
    writer.far = False
    assert writer.write(FIRST - 1 + 7)[-7:] == [False] * 7


def test_short_writes_try_nothing() -> None:
    assert not any(Writer().write(100, KIB - 1))


def parts(values: Any, cuts: Sequence[int]) -> list[Any]:
    """Views of the same bytes, in so many pieces."""
    return np.split(values.view(np.uint8), [cut * values.itemsize for cut in cuts])


@pytest.mark.parametrize("count", [0, 1, 1023, 1025, 40_001])
@pytest.mark.parametrize("dtype", ["float64", "int8", "float16"])
@pytest.mark.parametrize("sources", [1, 2, 5])
def test_sums_written_either_way_are_equal(sources: int, dtype: str, count: int) -> None:
    """In tiles, past the cache, at places that suit no line, and cut where the tiles are not."""
    rng = np.random.default_rng(count)
    for skipped in (0, 1, 3):
        brought = [rng.integers(-9, 9, skipped + count).astype(dtype)[skipped:] for _ in range(sources)]
        cuts = [sorted(rng.integers(0, count + 1, k)) for k in range(sources + 1)]
        cut = [parts(values, where) for values, where in zip(brought, cuts, strict=False)]
        for bypassing in (False, True):
            result: Any = np.zeros(skipped + count + 1, dtype)
            into = result[skipped:-1]
            _core.reduce_spans(dtype, "sum", parts(into, cuts[-1]), cut, into.nbytes, bypassing)
            assert np.array_equal(into, sum(brought[1:], brought[0]))
            assert result[-1] == 0
        _core.reduce_spans(dtype, "sum", cut[0], cut, brought[0].nbytes, True)  # in place
        assert np.array_equal(brought[0], into)


@pytest.mark.parametrize("dtype", [np.float64, np.int8])
@pytest.mark.parametrize("algorithm", ["ring", "hierarchical(ring,ring)"])
def test_collectives_are_right_while_both_kinds_are_tried(algorithm: str, dtype: type) -> None:
    def rank_main(comm: Communicator) -> None:
        count = 160_001
        brought = (np.arange(count) * 5 + np.arange(comm.size)[:, None]) % 29
        for _ in range(FIRST):
            values = brought[comm.rank].astype(dtype)
            comm.all_reduce(values, algorithm=algorithm)
            assert np.array_equal(values, brought.sum(axis=0))

    lanecast.run_threads(4, rank_main, topology="2x2")
