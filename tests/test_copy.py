# SPDX-License-Identifier: Apache-2.0
"""Copies against numpy's."""

import numpy as np
import pytest

from lanecast import _core


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
