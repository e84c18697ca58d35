# SPDX-License-Identifier: Apache-2.0
"""Compositions of a GPU's memory, without a GPU: the plans that run on CPUs, as programs that kernels interpret."""

from __future__ import annotations

import ctypes
import random
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpu_host_library
import lanecast
from collective_cases import DTYPES
from composed_cases import FORMS, Memory, form, to_the_right, wrong_in
from exchange_api import ROCM, Described, exchange_api
from gpu_stand_in import Tensor, outcomes, tensor
from lanecast import Communicator, _core
from lanecast.compose import Composition, Knobs
from pipe_jobs import Tell, stays_until
from random_compositions import some_composition, some_knobs

MANY = 5  # more chunks than are in flight, so that their memory changes hands

Body = Callable[[Communicator, Tell], Any]


def on_gpu(comm: Communicator, dtype: str = "int64") -> Memory:
    return Memory(lambda array: Tensor(array, dtype, comm.rank), comm.synchronize, dtype)


def expect(size: int, body: Body, kernel_cache: str, value: Any, **options: Any) -> None:
    ended = outcomes(size, body, kernel_cache, **options)
    assert [outcome.text or outcome.value for outcome in ended] == [value] * size


def each_form(names: tuple[str, ...], comm: Communicator, _: Tell) -> list[str]:
    size, rng = comm.size, random.Random(comm.size)
    knobs_of = [Knobs(), Knobs([size], ring=size, chunks=MANY)]
    if size % 2 == 0:
        knobs_of.append(Knobs([2, size // 2], stripe=size // 2, chunks=2))
    made = [form(name, size, rng.randrange(size), rng.choice(["sum", "max", "bxor"])) for name in names]
    wrong = []
    for composition in [*made, to_the_right(size)]:
        parts = composition.parts
        for knobs in knobs_of:
            uneven = [rng.choice([0, 1, 7, 60]) for _ in range(parts)]
            all_counts = ([0] * parts, [1] * parts, uneven, [2003] * parts)
            wrong += [wrong_in(comm, composition, counts, knobs, memory=on_gpu(comm)) for counts in all_counts]
    return [line for line in wrong if line]


SEVERAL = ("all_reduce_by_all_gather", "broadcast_by_scatter", "reduce_scatter", "gather", "all_to_all")


@pytest.mark.timeout(400)  # the first one builds the driver
@pytest.mark.parametrize(
    ("size", "topology", "names"), [(2, "2x1", tuple(FORMS)), (3, "3x1", SEVERAL), (4, "2x2", SEVERAL)]
)
def test_forms(size: int, topology: str, names: tuple[str, ...], kernel_cache: str) -> None:
    expect(size, partial(each_form, names), kernel_cache, [], topology=topology)


def lone_roots(comm: Communicator, _: Tell) -> tuple[list[str], list[str]]:
    """What is wrong; and the shapes that were chosen."""
    wrong, shapes, root = [], [], comm.size - 2
    for name in ("broadcast", "reduce", "all_reduce_by_broadcast"):
        composition = form(name, comm.size, root, "sum")
        memory = on_gpu(comm)
        described = composition._core.to_dict()
        for count in (200_001, 700_003):  # 1.6 and 5.6 MB
            wrong.append(wrong_in(comm, composition, [count], Knobs(), memory=memory))
            output, source = (
                memory.buffer(np.zeros(count * len(described[ends][comm.rank]), memory.dtype))
                for ends in ("outputs", "inputs")
            )
            shapes.append(comm.compile(composition, output, source, counts=[count]).plan.algorithm)
    return [line for line in wrong if line], shapes


@pytest.mark.timeout(400)
def test_what_one_root_sends_goes_along_a_chain(kernel_cache: str) -> None:
    shapes = ["3", "3, ring 3", "3", "3, ring 3", "3", "3"]
    expect(3, lone_roots, kernel_cache, ([], shapes), topology="3")


def random_ones(comm: Communicator, _: Tell) -> list[str]:
    wrong = []
    for seed in range(12):
        rng = random.Random(1000 * comm.size + seed)
        composition = some_composition(rng, comm.size, ("sum", "max", "min", "prod", "bxor"))
        counts = [rng.choice([0, 1, 3, 10, 700]) for _ in range(composition.parts)]
        wrong.append(wrong_in(comm, composition, counts, some_knobs(rng, comm.size), seed, memory=on_gpu(comm)))
    return [line for line in wrong if line]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("queues", ["8", "1"])
def test_random_ones(queues: str, kernel_cache: str) -> None:
    """Some of their ranks bring nothing, end with nothing, or both."""
    expect(3, random_ones, kernel_cache, [], topology="2+1", variables={"CUDA_DEVICE_MAX_CONNECTIONS": queues})


def each_type(comm: Communicator, _: Tell) -> list[str]:
    wrong = []
    for dtype in ("float64", "float32", "int32", "int16"):
        for name in ("all_reduce_by_all_gather", "reduce_by_gather"):
            composition = form(name, comm.size)
            wrong.append(wrong_in(comm, composition, [77], Knobs(chunks=2), memory=on_gpu(comm, dtype)))
    for dtype in _core.DTYPES:
        x = (np.arange(7) * (comm.rank + 1)).astype(DTYPES[dtype])
        name = {"float8_e4m3": "float8_e4m3fn"}.get(dtype, dtype)
        composition = form("all_reduce", comm.size, op="max")
        comm.compile(composition, *[Tensor(x, name, comm.rank)] * 2).run()
        comm.synchronize()
        if not np.array_equal(x.astype(float), np.arange(7.0) * comm.size):
            wrong.append(f"{dtype}: {x}")
    return [line for line in wrong if line]


@pytest.mark.timeout(400)
def test_types(kernel_cache: str) -> None:
    expect(2, each_type, kernel_cache, [], topology="2x1")


def averages_in_place(comm: Communicator, _: Tell) -> list[list[float]]:
    """Only rank 0's buffers are apart."""
    composition = form("all_reduce_by_all_gather", comm.size, op="avg")
    x = np.arange(6, dtype=np.float32) * 3 * (comm.rank + 1)
    out = np.empty(6, np.float32) if comm.rank == 0 else x
    call = comm.compile(composition, Tensor(out, "float32", comm.rank), Tensor(x, "float32", comm.rank))
    results = []
    for _turn in range(3):  # from the second on of what the ones before have left
        call.run()
        comm.synchronize()
        results.append(out.tolist())
    return results


def test_averages_and_buffers_in_place_on_some_ranks(kernel_cache: str) -> None:
    first = [6.0 * k for k in range(6)]
    second = [5.0 * k for k in range(6)]
    third = [13.0 * k / 3 for k in range(6)]
    for outcome in outcomes(3, averages_in_place, kernel_cache, topology="3x1"):
        assert outcome.text == ""
        assert outcome.value[:2] == [first, second]
        assert np.allclose(outcome.value[2], third, rtol=1e-6)


def moved(size: int) -> Composition:
    """Of as many parts as there are ranks each rank gives all others one."""
    parts = [list(range(size))] * size
    c = Composition(parts, parts)
    for rank in range(size):
        c.multicast(rank, range(size), rank)
    return c


class OnStream(Tensor):
    """Of a program whose current stream is this one."""

    current = 0
    __dlpack_c_exchange_api__ = exchange_api(Tensor.described, lambda _: OnStream.current)


def in_turn_on_two_streams(comm: Communicator, _: Tell) -> list[float]:
    """One's output is the other's input, and nothing else orders them."""
    arrays = [np.full(3000, 1.0 + comm.rank), np.zeros(3000)]
    there, back = (OnStream(array, "float64", comm.rank) for array in arrays)
    doubled = comm.compile(form("all_reduce_by_all_gather", comm.size), back, there, chunks=3)
    returned = comm.compile(moved(comm.size), there, back, counts=3000 // comm.size)
    streams = [gpu_host_library.stream(comm.rank) for _ in range(2)]
    with gpu_host_library.held_up(comm.rank):
        for turn in range(4):
            OnStream.current = streams[0]
            if turn == 2:
                doubled.start()  # beside the stream
            else:
                doubled.run()
            OnStream.current = streams[1]
            returned.run()
            if turn == 2:
                doubled.wait()
    comm.synchronize()
    assert doubled.is_completed()
    return [float(each) for each in np.unique(arrays[0])]


def test_two_in_turn_on_two_streams(kernel_cache: str) -> None:
    expect(2, in_turn_on_two_streams, kernel_cache, [3.0 * 2**3], topology="2x1")


def behind_the_stream(comm: Communicator, _: Tell) -> list[float]:
    """A start reads what the current stream writes before it, and the stream's later work comes behind wait()."""
    x, y, brought, seen = (np.full(3000, value) for value in (1.0, 0.0, 5.0 + comm.rank, 0.0))
    source, target = (OnStream(array, "float64", comm.rank) for array in (x, y))
    call = comm.compile(form("all_reduce_by_all_gather", comm.size), target, source)
    driver = gpu_host_library.opened()

    def copy(to: np.ndarray[Any, Any], come: np.ndarray[Any, Any]) -> None:
        assert driver.cuMemcpyAsync(*map(ctypes.c_uint64, (to.ctypes.data, come.ctypes.data, to.nbytes)), None) == 0

    OnStream.current = 0
    with gpu_host_library.held_up(comm.rank):
        copy(x, brought)
        call.start()
        call.wait()
        copy(seen, y)
    comm.synchronize()
    return [float(each) for each in np.unique(seen)]


def test_a_start_is_behind_the_stream(kernel_cache: str) -> None:
    expect(2, behind_the_stream, kernel_cache, [11.0], topology="2x1")


def beside_others(comm: Communicator, _: Tell) -> list[float]:
    """A collective by peer memory, one by a plan, and a composition that nobody waits for."""
    x, y, host = tensor(comm, 500), tensor(comm, 500), np.ones(4)
    call = comm.compile(form("all_reduce", comm.size), y, x)
    on_cpu = comm.compile(form("all_reduce", comm.size), host, host)
    assert call.program is not None
    assert on_cpu.program is None
    assert f"p0: put to rank {1 - comm.rank}, 2000 bytes" in call.program.describe(call.plan)
    call.start()
    comm.all_reduce(x)
    comm.all_reduce(x, algorithm="ring")
    call.run()
    on_cpu.run()
    comm.synchronize()
    return [float(y.array[0]), float(y.array.sum()) / 500, float(host[0])]


def test_beside_other_calls(kernel_cache: str) -> None:
    expect(2, beside_others, kernel_cache, [8.0, 8.0, 2.0], topology="2x1")


def large_ones(comm: Communicator, _: Tell) -> bool:
    x = np.arange(9 << 20, dtype=np.uint8) + comm.rank
    out = np.zeros(x.size * comm.size if comm.rank == 0 else 0, np.uint8)
    source, target = (Tensor(array, "uint8", comm.rank) for array in (x, out))
    comm.compile(form("gather", comm.size), target, source, chunks=1).run()
    comm.synchronize()
    parts = np.split(out, comm.size) if comm.rank == 0 else []
    return all(np.array_equal(part, x + r) for r, part in enumerate(parts))  # x: rank 0's


@pytest.mark.timeout(400)
def test_messages_larger_than_the_memory_they_pass_through(kernel_cache: str) -> None:
    """More chunks than were asked for: as many on all ranks, though only the root receives."""
    expect(3, large_ones, kernel_cache, True, topology="3x1")


class Unplaced:
    """As other packages' arrays, which do not say on which GPU they lie."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.shape = array.shape
        data = (array.ctypes.data, False)
        self.__cuda_array_interface__ = {"shape": array.shape, "typestr": "<f8", "data": data, "version": 3}


def of_other_packages(comm: Communicator, _: Tell) -> list[float]:
    x, y = np.full(40, comm.rank + 1.0), np.zeros(40)
    composition = form("all_reduce_by_broadcast", comm.size)
    with pytest.raises(lanecast.UsageError, match="the buffers do not say on which GPU they lie; make the"):
        comm.compile(composition, Unplaced(y), Unplaced(x))
    comm.all_reduce(tensor(comm, 8))  # which opens the GPU
    call = comm.compile(composition, Unplaced(y), Tensor(x, "float64", comm.rank))
    call.run(Unplaced(y), Unplaced(x))
    call.start()
    call.wait()
    comm.synchronize()
    return [float(each) for each in np.unique(y)]


def test_arrays_of_other_packages(kernel_cache: str) -> None:
    expect(2, of_other_packages, kernel_cache, [3.0], topology="2x1")


class Amds(Tensor):
    def described(self) -> Described:
        return super().described()._replace(device=ROCM)

    __dlpack_c_exchange_api__ = exchange_api(described)


def refusals(comm: Communicator, _: Tell) -> list[str]:
    me, other = comm.rank, 1 - comm.rank
    composition = form("all_reduce", comm.size)
    x, host = tensor(comm, 8), np.ones(8, np.float32)
    elsewhere = Tensor(np.ones(8, np.float32), "float32", other)
    amds = Amds(np.ones(8, np.float32), "float32", me)
    within = Tensor(np.ones(40, np.uint8)[1:33].view(np.float32), "float32", me)
    wrong: list[str] = []

    def refused(words: str, action: Callable[[], object]) -> None:
        try:
            action()
            wrong.append(f"not refused: {words}")
        except lanecast.UsageError as error:
            if not str(error).startswith(f"rank {me}: {words}"):
                wrong.append(str(error))

    refused(f"output lies on cuda:{me}, input on the CPU", lambda: comm.compile(composition, x, host))
    refused(f"output lies on the CPU, input on cuda:{me}", lambda: comm.compile(composition, host, x))
    refused(f"output lies on cuda:{other}, input on cuda:{me}", lambda: comm.compile(composition, elsewhere, x))
    refused(f"output lies on rocm:{me}, input on cuda:{me}", lambda: comm.compile(composition, amds, x))
    refused("input does not begin at a multiple of the 4 bytes", lambda: comm.compile(composition, x, within))
    refused("compile: transports: 'shm', but a GPU's", lambda: comm.compile(composition, x, x, transports="shm"))
    refused("output: None, but this rank has 1 part there", lambda: comm.compile(composition, None, x))
    refused("input has 7 elements", lambda: comm.compile(composition, x, tensor(comm, 7), counts=8))
    refused("compile: chunks: -1 is not from 0", lambda: comm.compile(composition, x, x, chunks=-1))
    refused("compile: ring: 5", lambda: comm.compile(composition, x, x, ring=5))
    refused(f"the buffers lie on GPU {other}, and", lambda: comm.compile(composition, elsewhere, elsewhere))
    call, on_cpu = comm.compile(composition, x, x), comm.compile(composition, host, host)
    refused("input lies on the CPU, and this call was compiled for a GPU's memory", lambda: call.run(host, host))
    refused("input lies on cuda", lambda: on_cpu.run(x, x))
    refused("the buffers lie on GPU", lambda: call.run(elsewhere, elsewhere))
    refused("other buffers: the call was bound in place", lambda: call.start(tensor(comm, 8), x))
    refused("output has 7 elements", lambda: call.run(tensor(comm, 7), x))
    call.run()
    comm.synchronize()
    return wrong if (x.array == comm.size).all() else [*wrong, f"{x.array}"]


def test_refusals(kernel_cache: str) -> None:
    expect(2, refusals, kernel_cache, [], topology="2x1")


def too_much(comm: Communicator, _: Tell) -> str:
    """Rank 2 has no part, and says what the others would be refused, who cannot have so much."""
    composition = Composition([[0], [], []], [[], [0], []])
    composition.multicast(0, [1], 0)
    here = (tensor(comm, 0), None) if comm.rank == 2 else (tensor(comm, 8),)
    if comm.rank < 2:
        comm.compile(form("all_reduce", comm.size), *here * 2)  # as all ranks have to, once
        return ""
    with pytest.raises(lanecast.UsageError) as caught:
        comm.compile(composition, *here, counts=1 << 50)
    return str(caught.value)


def test_what_fits_in_no_number_of_chunks(kernel_cache: str) -> None:
    *_, third = outcomes(3, too_much, kernel_cache, topology="3x1")
    assert third.value.startswith("rank 2: compile: a message of 4503599627370496 bytes"), third
    assert "more than programs take" in third.value


def ranks_differ(what: str, comm: Communicator, _: Tell) -> None:
    odd = comm.rank == 1
    comm.all_reduce(tensor(comm, 8), algorithm="ring")
    x: Any = np.ones(100, np.float32) if what == "memory" and odd else tensor(comm, 100)
    name = "all_reduce" if what == "composition" and odd else "all_reduce_by_broadcast"
    call = comm.compile(form(name, comm.size), x, x, chunks=2 if what == "chunks" and odd else 1)
    for _turn in range(2):  # where nothing is missing, the next call finds out
        call.run()
    comm.synchronize()


@pytest.mark.parametrize("what", ["composition", "chunks", "memory"])
def test_ranks_that_differ_are_told(what: str, kernel_cache: str) -> None:
    most_s = 8.0 if what == "memory" else 60.0  # which only the deadline ends
    ended = outcomes(2, partial(ranks_differ, what), kernel_cache, topology="2x1", timeout_s=most_s)
    said = " ".join(outcome.text for outcome in ended)
    assert {outcome.error for outcome in ended} <= {"MismatchError", "TransportError", "TimeoutError"}, ended
    # Where nobody has come to the other's call before the deadline, that is what both ask.
    assert re.search("the ranks have made different calls|has it (made the same call|run the same composition)", said)
    if what != "memory":  # found before anything is compiled for the GPU
        assert re.search("rank . has made composition [0-9a-f]{16} of 100 float32, by 2x1", said), said


def second_stays_away(ended: Path, comm: Communicator, _: Tell) -> None:
    x = tensor(comm, 8)
    call = comm.compile(form("all_reduce", comm.size), x, x)
    call.run()
    comm.synchronize()
    if comm.rank == 1:
        stays_until(ended)
        return
    try:
        call.run()
        comm.synchronize()
    finally:
        ended.touch()


def test_a_peer_that_does_not_come(kernel_cache: str, tmp_path: Path) -> None:
    body = partial(second_stays_away, tmp_path / "ended")
    waited, _ = outcomes(2, body, kernel_cache, topology="2x1", timeout_s=6)
    assert waited.error == "TimeoutError"
    assert "rank 0 waited for rank 1 in step 1 of 3: recv_reduce from rank 1" in waited.text
    assert "of 8 float32, by 2x1 in 1 chunk on GPUs" in waited.text
