# SPDX-License-Identifier: Apache-2.0
"""The CPU kernels against numpy, bit for bit, in every variant that this CPU can run."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_oracle import DTYPES, FLOATS, PAIRS, VARIANTS, as_bytes, assert_same, expected, random_values, reduce
from lanecast import _core


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("dtype", "op"), PAIRS)
@pytest.mark.parametrize("source_count", [2, 3, 4, 5, 9, 64])
def test_each_pair(dtype: str, op: str, source_count: int, variant: str) -> None:
    sources = [random_values(dtype, 1237, seed) for seed in range(source_count)]
    got = reduce(dtype, op, sources, variant=variant)
    assert_same(got, expected(dtype, op, sources), either_zero=op in ("min", "max"))


@given(st.data())
def test_bits_depend_on_the_values_alone(data: st.DataObject) -> None:
    """Not on the variant, the alignment, the position in the buffer, or on dst being a source."""
    dtype, op = data.draw(st.sampled_from(PAIRS))
    count = data.draw(st.integers(0, 300) | st.integers(0, 10_000))  # the latter beyond a tile
    source_count = data.draw(st.integers(1, 10))
    divisor = data.draw(st.sampled_from([1.0, 2.0, 3.0, 0.1])) if dtype in FLOATS else 1.0
    sources = [random_values(dtype, count, data.draw(st.integers(0, 99))) for _ in range(source_count)]
    want = as_bytes(reduce(dtype, op, sources, divisor, VARIANTS[-1]))

    offsets = st.integers(0, 64)
    nbytes, margin = want.nbytes, 128
    unaligned = []
    for source in sources:
        offset = data.draw(offsets)
        unaligned.append(np.empty(nbytes + offset, np.uint8)[offset:])
        unaligned[-1][:] = as_bytes(source)
    offset = data.draw(offsets)
    guarded = np.full(nbytes + offset + margin, 0xA5, np.uint8)
    dst = guarded[offset : offset + nbytes]
    in_place = data.draw(st.none() | st.integers(0, source_count - 1))
    if in_place is not None:
        dst[:] = unaligned[in_place]
        unaligned[in_place] = dst
    _core.reduce(dtype, op, dst, unaligned, count, divisor, data.draw(st.sampled_from(VARIANTS)))
    np.testing.assert_array_equal(dst, want)
    assert (guarded[:offset] == 0xA5).all()
    assert (guarded[offset + nbytes :] == 0xA5).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("nan_at", range(3))
def test_min_and_max_hand_on_nan(dtype: str, op: str, nan_at: int) -> None:
    sources = [np.full(77, value, DTYPES[dtype]) for value in (1, 2, 3)]
    sources[nan_at][5] = np.nan
    result = reduce(dtype, op, sources).astype(np.float32)
    assert np.flatnonzero(np.isnan(result)).tolist() == [5]


@pytest.mark.parametrize(
    ("dtype", "op"), [("float32", "band"), ("bfloat16", "bxor"), ("int32", "avg"), ("uint8", "avg")]
)
def test_unsupported_pairs(dtype: str, op: str) -> None:
    source = np.zeros(4, DTYPES[dtype])
    with pytest.raises(Exception, match=f"{op} of {dtype}"):
        reduce(dtype, op, [source, source])


def test_other_misuse() -> None:
    ints = np.zeros(4, np.int32)
    with pytest.raises(Exception, match="divisor"):
        reduce("int32", "sum", [ints, ints], 2.0)
    with pytest.raises(Exception, match="at least one source"):
        _core.reduce("int32", "sum", as_bytes(ints), [], 4)


@pytest.mark.long
def test_more_than_4_gib_of_elements() -> None:
    count = (1 << 32) + 3
    ones, dst = np.ones(count, np.uint8), np.ones(count, np.uint8)
    _core.reduce("uint8", "sum", dst, [dst, ones], count)
    assert dst[0] == dst[1 << 31] == dst[1 << 32] == dst[-1] == 2
    assert int(dst.sum(dtype=np.uint64)) == 2 * count
