# SPDX-License-Identifier: Apache-2.0
"""From a GPU's tensors to addresses and the core's dtype codes: through DLPack's table of functions, as torch has it,
or __cuda_array_interface__."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from lanecast import _core
from lanecast._core import DeviceBuffer
from lanecast.dtypes import dtype_code

UNKNOWN_DEVICE = -1  # the interface names none; the core asks the driver whose the address is
UNKNOWN_DTYPE = -1


def _asked_stream(value: Any) -> int:
    """What the producer asks others to be ordered after; cupy's current one."""
    return int(value.__cuda_array_interface__.get("stream") or 0)


def device_buffer(value: Any, argument: str, rank: int, *, written: bool) -> DeviceBuffer | None:
    """The memory of a GPU's tensor; None for what is none.

    Raises UsageError, naming the argument and the rank, for what is not contiguous, not writable where it is written,
    or of a type that no reduction knows.
    """
    if hasattr(type(value), "__dlpack_c_exchange_api__"):
        found = _core.device_buffer(value, argument, rank)
        if found is not None and found.dtype == UNKNOWN_DTYPE:
            dtype_code(str(value.dtype).removeprefix("torch."), argument, rank)  # which refuses it
        return found
    if getattr(value, "is_cuda", False):
        raise _core.UsageError(
            f"rank {rank}: {argument} is a tensor of an older torch, which has no __dlpack_c_exchange_api__; a GPU's "
            "are taken of torch 2.11 and newer"
        )
    interface = getattr(value, "__cuda_array_interface__", None)
    return None if interface is None else _from_interface(value, interface, argument, rank, written=written)


def _from_interface(value: Any, interface: dict[str, Any], argument: str, rank: int, *, written: bool) -> DeviceBuffer:
    address, read_only = interface["data"]
    shape, strides = interface["shape"], interface.get("strides")
    dtype = np.dtype(interface["typestr"])
    size = math.prod(shape)
    if written and read_only:
        raise _core.UsageError(f"rank {rank}: {argument} is read-only, but the result goes there")
    if interface.get("mask") is not None:
        raise _core.UsageError(f"rank {rank}: {argument} has a mask, which no collective understands")
    if strides is not None and size and not _c_contiguous(shape, strides, dtype.itemsize):
        raise _core.UsageError(f"rank {rank}: {argument} is not contiguous; pass a contiguous copy")
    code = dtype_code(dtype.name if dtype.isnative else dtype, argument, rank)
    device = getattr(getattr(value, "device", None), "id", UNKNOWN_DEVICE)  # cupy's; the interface names none
    return DeviceBuffer(address or 0, code, size, device, value, partial(_asked_stream, value))


def _c_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    expected = itemsize
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True
