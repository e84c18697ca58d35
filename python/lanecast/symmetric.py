# SPDX-License-Identifier: Apache-2.0
"""Memory that the GPUs of a host read and write at each other: as tensors of torch's, or a tensor's that is there."""

from __future__ import annotations

from operator import index
from typing import Any

from lanecast import _core
from lanecast.dtypes import dtype_code, torch_dtype


class _Bytes:
    """Memory as torch.as_tensor() takes it without a copy; the tensor keeps this, and this the memory."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory  # the core's, which frees it
        self.__cuda_array_interface__ = {
            "version": 3, "typestr": "|u1", "shape": (memory.bytes,), "strides": None, "data": (memory.address, False),
        }  # fmt: skip


def symmetric_empty(core: Any, rank: int, count: int, dtype: Any) -> Any:
    """See Communicator.symmetric_empty."""
    try:
        import torch
    except ImportError:
        raise _core.UsageError(f"rank {rank}: symmetric_empty: makes a tensor of torch's, which is not here") from None
    if not torch.cuda.is_available():
        raise _core.UsageError(f"rank {rank}: symmetric_empty: torch {torch.__version__} finds no GPU here")
    try:
        elements = index(count)
    except TypeError:
        elements = -1
    if elements < 0:
        raise _core.UsageError(f"rank {rank}: symmetric_empty: count={count!r}: expected a number of elements")
    name = str(dtype).removeprefix("torch.")
    dtype_code(name, "symmetric_empty: the tensor", rank)
    kind = torch_dtype(name)
    device = torch.cuda.current_device()
    memory = core.symmetric_allocate(device, max(1, elements) * kind.itemsize)  # no tensor has an address of nothing
    whole = torch.as_tensor(_Bytes(memory), device=f"cuda:{device}")
    return whole[: elements * kind.itemsize].view(kind)


class Registration:
    """See Communicator.register."""

    def __init__(self, core: Any, rank: int, tensor: Any) -> None:
        if not getattr(tensor, "is_cuda", False) or not tensor.is_contiguous() or tensor.numel() == 0:
            raise _core.UsageError(f"rank {rank}: register: expected a contiguous CUDA tensor that is not empty")
        count = tensor.numel() * tensor.element_size()
        try:
            self._memory = _core.WindowMemory(tensor.device.index, tensor.data_ptr(), count, tensor)
        except _core.UsageError as error:
            raise _core.UsageError(f"rank {rank}: register: {error}") from None
        if not core.open_window(self._memory):
            raise _core.UsageError(
                f"rank {rank}: register: of no use: the ranks are on several hosts, the GPU is not open (make the "
                "communicator with device=N), the tensor is on another one, or 256 tensors are registered already"
            )

    def close(self) -> None:
        """Waits for this device's work; no call may be made on the tensor as registered memory after it."""
        self._memory.retire()

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
