# SPDX-License-Identifier: Apache-2.0
"""From the caller's objects to contiguous memory and the core's dtype codes, without a copy."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lanecast import _core
from lanecast._core import DeviceBuffer
from lanecast.device_buffers import UNKNOWN_DEVICE, device_buffer
from lanecast.dtypes import dtype_code, numpy_dtype

Array = npt.NDArray[Any]

_DLPACK_HOST = {1, 3, 11}  # the CPU's memory; that pinned for CUDA's and for ROCm's devices

_codes: dict[Any, int] = {}  # numpy dtype → code; filled as dtypes are met


class Buffer(NamedTuple):
    """Contiguous memory of the caller's."""

    view: Array  # of a dtype that the binding understands
    dtype: int  # code
    size: int  # elements


def as_buffer(value: Any, argument: str, rank: int, *, written: bool) -> Buffer | DeviceBuffer:
    """View a numpy array, anything with __dlpack__ on the CPU or the buffer protocol, or a GPU's tensor.

    Raises UsageError, naming the argument and the rank, for what is not contiguous, not writable where it is written,
    on a device that is no GPU of ours, of a type that no reduction knows, or no buffer at all.
    """
    if isinstance(value, np.ndarray):
        return _from_numpy(value, argument, rank, written=written)
    return device_buffer(value, argument, rank, written=written) or _from_host(value, argument, rank, written=written)


def view_for_core(array: Array) -> Array:
    """The same memory of a type that the binding knows: those of other packages travel as integers."""
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")


def rows(value: Any, buffer: Buffer | DeviceBuffer) -> int:
    """Length of the first dimension of the object that this is the memory of."""
    shape: tuple[int, ...] = getattr(value, "shape", ())
    return shape[0] if len(shape) > 0 else buffer.size


def where(buffer: Buffer | DeviceBuffer) -> str:
    """The device that the memory lies on, as torch writes it."""
    if not isinstance(buffer, DeviceBuffer):
        return "the CPU"
    return "a GPU" if buffer.device == UNKNOWN_DEVICE else f"{buffer.vendor or 'cuda'}:{buffer.device}"


def require_together(source: Buffer | DeviceBuffer, target: Buffer | DeviceBuffer, rank: int) -> None:
    """Raises UsageError for an input and an output of which it is known that they lie on two devices."""
    if isinstance(source, DeviceBuffer) and isinstance(target, DeviceBuffer):
        pairs = ((source.device, target.device, UNKNOWN_DEVICE), (source.vendor, target.vendor, ""))
        together = all(one == other or unknown in (one, other) for one, other, unknown in pairs)
    else:
        together = type(source) is type(target)
    if not together:
        raise _core.UsageError(
            f"rank {rank}: output lies on {where(target)}, input on {where(source)}; they must be on one device"
        )


def _from_host(value: Any, argument: str, rank: int, *, written: bool) -> Buffer:
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
    code = _array_code(array, argument, rank)
    return Buffer(view_for_core(array), code, array.size)


def _from_dlpack(value: Any, argument: str, rank: int, *, written: bool) -> Buffer:
    device = value.__dlpack_device__()[0]
    if device not in _DLPACK_HOST:
        place = getattr(value, "device", f"a device of DLPack's type {int(device)}")
        raise _core.UsageError(
            f"rank {rank}: {argument} lies on {place}; pass the CPU's memory, or a GPU's as a tensor of torch's or "
            "with __cuda_array_interface__"
        )
    seen, name = value, ""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.requires_grad:
            seen = value.detach()  # which torch would not export, and torch.distributed takes
        if value.dtype.is_floating_point and value.itemsize == 1:
            seen, name = seen.view(torch.uint8), str(value.dtype).removeprefix("torch.")  # older ones export none
    found: Any = _core.dlpack_view(seen, written)
    if found is None:
        raise _core.UsageError(f"rank {rank}: {argument} {_why_no_view(seen, written)}")
    view, dtype, size = found
    return Buffer(view, dtype_code(name or dtype, argument, rank), size)


def _why_no_view(value: Any, written: bool) -> str:
    if written and _core.dlpack_view(value, False) is not None:
        return "is read-only, but the result goes there"
    try:
        value.__dlpack__()
    except Exception as error:  # whatever its library raises, such as torch for a tensor that requires a gradient
        return f"cannot be shared: {error}"
    return "is not contiguous, or has no memory of its own; pass a contiguous copy"


def _array_code(array: Array, argument: str, rank: int) -> int:
    code = _codes.get(array.dtype)
    if code is None:
        code = dtype_code(array.dtype.name if array.dtype.isnative else array.dtype, argument, rank)
        ours = numpy_dtype(_core.DTYPES[code])
        if array.dtype != ours:  # ml_dtypes has a float8_e4m3 with infinities besides
            raise _core.UsageError(f"rank {rank}: {argument} has dtype {array.dtype}; the one that is known is {ours}")
        _codes[array.dtype] = code
    return code
