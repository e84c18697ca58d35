# SPDX-License-Identifier: Apache-2.0
"""From the caller's objects to contiguous numpy arrays and the core's dtype codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanecast import _core

Array = npt.NDArray[Any]

DTYPE_CODES = {name: code for code, name in enumerate(_core.DTYPES)}
OP_CODES = {name: code for code, name in enumerate(_core.OPS)}

# Names that other packages give to the same types; the 8- and 16-bit floats are those of the package ml_dtypes.
_ALIASES = {"float8_e4m3fn": "float8_e4m3"}

_codes: dict[Any, int] = {}  # numpy dtype → code; filled as dtypes are met


def as_array(value: Any, argument: str, rank: int, *, written: bool) -> Array:
    """View `value` (a numpy array or anything with the buffer protocol) as a contiguous array, without a copy.

    Raises UsageError, naming the argument and the rank, for what is not contiguous, not writable where it is written,
    or no buffer at all.
    """
    if isinstance(value, np.ndarray):
        array = value
    else:
        try:
            array = np.asarray(memoryview(value))
        except TypeError:
            raise _core.UsageError(
                f"rank {rank}: {argument} is a {type(value).__name__}; pass a numpy array or a writable buffer"
            ) from None
    flags = array.flags
    if not flags.c_contiguous:
        raise _core.UsageError(f"rank {rank}: {argument} is not contiguous; pass numpy.ascontiguousarray({argument})")
    if written and not flags.writeable:
        raise _core.UsageError(f"rank {rank}: {argument} is read-only, but the result goes there")
    return array


def dtype_code(array: Array, argument: str, rank: int) -> int:
    """Code of the array's element type; raises UsageError for types that no reduction knows."""
    code = _codes.get(array.dtype)
    if code is None:
        name = array.dtype.name
        code = DTYPE_CODES.get(_ALIASES.get(name, name))
        if code is None or not array.dtype.isnative:
            raise _core.UsageError(
                f"rank {rank}: {argument} has dtype {array.dtype}; supported: {', '.join(DTYPE_CODES)}"
            )
        _codes[array.dtype] = code
    return code


def op_code(op: str, rank: int) -> int:
    """Code of a reduction operator; raises UsageError for unknown names."""
    code = OP_CODES.get(op)
    if code is None:
        raise _core.UsageError(f"rank {rank}: op {op!r} is unknown; known: {', '.join(OP_CODES)}")
    return code


def as_bytes_view(array: Array) -> Array:
    """The same memory under a dtype that the binding understands: types of other packages travel as integers."""
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")
