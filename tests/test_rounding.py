# SPDX-License-Identifier: Apache-2.0
"""Decoding and encoding of 16- and 8-bit floats: every code, ties, subnormals, overflow."""

import numpy as np
import pytest

from kernel_oracle import NARROW, VARIANTS, as_bytes, assert_same, every_code, expected, finite_codes, largest, reduce


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", NARROW)
def test_every_code_survives_decoding_and_encoding(dtype: str, variant: str) -> None:
    codes = every_code(dtype)
    copied = reduce(dtype, "sum", [codes], variant=variant)
    np.testing.assert_array_equal(as_bytes(copied), as_bytes(codes))  # one source: NaNs keep their payload
    assert_same(reduce(dtype, "prod", [codes, np.ones_like(codes)], variant=variant), codes)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e5m2"])
@pytest.mark.parametrize("op", ["sum", "prod", "min", "max"])
def test_every_pair_of_8_bit_codes(dtype: str, op: str, variant: str) -> None:
    codes = every_code(dtype)
    sources = [np.repeat(codes, 256), np.tile(codes, 256)]
    got = reduce(dtype, op, sources, variant=variant)
    assert_same(got, expected(dtype, op, sources), either_zero=op in ("min", "max"))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("divisor", [3.0, 7.0, 2.0**-9, 2.0**9, 2.0**14, 1.5 * 2.0**20, 2.0**100])
def test_rounding_of_every_code(dtype: str, divisor: float, variant: str) -> None:
    """Scaling down reaches subnormals and ties among them, scaling up reaches overflow."""
    codes = every_code(dtype)
    assert_same(reduce(dtype, "avg", [codes], divisor, variant), expected(dtype, "avg", [codes], divisor))
    mixed = np.random.default_rng(1).permutation(codes)
    for op in ("sum", "prod"):
        got = reduce(dtype, op, [codes, mixed], divisor, variant)
        assert_same(got, expected(dtype, op, [codes, mixed], divisor))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", NARROW)
def test_ties_go_to_even(dtype: str, variant: str) -> None:
    """Each code plus exactly half of its distance to the next, and a hair beside that."""
    codes = finite_codes(dtype)
    following = (codes.view(f"uint{8 * codes.itemsize}") + 1).astype(f"uint{8 * codes.itemsize}").view(codes.dtype)
    with np.errstate(all="ignore"):
        half_ulp = ((following.astype(np.float32) - codes.astype(np.float32)) / 2).astype(codes.dtype)
    hair = np.full_like(codes, every_code(dtype)[1])  # the smallest subnormal
    for sources in ([codes, half_ulp], [codes, half_ulp, hair], [codes, half_ulp, -hair]):
        assert_same(reduce(dtype, "sum", sources, variant=variant), expected(dtype, "sum", sources))


@pytest.mark.parametrize(
    ("dtype", "overflow"), [("float8_e4m3", 0x7F), ("float8_e5m2", 0x7C), ("float16", 0x7C00), ("bfloat16", 0x7F80)]
)
def test_overflow_as_in_pytorch(dtype: str, overflow: int) -> None:
    twice = reduce(dtype, "sum", [largest(dtype)] * 2)
    assert int(twice.view(f"uint{8 * twice.itemsize}")[0]) == overflow


@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3", "float8_e5m2"])
def test_an_average_does_not_overflow_on_the_way(dtype: str) -> None:
    assert_same(reduce(dtype, "avg", [largest(dtype)] * 3, 3.0), largest(dtype))
