# SPDX-License-Identifier: Apache-2.0
"""Buffers of other libraries, by a producer of DLPack tensors of our own, which has every type, device and flag."""

from __future__ import annotations

import ctypes
import importlib.util
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import lanecast
from exchange_api import CUDA, DLTensor, capsule
from lanecast import Communicator

CPU = 1
TYPES: dict[str, tuple[int, Any]] = {  # DLPack's code, and what numpy holds
    "float32": (2, np.float32),
    "float64": (2, np.float64),
    "float16": (2, np.float16),
    "int8": (0, np.int8),
    "uint16": (1, np.uint16),
    "int64": (0, np.int64),
    "bfloat16": (4, ml_dtypes.bfloat16),
    "float8_e4m3": (10, ml_dtypes.float8_e4m3fn),
    "float8_e5m2": (12, ml_dtypes.float8_e5m2),
}


class _Managed(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


class Producer:
    """A numpy array that shows itself by DLPack only."""

    def __init__(self, array: Any, code: int, *, device: int = CPU, read_only: bool = False) -> None:
        self._array, self._device = array, device
        dims = ctypes.c_int64 * array.ndim
        self._shape = dims(*array.shape)
        self._strides = dims(*(stride // array.itemsize for stride in array.strides))
        tensor = DLTensor(
            array.ctypes.data, device, 0, array.ndim, code, 8 * array.itemsize, 1, self._shape, self._strides, 0
        )
        self._managed = _Managed(1, 1, None, None, int(read_only), tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device, 0

    def __dlpack__(self, **_: Any) -> Any:
        return capsule(self._managed, b"dltensor_versioned")


@pytest.mark.parametrize("device", [3, 11], ids=["CUDA", "ROCm"])
def test_memory_pinned_for_a_gpu_is_the_cpus(device: int) -> None:
    array = np.ones(6, np.float32)
    comm = lanecast.from_all_gather(0, 1, lambda mine: mine)
    comm.all_gather_into_tensor(Producer(array, 2, device=device), Producer(2 * ONE, 2, device=device))
    assert (array == 2).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(0,), (1,), (24,), (4, 6), (2, 3, 4)])
def test_every_type_without_a_copy(dtype: str, shape: tuple[int, ...]) -> None:
    code, kind = TYPES[dtype]

    def body(comm: Communicator) -> bool:
        mine = np.full(shape, comm.rank + 1).astype(kind)
        gathered = np.zeros((comm.size * mine.size,), kind)
        comm.all_gather_into_tensor(Producer(gathered, code), Producer(mine, code))
        good = all((part == r + 1).all() for r, part in enumerate(gathered.reshape(comm.size, -1)))
        comm.all_reduce(Producer(mine, code))
        if comm.rank == 0:
            comm.send(Producer(mine, code), 1)
        else:
            comm.recv(Producer(gathered[: mine.size], code), 0)
            good &= bool((gathered[: mine.size] == 3).all())
        return good and bool((mine == 3).all())

    assert lanecast.run_threads(2, body, timeout_s=60.0) == [True, True]


def test_a_started_call_keeps_the_producer_alive() -> None:
    def body(comm: Communicator) -> bool:
        array = np.ones(100_000, np.float32)
        work = comm.all_reduce(Producer(array, 2), async_op=True)
        assert work is not None
        work.wait()
        return bool((array == 2).all())

    assert lanecast.run_threads(2, body, timeout_s=60.0) == [True, True]


ONE = np.ones(6, np.float32)
REFUSED: dict[str, tuple[Any, str]] = {
    "on a device": (Producer(ONE, 2, device=CUDA), "tensor lies on a device of DLPack's type 2"),
    "read-only": (Producer(ONE, 2, read_only=True), "tensor is read-only"),
    "strided": (Producer(ONE[::2], 2), "tensor is not contiguous"),
    "transposed": (Producer(ONE.reshape(2, 3).T, 2), "tensor is not contiguous"),
    "complex": (Producer(np.ones(2, np.complex64), 5), "of DLPack's type 5 with 64 bits; supported: float64"),
    "bool": (Producer(np.ones(2, bool), 6), "of DLPack's type 6 with 8 bits"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what: str) -> None:
    value, words = REFUSED[what]
    comm = lanecast.from_all_gather(0, 1, lambda mine: mine)
    with pytest.raises(lanecast.UsageError) as caught:
        comm.all_reduce(value)
    assert words in str(caught.value)
    assert str(caught.value).startswith("rank 0: ")


def test_read_only_input_is_welcome() -> None:
    comm = lanecast.from_all_gather(0, 1, lambda mine: mine)
    out = np.zeros(6, np.float32)
    comm.all_gather_into_tensor(out, Producer(ONE, 2, read_only=True))
    assert (out == 1).all()


def test_a_producer_that_raises_says_why() -> None:
    class Proud(Producer):
        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("tensors that require gradients stay here")

    comm = lanecast.from_all_gather(0, 1, lambda mine: mine)
    with pytest.raises(lanecast.UsageError, match="rank 0: tensor cannot be shared: tensors that require gradients"):
        comm.all_reduce(Proud(ONE, 2))


needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@needs_torch
def test_torch_tensors() -> None:
    import torch

    def body(comm: Communicator) -> bool:
        good = True
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.float8_e4m3fn, torch.float8_e5m2):
            tensor = torch.full((3, 5), comm.rank + 1).to(dtype)
            comm.all_reduce(tensor, "max")
            good &= bool((tensor.to(torch.float32) == comm.size).all())
        leaf = torch.full((3,), comm.rank + 1.0, requires_grad=True)
        comm.all_reduce(leaf)
        return good and leaf.tolist() == [3.0] * 3

    assert lanecast.run_threads(2, body, timeout_s=60.0) == [True, True]


@needs_torch
def test_torch_tensors_that_have_no_such_memory() -> None:
    import torch

    comm = lanecast.from_all_gather(0, 1, lambda mine: mine)
    for tensor, words in {
        torch.ones(4).to_sparse(): "tensor cannot be shared: .*storage",
        torch.ones(4, device="meta"): "tensor cannot be shared: .*meta",
        torch.ones(4, dtype=torch.bool): "tensor has dtype of DLPack's type 6",
        torch.ones(4, 2).t(): "tensor is not contiguous",
        torch._efficientzerotensor((4,)): "tensor is not contiguous, or has no memory",  # as a DTensor is exported
    }.items():
        with pytest.raises(lanecast.UsageError, match=f"^rank 0: {words}[^\n]*$"):
            comm.all_reduce(tensor)
