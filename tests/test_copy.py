# SPDX-License-Identifier: Apache-2.0
"""Strided copies against numpy's slices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanecast import _core


@given(
    rows=st.integers(0, 9),
    row_bytes=st.sampled_from([0, 1, 3, 4, 8, 16, 37]),
    gaps=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    offset=st.integers(0, 3),
)
def test_strided_copy(rows: int, row_bytes: int, gaps: tuple[int, int], offset: int) -> None:
    dst_stride, src_stride = row_bytes + gaps[0], row_bytes + gaps[1]
    src = np.random.default_rng(rows).integers(0, 256, offset + rows * src_stride, np.uint8)[offset:]
    dst, want = (np.full(offset + rows * dst_stride, 0xEE, np.uint8)[offset:] for _ in range(2))
    for row in range(rows):
        want[row * dst_stride :][:row_bytes] = src[row * src_stride :][:row_bytes]
    _core.copy_strided(dst, src, (dst_stride, src_stride), row_bytes, rows)
    np.testing.assert_array_equal(dst, want)


@pytest.mark.parametrize("nbytes", [0, 1, 63, 2047, 2048, 2111, 9000])
def test_copy_wherever_the_target_lies_within_its_page(nbytes: int) -> None:
    """A reduction of one source is a copy; from 2 KiB on there are two loops, by where target and source lie."""
    memory = np.random.default_rng(nbytes).integers(0, 256, 8 * 4096, np.uint8)
    begin = -memory.ctypes.data % 4096
    src = memory[begin + 5 :][:nbytes]
    for behind in (*range(-2, 34), 64, 2048):
        room = memory[begin + 4 * 4096 :]
        room[:] = 0xEE
        dst = room[5 + behind :][:nbytes]
        _core.reduce("uint8", "sum", dst, [src], nbytes)
        np.testing.assert_array_equal(dst, src)
        assert (room[: 5 + behind] == 0xEE).all()
        assert (room[5 + behind + nbytes :] == 0xEE).all()
