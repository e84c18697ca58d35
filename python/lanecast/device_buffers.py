# SPDX-License-Identifier: Apache-2.0
"""From a GPU's tensors to addresses and the core's dtype codes: those of torch, or with __cuda_array_interface__."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lanecast import _core
from lanecast.dtypes import dtype_code

UNKNOWN_DEVICE = -1  # the interface names none; the core asks the driver whose the address is

_codes: dict[Any, int] = {}  # torch dtype → code; filled as dtypes are met


class DeviceBuffer(NamedTuple):
    """Contiguous memory of the caller's on a GPU."""

    address: int
    dtype: int  # code
    size: int  # elements
    device: int  # ordinal of the driver's, as torch's index
    owner: Any  # keeps the memory, and knows its stream

    @property
    def view(self) -> DeviceBuffer:
        """What a call is bound to, as the numpy view of a Buffer."""
        return self

    def stream(self) -> int:
        """Handle of the caller's current stream, behind which the call has to come; 0: the default one."""
        return _torch_stream(self.device) if hasattr(self.owner, "is_cuda") else _asked_stream(self.owner)

    def later_streams(self) -> Callable[[], int]:
        """The same for a time when torch's tensor may have gone."""
        return partial(_torch_stream, self.device) if hasattr(self.owner, "is_cuda") else self.stream


def _torch_stream(device: int) -> int:
    # As Triton does: current_stream() makes two objects, which costs more than enqueuing a small collective may.
    return int(sys.modules["torch"]._C._cuda_getCurrentRawStream(device))


def _asked_stream(value: Any) -> int:
    """What the producer asks others to be ordered after; cupy's current one."""
    return int(value.__cuda_array_interface__.get("stream") or 0)


def device_buffer(value: Any, argument: str, rank: int, *, written: bool) -> DeviceBuffer | None:
    """The memory of a GPU's tensor; None for what is none.

    Raises UsageError, naming the argument and the rank, for what is not contiguous, not writable where it is written,
    or of a type that no reduction knows.
    """
    on_gpu = getattr(value, "is_cuda", None)  # only tensors of torch's say
    if on_gpu is not None:
        return _from_torch(value, argument, rank) if on_gpu else None
    interface = getattr(value, "__cuda_array_interface__", None)
    return None if interface is None else _from_interface(value, interface, argument, rank, written=written)


def _from_torch(tensor: Any, argument: str, rank: int) -> DeviceBuffer:
    try:
        contiguous, address = tensor.is_contiguous(), tensor.data_ptr()
    except (RuntimeError, NotImplementedError) as error:  # sparse and functional tensors have no memory of their own
        raise _core.UsageError(f"rank {rank}: {argument} cannot be shared: {error}") from None
    if not contiguous:
        raise _not_contiguous(argument, rank)
    code = _codes.get(tensor.dtype)
    if code is None:
        code = dtype_code(str(tensor.dtype).removeprefix("torch."), argument, rank)
        _codes[tensor.dtype] = code
    return DeviceBuffer(address, code, tensor.numel(), tensor.device.index, tensor)


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
        raise _not_contiguous(argument, rank)
    code = dtype_code(dtype.name if dtype.isnative else dtype, argument, rank)
    device = getattr(getattr(value, "device", None), "id", UNKNOWN_DEVICE)  # cupy's; the interface names none
    return DeviceBuffer(address or 0, code, size, device, value)


def _c_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    expected = itemsize
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True


def _not_contiguous(argument: str, rank: int) -> _core.UsageError:
    return _core.UsageError(f"rank {rank}: {argument} is not contiguous; pass a contiguous copy")
