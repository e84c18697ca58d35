# SPDX-License-Identifier: Apache-2.0
"""What the CPU kernels should give, by numpy and ml_dtypes."""

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from lanecast import _core

Array = NDArray[Any]

NARROW: dict[str, Any] = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}
FLOATS: dict[str, Any] = {"float64": np.float64, "float32": np.float32, **NARROW}
INTEGERS: dict[str, Any] = {
    f"{sign}int{bits}": np.dtype(f"{sign}int{bits}").type for sign in ("", "u") for bits in (8, 16, 32, 64)
}
DTYPES = FLOATS | INTEGERS
FOR_ALL = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
FLOAT_OPS = FOR_ALL | {"avg": np.add}
INTEGER_OPS = FOR_ALL | {"band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor}
PAIRS = [(d, op) for d in FLOATS for op in FLOAT_OPS] + [(d, op) for d in INTEGERS for op in INTEGER_OPS]
VARIANTS = _core.kernel_variants()


def as_bytes(array: Array) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


def reduce(dtype: str, op: str, sources: list[Array], divisor: float = 1.0, variant: str = "") -> Array:
    dst = np.empty_like(sources[0])
    _core.reduce(dtype, op, as_bytes(dst), [as_bytes(s) for s in sources], dst.size, divisor, variant)
    return dst


def expected(dtype: str, op: str, sources: list[Array], divisor: float = 1.0) -> Array:
    """From left to right; narrow floats in fp32, rounded once."""
    accumulator = np.float32 if dtype in NARROW else DTYPES[dtype]
    with np.errstate(all="ignore"):
        result = sources[0].astype(accumulator)
        for source in sources[1:]:
            result = (FLOAT_OPS | INTEGER_OPS)[op](result, source.astype(accumulator))
        if divisor != 1.0:
            result = result / accumulator(divisor)
        return result.astype(DTYPES[dtype])


def assert_same(got: Array, want: Array, either_zero: bool = False) -> None:
    """The same bits, but any NaN for any NaN. `either_zero`: the oracle was free to choose between 0 and -0."""
    assert got.dtype == want.dtype
    if got.dtype.kind in "iu":
        np.testing.assert_array_equal(got, want)
        return
    with np.errstate(invalid="ignore"):
        got, want = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(got, want)
    signed = ~np.isnan(want) & (want != 0 if either_zero else True)
    np.testing.assert_array_equal(np.signbit(got[signed]), np.signbit(want[signed]))


def every_code(dtype: str) -> Array:
    bits = 8 * np.dtype(DTYPES[dtype]).itemsize
    return np.arange(1 << bits).astype(f"uint{bits}").view(DTYPES[dtype])


def finite_codes(dtype: str) -> Array:
    codes = every_code(dtype)
    with np.errstate(invalid="ignore"):
        return codes[np.isfinite(codes.astype(np.float32))]


def largest(dtype: str) -> Array:
    codes = finite_codes(dtype)
    at = np.argmax(codes.astype(np.float32))
    return codes[at : at + 1]


def random_values(dtype: str, count: int, seed: int) -> Array:
    """Half of them any bits at all, half of them of ordinary size."""
    rng = np.random.default_rng(seed)
    any_bits: Array = rng.integers(0, 256, count * np.dtype(DTYPES[dtype]).itemsize, np.uint8).view(DTYPES[dtype])
    ordinary = (rng.standard_normal(count) * 8).astype(np.int64 if dtype in INTEGERS else np.float64)
    return np.where(rng.integers(0, 2, count) == 1, any_bits, ordinary.astype(DTYPES[dtype]))
