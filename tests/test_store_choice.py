# SPDX-License-Identifier: Apache-2.0
"""By which stores a rank writes what others read, with writes that take as long as a test says."""

from __future__ import annotations

import platform
import time
from typing import Any

import numpy as np
import pytest

import lanecast
from lanecast import Communicator, _core

KIB = 1 << 10
RETRY = 1024  # writes
SHORT_S, LONG_S = 20e-6, 200e-6

x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="only there two kinds of stores are known")


class Writer:
    """Whose ordinary stores are slow while `far`; keeps the kinds of its writes."""

    def __init__(self) -> None:
        self.choice = _core.StoreChoice()
        self.far = False
        self.bypassed: list[bool] = []

    def write(self, times: int, size: int = 64 * KIB) -> list[bool]:
        """The kinds of so many more."""
        for _ in range(times):
            self.choice.write(size, self._write)
        return self.bypassed[-times:]

    def _write(self, bypassing: bool) -> None:
        self.bypassed.append(bypassing)
        until = time.perf_counter() + (LONG_S if self.far and not bypassing else SHORT_S)
        while time.perf_counter() < until:
            pass


@x86
def test_far_readers_are_written_past_the_cache_and_near_ones_are_not() -> None:
    writer = Writer()
    assert sorted(writer.write(2)) == [False, True]  # either is tried at once
    assert sum(writer.write(200)) == 0
    writer.far = True
    writer.write(16 * 20)  # one write of 16 is timed, and several slow ones in a row count
    assert writer.choice.bypasses()
    assert all(writer.write(16))


@x86
def test_a_reader_that_has_come_near_is_noticed() -> None:
    writer = Writer()
    writer.far = True
    writer.write(RETRY // 2)
    assert writer.choice.bypasses()
    writer.far = False
    writer.write(RETRY)  # one of them by ordinary stores, and a fast write is proof
    assert not writer.choice.bypasses()


def test_short_writes_try_nothing() -> None:
    assert not any(Writer().write(100, KIB - 1))


@pytest.mark.parametrize("count", [1, 1000, 1025, 40_001])
@pytest.mark.parametrize("dtype", [np.float64, np.int8])
@pytest.mark.parametrize("algorithm", ["ring", "hierarchical(ring,ring)"])
def test_sums_written_either_way_are_right(algorithm: str, dtype: type, count: int) -> None:
    """A communicator's first sums for a reader are written past the cache, in tiles; offsets suit no line."""

    def rank_main(comm: Communicator) -> None:
        for skipped in (0, 1, 3):
            brought = (np.arange(count) * 5 + np.arange(comm.size)[:, None]) % 29
            values: Any = np.zeros(skipped + count, dtype)[skipped:]
            values[:] = brought[comm.rank]
            comm.all_reduce(values, algorithm=algorithm)
            assert np.array_equal(values, brought.sum(axis=0))

    lanecast.run_threads(4, rank_main, topology="2x2")
