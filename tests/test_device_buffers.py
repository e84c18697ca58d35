# SPDX-License-Identifier: Apache-2.0
"""Calls on a GPU's tensors up to the border of the core, with tensors and a core that only say what a GPU's would."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lanecast
from exchange_api import CUDA, ROCM, Described, exchange_api
from lanecast import P2POp, _core
from lanecast.communicator import Communicator

RANK, SIZE = 1, 2
STREAM = 0x5EA


@dataclass
class Tensor:
    """A CUDA tensor of torch's, as far as it shows itself."""

    count: int
    dtype: str = "torch.float32"
    ordinal: int = 0
    address: int = 0x1000
    contiguous: bool = True
    shape: tuple[int, ...] = ()
    device: int = CUDA

    def __post_init__(self) -> None:
        self.shape = self.shape or (self.count,)

    def described(self) -> Described:
        strides = None if self.contiguous else tuple(2 for _ in self.shape)
        return Described(self.address, self.dtype, self.shape, strides, self.ordinal, self.device)

    __dlpack_c_exchange_api__ = exchange_api(described, lambda ordinal: STREAM + ordinal)


class Array:
    """What other packages have: __cuda_array_interface__, and of cupy the device."""

    def __init__(self, shape: tuple[int, ...], typestr: str = "<f4", **more: Any) -> None:
        data = (0x2000, more.pop("read_only", False))
        self.shape = shape
        self.__cuda_array_interface__ = {"shape": shape, "typestr": typestr, "data": data, "version": 3, **more}


@dataclass
class Work:
    streams: list[int] = field(default_factory=list)
    done: bool = False

    def wait(self, stream: int) -> None:
        self.streams.append(stream)

    def is_completed(self) -> bool:
        return self.done

    def synchronize(self) -> None:
        self.done = True


class Core:
    """Keeps what it is asked to enqueue."""

    rank, size, hosts = RANK, SIZE, 1

    def enqueue_at_once(self, kind: int, *_: Any) -> bool:
        self.tried.append(_core.KINDS[kind])
        return self.takes_at_once

    def run_at_once(self, *_: Any) -> bool:
        return False

    def __init__(self) -> None:
        self.takes_at_once = False  # so that every argument is looked at
        self.tried: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.messages: list[tuple[Any, ...]] = []
        self.work = Work()

    def enqueue(self, *given: Any) -> None:
        names = (
            "kind", "source", "target", "dtype", "op", "count", "counts", "algorithm", "chunks", "root", "send_counts",
            "recv_counts", "reproducible", "counts_on_device",
        )  # fmt: skip
        call = dict(zip(names, given, strict=True))
        source, target = call.pop("source"), call.pop("target")
        places = {"input": source.address, "output": target.address, "device": target.device, "stream": target.stream()}
        self.calls.append({**call, **places})

    def enqueue_async(self, *given: Any) -> Work:
        self.enqueue(*given)
        return self.work

    def enqueue_messages(self, *given: Any) -> None:
        self.messages.append(given)

    def enqueue_messages_async(self, *given: Any) -> Work:
        self.messages.append(given)
        return self.work


@pytest.fixture
def core() -> Core:
    return Core()


@pytest.fixture
def comm(core: Core) -> Communicator:
    return Communicator(core)  # type: ignore[arg-type]


def test_a_call_on_tensors(comm: Communicator, core: Core) -> None:
    comm.all_gather_into_tensor(Tensor(8, ordinal=1, address=0x3000), Tensor(4, ordinal=1), algorithm="peer_kernel")
    (call,) = core.calls
    assert _core.KINDS[call["kind"]] == "all_gather"
    assert (call["input"], call["output"], call["device"], call["stream"]) == (0x1000, 0x3000, 1, STREAM + 1)
    assert (_core.DTYPES[call["dtype"]], call["count"], call["algorithm"]) == ("float32", 4, "peer_kernel")
    comm.all_reduce(Tensor(4), chunks=4)
    assert core.calls[1]["chunks"] == 4


def test_every_collective_enqueues(comm: Communicator, core: Core) -> None:
    small, large = Tensor(3), Tensor(6)
    comm.all_reduce(small, "max")
    comm.reduce_scatter_tensor(small, large)
    comm.all_gather_into_tensor(large, small)
    comm.broadcast(small, 0)
    comm.reduce(small, 1)
    comm.gather(large, small, 1)
    comm.scatter(small, None, 0)
    comm.all_to_all_single(large, Tensor(6))
    assert [_core.KINDS[call["kind"]] for call in core.calls] == [
        "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "gather", "scatter", "all_to_all"
    ]  # fmt: skip
    assert [call["count"] for call in core.calls] == [3] * 8
    assert [call["root"] for call in core.calls] == [0, 0, 0, 0, 1, 1, 0, 0]
    assert core.tried == [_core.KINDS[call["kind"]] for call in core.calls]


def test_what_the_core_takes_at_once_is_looked_at_by_nobody_else(comm: Communicator, core: Core) -> None:
    core.takes_at_once = True
    assert comm.all_reduce(Tensor(3)) is None
    comm.gather(None, Tensor(3), 0)
    assert (core.tried, core.calls) == (["all_reduce", "gather"], [])


def test_what_the_core_cannot_take_at_once_is_not_tried(comm: Communicator, core: Core) -> None:
    core.takes_at_once = True
    comm.all_reduce(Tensor(3), async_op=True)
    comm.all_gather_into_tensor(Tensor(5), Tensor(3), counts=[2, 3])
    comm.all_to_all_single(Tensor(6), Tensor(6), [3, 3], [3, 3])
    assert core.tried == []
    assert len(core.calls) == 3


def test_amds_gpus_and_what_needs_no_strides(comm: Communicator, core: Core) -> None:
    comm.all_reduce(Tensor(4, ordinal=1, device=ROCM))
    comm.all_reduce(Tensor(0, shape=(0, 3), contiguous=False))
    comm.all_reduce(Tensor(1, shape=(1, 1), contiguous=False))
    assert [(call["device"], call["count"]) for call in core.calls] == [(1, 4), (0, 0), (0, 1)]


def test_split_sizes_count_rows(comm: Communicator, core: Core) -> None:
    comm.all_to_all_single(Tensor(12, shape=(4, 3)), Tensor(12, shape=(4, 3)), [1, 3], [3, 1])
    assert (core.calls[0]["send_counts"], core.calls[0]["recv_counts"]) == ([9, 3], [3, 9])


@pytest.mark.parametrize("name", _core.DTYPES)
def test_every_type(comm: Communicator, core: Core, name: str) -> None:
    comm.all_reduce(Tensor(4, "torch." + {"float8_e4m3": "float8_e4m3fn"}.get(name, name)))
    assert _core.DTYPES[core.calls[0]["dtype"]] == name


def test_other_packages(comm: Communicator, core: Core) -> None:
    comm.all_reduce(Array((2, 3), "<i8", stream=7, strides=(24, 8)))
    comm.all_reduce(Array((0,), "|u1", strides=None))
    first, second = core.calls
    assert (first["input"], first["count"], first["stream"], first["device"]) == (0x2000, 6, 7, -1)
    assert (_core.DTYPES[first["dtype"]], _core.DTYPES[second["dtype"]]) == ("int64", "uint8")
    assert (second["count"], second["stream"]) == (0, 0)


class FromAnotherTime:
    """Of a package with a table that is not of DLPack's version 1."""

    __dlpack_c_exchange_api__ = exchange_api(lambda _: Described(0x1000, "float32", (4,)), major=2)


class WithoutMemory:
    """As torch describes its DTensors and fake tensors: elements, and no address."""

    __dlpack_c_exchange_api__ = exchange_api(lambda _: Described(0, "float32", (4,)))


REFUSED: dict[str, tuple[Any, str]] = {
    "no memory": (WithoutMemory(), "tensor has no memory of its own; pass the local tensor"),
    "another version of DLPack": (FromAnotherTime(), "tensor is of a package whose __dlpack_c_exchange_api__"),
    "an older torch's": (SimpleNamespace(is_cuda=True), "tensor is a tensor of an older torch"),
    "complex": (Tensor(4, "torch.complex64"), "tensor has dtype complex64; supported: float64"),
    "transposed": (Tensor(4, shape=(2, 2), contiguous=False), "tensor is not contiguous"),
    "strided": (Tensor(4, contiguous=False), "tensor is not contiguous"),
    "bool": (Tensor(4, "torch.bool"), "tensor has dtype bool; supported: float64"),
    "complex of cupy": (Array((4,), "<c8"), "tensor has dtype complex64"),
    "big endian": (Array((4,), ">f4"), "tensor has dtype >f4"),
    "strided of cupy": (Array((4,), strides=(8,)), "tensor is not contiguous"),
    "transposed of cupy": (Array((4, 2), strides=(4, 16)), "tensor is not contiguous"),
    "read-only": (Array((4,), read_only=True), "tensor is read-only"),
    "masked": (Array((4,), mask=Array((4,))), "tensor has a mask"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(comm: Communicator, core: Core, what: str) -> None:
    value, words = REFUSED[what]
    with pytest.raises(lanecast.UsageError) as caught:
        comm.all_reduce(value)
    assert str(caught.value).startswith(f"rank {RANK}: {words}")
    assert not core.calls


PAIRS = {
    "two GPUs": (Tensor(8, ordinal=1), Tensor(4), "output lies on cuda:1, input on cuda:0"),
    "two vendors": (Tensor(8, device=ROCM), Tensor(4), "output lies on rocm:0, input on cuda:0"),
    "input on the CPU": (Tensor(8), np.zeros(4, np.float32), "output lies on cuda:0, input on the CPU"),
    "output on the CPU": (np.zeros(8, np.float32), Tensor(4), "output lies on the CPU, input on cuda:0"),
    "two types": (Tensor(8), Tensor(4, "torch.int32"), "output has dtype float32, input int32"),
    "sizes": (Tensor(9), Tensor(4), "output has 9 elements and input 4; with 2 ranks output needs 8"),
}


@pytest.mark.parametrize("what", PAIRS)
def test_pairs_that_do_not_fit(comm: Communicator, what: str) -> None:
    output, input, words = PAIRS[what]
    with pytest.raises(lanecast.UsageError) as caught:
        comm.all_gather_into_tensor(output, input)
    assert str(caught.value).startswith(f"rank {RANK}: {words}")


def test_what_a_gpu_does_not_offer(comm: Communicator) -> None:
    with pytest.raises(lanecast.UsageError, match=r"rank 1: persistent calls.*CUDA graph"):
        comm.persistent("all_reduce", Tensor(4))


def test_messages(comm: Communicator, core: Core) -> None:
    comm.send(Tensor(4, ordinal=1), 0)
    work = comm.irecv(Tensor(3, "torch.int16", ordinal=1, address=0x3000), 0, 7)  # tags are the core's to refuse
    assert isinstance(work, lanecast.DeviceWork)
    assert core.messages == [
        ([(True, 0x1000, 16, 0, 0)], 1, STREAM + 1),
        ([(False, 0x3000, 6, 0, 7)], 1, STREAM + 1),
    ]
    for other in (Tensor(4, ordinal=0), np.zeros(4)):
        with pytest.raises(lanecast.UsageError, match="rank 1: p2p_op_list: messages of one list lie on one GPU"):
            comm.batch_send_recv([P2POp("isend", Tensor(4, ordinal=1), 0), P2POp("irecv", other, 0)])


def test_a_work_orders_the_current_stream_and_keeps_the_tensors(comm: Communicator, core: Core) -> None:
    source, target = Tensor(4, ordinal=1), Tensor(8, ordinal=1)
    held = sys.getrefcount(source)
    work = comm.all_gather_into_tensor(target, source, async_op=True)
    assert isinstance(work, lanecast.DeviceWork)
    assert sys.getrefcount(source) > held
    assert not work.is_completed()
    work.wait()
    assert core.work.streams == [STREAM + 1]
    assert sys.getrefcount(source) == held
    work.synchronize()
    assert work.is_completed()


def test_a_work_of_another_package_orders_its_stream(comm: Communicator, core: Core) -> None:
    work = comm.all_reduce(Array((4,), stream=9), async_op=True)
    assert work is not None
    work.wait()
    work.wait()
    assert (core.calls[0]["stream"], core.work.streams) == (9, [9, 9])


def test_a_work_that_nobody_keeps_keeps_its_tensors(comm: Communicator, core: Core) -> None:
    tensor = Tensor(4)
    held = sys.getrefcount(tensor)
    comm.all_reduce(tensor, async_op=True)
    assert sys.getrefcount(tensor) > held
    core.work.done = True
    comm.all_reduce(Tensor(4), async_op=True)
    assert sys.getrefcount(tensor) == held


def test_symmetric_memory_without_a_gpu(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    comm = Communicator(core)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(lanecast.UsageError, match=r"rank 1: symmetric_empty: .*torch"):
        comm.symmetric_empty(4)
    torch = SimpleNamespace(__version__="2", cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(lanecast.UsageError, match="rank 1: symmetric_empty: torch 2 finds no GPU"):
        comm.symmetric_empty(4)


def test_symmetric_memory_becomes_a_tensor(comm: Communicator, core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    class Bytes(np.ndarray[Any, Any]):
        """torch.as_tensor()'s result, as far as it is asked."""

    def as_tensor(memory: Any, device: str) -> Any:
        interface = memory.__cuda_array_interface__
        assert (interface["data"], device) == ((0x4000, False), "cuda:1")
        return np.zeros(interface["shape"], np.dtype(interface["typestr"])).view(Bytes)

    asked: list[tuple[int, int]] = []

    def symmetric_allocate(device: int, size: int) -> Any:
        asked.append((device, size))
        return SimpleNamespace(address=0x4000, bytes=size)

    core.symmetric_allocate = symmetric_allocate  # type: ignore[attr-defined]
    cuda = SimpleNamespace(is_available=lambda: True, current_device=lambda: 1)
    monkeypatch.setitem(
        sys.modules, "torch", SimpleNamespace(cuda=cuda, as_tensor=as_tensor, float64=np.dtype("float64"))
    )
    assert comm.symmetric_empty(5, "float64").shape == (5,)
    assert comm.symmetric_empty(0, "float64").shape == (0,)
    assert asked == [(1, 40), (1, 8)]
    for count in (-1, 2.5, None):
        with pytest.raises(lanecast.UsageError, match="rank 1: symmetric_empty: count="):
            comm.symmetric_empty(count, "float64")  # type: ignore[arg-type]
    with pytest.raises(lanecast.UsageError, match="has dtype complex64"):
        comm.symmetric_empty(4, "complex64")
