# SPDX-License-Identifier: Apache-2.0
"""From the caller's objects to contiguous memory and the core's dtype codes, without a copy."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lanecast import _core

Array = npt.NDArray[Any]

DTYPE_CODES = {name: code for code, name in enumerate(_core.DTYPES)}
OP_CODES = {name: code for code, name in enumerate(_core.OPS)}

# Names that other packages give to the same types; the 8- and 16-bit floats are those of the package ml_dtypes.
_ALIASES = {"float8_e4m3fn": "float8_e4m3"}

# (code, bits) of DLPack's DLDataType → name.
_DLPACK_TYPES = {
    **{(0, bits): f"int{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"float{bits}" for bits in (16, 32, 64)},
    (4, 16): "bfloat16",
    (10, 8): "float8_e4m3",
    (12, 8): "float8_e5m2",
}
_DLPACK_CPU = 1

_codes: dict[Any, int] = {}  # numpy dtype → code; filled as dtypes are met


class Buffer(NamedTuple):
    """Contiguous memory of the caller's."""

    view: Array  # of a dtype that the binding understands
    dtype: int  # code
    size: int  # elements

    def rows(self, value: Any) -> int:
        """Length of the first dimension of the object that this is a view of."""
        shape: tuple[int, ...] = getattr(value, "shape", ())
        return shape[0] if len(shape) > 0 else self.size


def as_buffer(value: Any, argument: str, rank: int, *, written: bool) -> Buffer:
    """View a numpy array, or anything with __dlpack__ on the CPU or the buffer protocol, as a Buffer.

    Raises UsageError, naming the argument and the rank, for what is not contiguous, not writable where it is written,
    on a device, of a type that no reduction knows, or no buffer at all.
    """
    if isinstance(value, np.ndarray):
        return _from_numpy(value, argument, rank, written=written)
    if hasattr(type(value), "__dlpack__"):
        return _from_dlpack(value, argument, rank, written=written)
    try:
        array = np.asarray(memoryview(value))
    except TypeError:
        raise _core.UsageError(
            f"rank {rank}: {argument} is a {type(value).__name__}; pass a numpy array, a tensor with __dlpack__ or a "
            "writable buffer"
        ) from None
    return _from_numpy(array, argument, rank, written=written)


def _from_numpy(array: Array, argument: str, rank: int, *, written: bool) -> Buffer:
    flags = array.flags
    if not flags.c_contiguous:
        raise _core.UsageError(f"rank {rank}: {argument} is not contiguous; pass numpy.ascontiguousarray({argument})")
    if written and not flags.writeable:
        raise _core.UsageError(f"rank {rank}: {argument} is read-only, but the result goes there")
    code = _dtype_code(array, argument, rank)
    # The binding knows no types of other packages: they travel as integers.
    view = array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")
    return Buffer(view, code, array.size)


def _from_dlpack(value: Any, argument: str, rank: int, *, written: bool) -> Buffer:
    device = value.__dlpack_device__()[0]
    if device != _DLPACK_CPU:
        where = getattr(value, "device", f"a device of DLPack's type {int(device)}")
        raise _core.UsageError(
            f"rank {rank}: {argument} lies on {where}, and this communicator moves the CPU's memory; pass a copy there"
        )
    seen, name = value, ""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor) and value.dtype.is_floating_point and value.itemsize == 1:
        seen, name = value.view(torch.uint8), str(value.dtype).removeprefix("torch.")  # torch exports no 8-bit floats
    found: Any = _core.dlpack_view(seen, written)
    if found is None:
        raise _core.UsageError(f"rank {rank}: {argument} {_why_no_view(seen, written)}")
    view, type_code, bits, size = found
    name = name or _DLPACK_TYPES.get((type_code, bits), f"of DLPack's type {type_code} with {bits} bits")
    code = DTYPE_CODES.get(_ALIASES.get(name, name))
    if code is None:
        raise _core.UsageError(f"rank {rank}: {argument} has dtype {name}; supported: {', '.join(DTYPE_CODES)}")
    return Buffer(view, code, size)


def _why_no_view(value: Any, written: bool) -> str:
    if written and _core.dlpack_view(value, False) is not None:
        return "is read-only, but the result goes there"
    try:
        value.__dlpack__()
    except Exception as error:  # whatever its library raises, such as torch for a tensor that requires a gradient
        return f"cannot be shared: {error}"
    return "is not contiguous; pass a contiguous copy"


def _dtype_code(array: Array, argument: str, rank: int) -> int:
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
    code = OP_CODES.get(op) if isinstance(op, str) else None
    if code is None:
        raise _core.UsageError(f"rank {rank}: op {op!r} is unknown; known: {', '.join(OP_CODES)}")
    return code
