# SPDX-License-Identifier: Apache-2.0
"""Collectives on a GPU's memory without a GPU: the library's own path, over a driver that runs kernels on the CPU."""

from __future__ import annotations

import gc
import itertools
import math
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import collective_cases
import gpu_host_library
import lanecast
from collective_cases import Case, even, ops_of
from gpu_message_cases import nobody_sends
from gpu_stand_in import (
    KINDS,
    DeviceCall,
    Tensor,
    another,
    expect_different_calls,
    expect_named_absence,
    in_place_is_offered,
    judge,
    outcomes,
    tensor,
)
from lanecast import Communicator, P2POp, _core
from pipe_jobs import Tell

ENGINES = ("peer_kernel", "copy_engine")
# But the kernels, which stay loaded, and with CUDA their context.
NOTHING_HELD = "memory 0 opened 0 pinned 0 streams 0 events 0 modules 1 contexts 1"
MANY_BLOCKS = {"LANECAST_MAX_CTAS": "64"}  # which the other tests do without
ALIGNED = 16  # elements between which a buffer lies, so that it begins where 16-byte accesses may


@pytest.mark.timeout(400)  # the first one builds the driver
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_each_kind(size: int, engine: str, kernel_cache: str) -> None:
    cases = [
        Case(kind, even(kind, count, size), engine, in_place=in_place, root=size - 1)
        for kind, count in itertools.product(KINDS, (0, 1, 5, 2003))
        for in_place in in_place_is_offered(kind)
    ]
    judge(size, cases, kernel_cache)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("guard", [3, ALIGNED])
@pytest.mark.parametrize("engine", [*ENGINES, "peer_two_shot"])
def test_each_type_and_operator(engine: str, guard: int, kernel_cache: str) -> None:
    cases = [
        Case("all_reduce", (count,), engine, dtype, op, in_place=True)
        for dtype in _core.DTYPES
        for op in ops_of(dtype)
        for count in (1, 333)
    ]
    judge(3, cases, kernel_cache, guard)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("engine", ["peer_two_shot", "peer_chain"])
def test_broadcasts_that_ranks_pass_on(engine: str, size: int, kernel_cache: str) -> None:
    cases = [
        Case("broadcast", (count,), engine, dtype, root=root, in_place=in_place)
        for count in (0, 1, 17, 2003, 400_001)
        for root in range(size)
        for dtype, in_place in (("uint8", True), ("float64", True), ("uint8", False))
    ]
    judge(size, cases, kernel_cache, ALIGNED)
    judge(size, [case for case in cases if case.counts[0] < 20], kernel_cache, guard=3)


def kept_by_kernels(comm: Communicator, _: Tell) -> list[str]:
    wrong = []
    for engine, count in itertools.product((*ENGINES, "peer_two_shot", "peer_chain"), (5, 70_001)):
        call = DeviceCall(comm, Case("broadcast", (count,), engine, root=1, in_place=False))
        gpu_host_library.fail_next("cuMemcpyAsync", 1, after=0 if engine != "copy_engine" else comm.size)
        call.start()
        if not gpu_host_library.fail_no_more("cuMemcpyAsync"):
            wrong.append(f"{engine}: a copy by the driver")
        wrong += call.finish()
    return wrong


@pytest.mark.timeout(400)
def test_no_copy_stands_behind_a_broadcast(kernel_cache: str) -> None:
    """What a root keeps is copied beside what it sends; copy engines send to the others with a copy each."""
    ended = outcomes(3, kept_by_kernels, kernel_cache)
    assert [(outcome.text, outcome.value) for outcome in ended] == [("", [])] * 3


@pytest.mark.timeout(400)
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_reduces_in_two_shots(size: int, kernel_cache: str) -> None:
    cases = [
        Case("reduce", (count,), "peer_two_shot", dtype, op, root=root, in_place=True)
        for count in (0, 1, 17, 2003, 100_001)
        for root in range(size)
        for dtype, op in (("int32", "max"), ("bfloat16", "avg"))
    ]
    judge(size, cases, kernel_cache, ALIGNED)
    judge(size, [case for case in cases if case.counts[0] < 20], kernel_cache, guard=3)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_reduces_along_a_chain(size: int, kernel_cache: str) -> None:
    cases = [
        Case("reduce", (count,), "peer_chain", dtype, op, root=root, in_place=True)
        for count in (0, 1, 17, 2003, 400_001)
        for root in range(size)
        for dtype, op in (("int32", "max"), ("bfloat16", "sum"), ("float64", "prod"))
    ]
    judge(size, cases, kernel_cache, ALIGNED)
    judge(size, [case for case in cases if case.counts[0] < 20], kernel_cache, guard=3)


def refused_by_a_chain(comm: Communicator, _: Tell) -> list[str]:
    found = []
    for dtype, op, reproducible in (("float32", "avg", False), ("float32", "sum", True), ("float8_e5m2", "sum", False)):
        given = Tensor(np.ones(8, collective_cases.DTYPES[dtype]), dtype, comm.rank)
        with pytest.raises(lanecast.UsageError) as caught:
            comm.reduce(given, 0, op, algorithm="peer_chain", reproducible=reproducible)
        found.append(str(caught.value))
    return found


def test_a_chain_refuses_what_it_would_round_or_reorder(kernel_cache: str) -> None:
    why = (
        "algorithm 'peer_chain' takes a broadcast, or a reduce that is no average, no sum of 8-bit floats and need not "
        "add in the order of the ranks, which this is not"
    )
    for rank, ended in enumerate(outcomes(2, refused_by_a_chain, kernel_cache)):
        assert ended.value == [f"rank {rank}: {why}"] * 3, ended.text


@pytest.mark.timeout(400)
@pytest.mark.parametrize("engine", ENGINES)
def test_uneven_counts_and_calls_beside_the_callers(engine: str, kernel_cache: str) -> None:
    cases = [
        Case(kind, counts, engine, "int16", async_op=async_op)
        for kind in ("all_gather", "reduce_scatter")
        for counts in ((700, 0, 1), (1, 2, 997), (0, 0, 5))
        for async_op in (False, True)
    ]
    judge(3, cases, kernel_cache)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("engine", ENGINES)
def test_messages_of_many_pieces(engine: str, kernel_cache: str) -> None:
    count = 3 << 20 if engine == "peer_kernel" else 41 << 20  # slots are filled a second time
    cases = [Case(kind, even(kind, count, 2), engine, "uint8") for kind in ("all_reduce", "all_gather")]
    judge(2, cases, kernel_cache, ALIGNED, variables=MANY_BLOCKS)


LONG = (8 << 20) + 3  # elements, of which few blocks move so many by the copy engines of multiprocessors


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("size", "guard"), [(2, ALIGNED), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((3, ALIGNED), (2, 3)))]
)
def test_long_sums(size: int, guard: int, kernel_cache: str) -> None:
    cases = [
        Case("all_reduce", (count,), "peer_two_shot", dtype, op, in_place=True)
        for dtype, op, count in (("float32", "sum", LONG), ("bfloat16", "avg", 2 * LONG + 1), ("float32", "max", LONG))
    ]
    judge(size, cases, kernel_cache, guard)


def chosen(kind: str, calls: tuple[tuple[str, int], ...], comm: Communicator, _: Tell) -> list[str]:
    comm.all_reduce(tensor(comm, 8))  # connects
    comm.synchronize()
    return [comm.explain_on_gpu(kind, count, dtype).algorithm for dtype, count in calls]


@pytest.mark.parametrize(
    ("variables", "engines"),
    [(MANY_BLOCKS, ["peer_kernel", "peer_two_shot", "peer_two_shot"]), ({}, ["peer_two_shot"] * 3)],
)
def test_what_goes_by_copy_engines_of_multiprocessors(
    variables: dict[str, str], engines: list[str], kernel_cache: str
) -> None:
    calls = (("float32", 24 << 20), ("float32", 64 << 20), ("bfloat16", 128 << 20))
    for outcome in outcomes(2, partial(chosen, "all_reduce", calls), kernel_cache, variables=variables):
        assert outcome.value == engines


def test_long_broadcasts_among_more_than_two_are_passed_on(kernel_cache: str) -> None:
    calls = (("float32", 1000), ("float32", 1 << 20), ("float32", 4 << 20))
    for size, engines in (2, ["peer_kernel"] * 3), (4, ["peer_kernel", "peer_two_shot", "peer_chain"]):
        for outcome in outcomes(size, partial(chosen, "broadcast", calls), kernel_cache):
            assert outcome.value == engines


def first_rank_calls_alone(comm: Communicator, _: Tell) -> None:
    comm.all_reduce(tensor(comm, 8))  # connects
    comm.synchronize()
    if comm.rank == 0:
        comm.all_reduce(tensor(comm, 8))
        comm.synchronize()


def test_a_peer_that_does_not_call(kernel_cache: str) -> None:
    expect_named_absence(outcomes(2, first_rank_calls_alone, kernel_cache, timeout_s=8))


def two_of_three_share(comm: Communicator, _: Tell) -> None:
    another(comm, device=max(0, comm.rank - 1))


def test_a_gpu_that_two_ranks_share_is_refused_on_all(kernel_cache: str) -> None:
    for outcome in outcomes(3, two_of_three_share, kernel_cache, timeout_s=60.0):
        assert outcome.error == "UsageError"
        assert "ranks 0 and 1 use the same GPU (GPU on the host, 0000:00:00.0); give each its own" in outcome.text


def first_call_is_captured(by: tuple[int, ...], comm: Communicator, _: Tell) -> tuple[float, list[str]]:
    x, y = tensor(comm, 8), tensor(comm, 8)
    messages = [P2POp("isend", x, comm.rank), P2POp("irecv", y, comm.rank)]
    calls: tuple[Callable[[], object], ...] = (lambda: comm.all_reduce(x), lambda: comm.batch_send_recv(messages))
    said = []
    gpu_host_library.capture(on=comm.rank in by)
    for call in calls:
        with pytest.raises(
            lanecast.UsageError, match="no CUDA graph can capture a communicator's first call on a GPU"
        ) as caught:
            call()
        said.append(str(caught.value))
    gpu_host_library.capture(on=False)
    comm.all_reduce(x)
    comm.synchronize()
    return float(x.array[0]), said


@pytest.mark.parametrize("by", [(0, 1), (1,)])
def test_a_first_call_is_not_captured(by: tuple[int, ...], kernel_cache: str) -> None:
    for rank, outcome in enumerate(outcomes(2, partial(first_call_is_captured, by), kernel_cache, timeout_s=60.0)):
        assert outcome.text == ""
        value, said = outcome.value
        assert value == 2
        assert all(f"rank {rank if rank in by else 1}: no CUDA graph can capture" in text for text in said)


def second_rank_is_late(comm: Communicator, _: Tell) -> None:
    comm.all_reduce(tensor(comm, 8))
    comm.synchronize()
    time.sleep(0.3 * comm.rank)
    for algorithm in ("peer_kernel", "ring"):  # whose waits are for a peer's kernel, and for the own host
        comm.all_reduce(tensor(comm, 8), algorithm=algorithm)
        comm.synchronize()


@pytest.mark.parametrize("timeout_s", [math.inf, 1e12])
def test_a_deadline_that_no_clock_can_count_to(timeout_s: float, kernel_cache: str) -> None:
    for outcome in outcomes(2, second_rank_is_late, kernel_cache, timeout_s=timeout_s, topology="2x1"):
        assert outcome.text == ""


def in_a_new_thread(call: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as thread:
        thread.submit(call).result()


def each_call_in_a_new_thread(comm: Communicator, _: Tell) -> None:
    """One that has made no call of CUDA's before."""
    x, y = tensor(comm, 8), tensor(comm, 8)
    messages = [P2POp("isend", x, 1 - comm.rank), P2POp("irecv", y, 1 - comm.rank)]
    for algorithm in (*ENGINES, "ring", "nccl"):
        in_a_new_thread(lambda algorithm=algorithm: comm.all_reduce(x, algorithm=algorithm))  # type: ignore[misc]
        in_a_new_thread(comm.synchronize)
    in_a_new_thread(lambda: comm.batch_send_recv(messages))
    work = comm.all_reduce(x, async_op=True)
    assert isinstance(work, lanecast.DeviceWork)
    for call in (work.wait, work.synchronize, work.is_completed):
        in_a_new_thread(call)


def test_calls_in_threads_that_have_not_used_the_gpu(kernel_cache: str) -> None:
    for outcome in outcomes(2, each_call_in_a_new_thread, kernel_cache, timeout_s=60.0, topology="2x1"):
        assert outcome.text == ""


def ranks_differ(comm: Communicator, _: Tell) -> None:
    comm.all_reduce(tensor(comm, 8 + comm.rank))
    comm.synchronize()


def test_different_calls(kernel_cache: str) -> None:
    expect_different_calls(outcomes(2, ranks_differ, kernel_cache, timeout_s=60.0))


def split_sizes_differ(comm: Communicator, _: Tell) -> None:
    """Rank 0 sends 6 elements to a rank that expects 7, and the other way around."""
    x, y = tensor(comm, 10), tensor(comm, 10)
    sizes = ([4, 6], [7, 3])[comm.rank]
    comm.all_to_all_single(y, x, sizes, sizes)
    comm.synchronize()


def test_split_sizes_that_are_not_the_peers(kernel_cache: str) -> None:
    ended = outcomes(2, split_sizes_differ, kernel_cache, timeout_s=60.0)
    expect_different_calls(ended)
    assert "split sizes of all_to_all have to be those of the peers" in "".join(outcome.text for outcome in ended)


def elements_in_two_parts(comm: Communicator, _: Tell) -> list[str]:
    memory = np.zeros(4 * 8 * comm.size + 1, np.uint8)
    odd, even = Tensor(memory[1:].view(np.float32), "float32", comm.rank), tensor(comm, 8)
    texts = []
    calls: tuple[Callable[[], object], ...] = (
        lambda: comm.all_reduce(odd),
        lambda: comm.all_gather_into_tensor(odd, even),
        lambda: comm.all_reduce(odd, algorithm="nccl"),
    )
    for call in calls:
        with pytest.raises(lanecast.UsageError) as refused:
            call()
        texts.append(str(refused.value))
    comm.all_reduce(even)
    comm.synchronize()
    return texts


def test_elements_in_two_parts_are_refused(kernel_cache: str) -> None:
    for rank, outcome in enumerate(outcomes(2, elements_in_two_parts, kernel_cache, timeout_s=60.0)):
        assert outcome.text == ""
        for text, argument in zip(outcome.value, ("input", "output", "input"), strict=True):
            assert text == (f"rank {rank}: {argument} does not begin at a multiple of the 4 bytes of float32; a GPU's "
                            "memory has to")  # fmt: skip


def make_and_drop(comm: Communicator, _: Tell) -> str:
    for _again in range(2):
        own = another(comm)
        own.all_reduce(tensor(comm, 100))
        own.all_reduce(tensor(comm, 100), algorithm="copy_engine")
        own.synchronize()
        del own
        gc.collect()
    return gpu_host_library.held()


def test_a_communicator_that_goes_leaves_nothing(kernel_cache: str) -> None:
    assert [outcome.value or outcome.text for outcome in outcomes(2, make_and_drop, kernel_cache)] == [NOTHING_HELD] * 2


def call_by_engines(comm: Communicator, _: Tell) -> list[str]:
    """What is held of the GPU's memory after the first call by kernels, and after the first by copy engines."""
    x, held = tensor(comm, 8), []
    for engine in ENGINES:
        comm.all_reduce(x, algorithm=engine)
        comm.synchronize()
        held.append(gpu_host_library.held().partition(" pinned")[0])
        if engine == "peer_kernel":
            gpu_host_library.capture(on=True)
            with pytest.raises(lanecast.UsageError, match="first call by algorithm 'copy_engine', which takes memory"):
                comm.all_reduce(x, algorithm="copy_engine")
            gpu_host_library.capture(on=False)
    return held


def test_only_copy_engines_take_memory_for_staging(kernel_cache: str) -> None:
    for outcome in outcomes(2, call_by_engines, kernel_cache):
        assert outcome.text == ""
        before, after = ([int(number) for number in text.split()[1::2]] for text in outcome.value)
        assert after == [before[0] + 1, before[1] + 1]  # its own and the peer's


def short_of_memory(comm: Communicator, _: Tell) -> list[str]:
    """What each attempt ends with: where one's GPU is short, when memory is free again, and the same for symmetric
    memory."""
    said = []

    def opens() -> None:
        comm.all_reduce(tensor(comm, 8))
        comm.synchronize()

    def takes_symmetric_memory() -> None:
        comm._core.symmetric_allocate(comm.rank, 4096)
        opens()

    for attempt in (opens, takes_symmetric_memory):
        if comm.rank == 1:
            gpu_host_library.fail_next("cuMemAlloc", 2)
        for _again in range(2):
            try:
                attempt()
                said.append("")
            except lanecast.UsageError as error:
                said.append(str(error))
    return said


def test_a_gpu_that_is_short_of_memory(kernel_cache: str) -> None:
    words = "peer memory: rank 1 finds no [0-9]+ bytes on its GPU: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY: out of memory"
    for outcome in outcomes(2, short_of_memory, kernel_cache, timeout_s=60.0):
        assert outcome.text == ""
        opening, opened, taking, taken = outcome.value
        assert (opened, taken) == ("", "")
        assert re.search(words, opening), opening
        assert re.search(words, taking), taking


def cannot_map(comm: Communicator, _: Tell) -> tuple[str, str, int]:
    """What is said, what is held afterwards, and how often memory was freed that a peer had mapped."""
    if comm.rank == 1:
        gpu_host_library.fail_next("cuIpcOpenMemHandle", 1)
    else:
        gpu_host_library.slow_next("cuIpcCloseMemHandle", 500)
    own = another(comm)
    with pytest.raises(lanecast.Error) as caught:
        own.all_reduce(tensor(comm, 8))
    said = f"{caught.type.__name__}: {caught.value}"
    del own, caught
    gc.collect()
    return said, gpu_host_library.held(), gpu_host_library.torn()


def test_a_gpu_that_cannot_map_its_peers_memory(kernel_cache: str) -> None:
    """All hear so, not by a deadline; and nobody frees what the others have mapped and still have to let go of."""
    ended = outcomes(2, cannot_map, kernel_cache, timeout_s=60)
    assert [outcome.text for outcome in ended] == ["", ""]
    other, failed = (outcome.value for outcome in ended)
    assert failed[0].startswith("TransportError: cuIpcOpenMemHandle: ")
    assert "rank 1 refuses: cuIpcOpenMemHandle: " in other[0]
    assert [outcome.value[1:] for outcome in ended] == [(NOTHING_HELD, 0)] * 2


def launch_fails(comm: Communicator, _: Tell) -> None:
    gpu_host_library.fail_next("cuLaunchKernel", 2)
    comm.all_reduce(tensor(comm, 8))
    comm.synchronize()


def test_a_launch_that_fails(kernel_cache: str) -> None:
    for outcome in outcomes(2, launch_fails, kernel_cache, timeout_s=60.0):
        assert outcome.error == "TransportError"
        assert "cuLaunchKernel: CUDA_ERROR_OUT_OF_MEMORY" in outcome.text


def messages_of_each_kind(comm: Communicator, _: Tell) -> list[str]:
    """Alone, in a list, to oneself, and asynchronous ones whose receives come first."""
    after, before, me = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size, comm.rank
    comm.all_reduce(tensor(comm, 1))
    wrong = []
    for count in (0, 1, 1000, 300_001):
        sent = numbered(comm, count)
        got, mine, later, listed = (tensor(comm, count) for _ in range(4))
        operations = [("irecv", listed, before), ("isend", sent, after), ("isend", sent, me), ("irecv", mine, me)]
        comm.batch_send_recv([P2POp(*each) for each in operations])
        receive = comm.irecv(later, before)
        comm.isend(sent, after)
        receive.wait()
        if comm.rank % 2 == 0:
            comm.send(sent, comm.rank ^ 1)
            comm.recv(got, comm.rank ^ 1)
        else:
            comm.recv(got, comm.rank ^ 1)
            comm.send(sent, comm.rank ^ 1)
        comm.synchronize()
        for what, found, source in (("list", listed, before), ("self", mine, me), ("async", later, before),
                                    ("alone", got, comm.rank ^ 1)):  # fmt: skip
            if not np.array_equal(found.array, numbered(comm, count, source).array):
                wrong.append(f"{what}: {count} elements from rank {source}")
    return wrong


def numbered(comm: Communicator, count: int, rank: int | None = None) -> Tensor:
    brought = tensor(comm, count)
    brought.array[:] = np.arange(count) + 7 * (comm.rank if rank is None else rank)
    return brought


@pytest.mark.timeout(400)
def test_messages_between_two_ranks(kernel_cache: str) -> None:
    for outcome in outcomes(2, messages_of_each_kind, kernel_cache):
        assert (outcome.text, outcome.value) == ("", [])


def many_messages_at_once(comm: Communicator, _: Tell) -> list[str]:
    """More than one kernel takes, from each to each."""
    peers = [rank for rank in range(comm.size) if rank != comm.rank]
    counts = [(k * k) % 977 for k in range(70)]
    comm.all_reduce(tensor(comm, 1))
    got = {rank: [tensor(comm, count) for count in counts] for rank in peers}
    sends = [P2POp("isend", numbered(comm, count), rank) for rank in peers for count in counts]
    receives = [P2POp("irecv", place, rank) for rank in peers for place in got[rank]]
    comm.batch_send_recv(sends + receives if comm.rank else receives + sends)
    comm.synchronize()
    return [f"message {k} from rank {rank}" for rank in peers for k, count in enumerate(counts)
            if not np.array_equal(got[rank][k].array, numbered(comm, count, rank).array)]  # fmt: skip


@pytest.mark.timeout(400)
def test_more_messages_than_a_kernel_takes(kernel_cache: str) -> None:
    for outcome in outcomes(3, many_messages_at_once, kernel_cache):
        assert (outcome.text, outcome.value) == ("", [])


def sizes_differ(comm: Communicator, _: Tell) -> None:
    comm.all_reduce(tensor(comm, 1))
    if comm.rank == 0:
        comm.send(tensor(comm, 8), 1)
    else:
        comm.recv(tensor(comm, 9), 0)
    comm.synchronize()


def test_a_message_of_another_size(kernel_cache: str) -> None:
    _, receiver = outcomes(2, sizes_differ, kernel_cache, timeout_s=60.0)
    assert receiver.error == "TransportError"
    assert "rank 1: a recv of 36 bytes from rank 0 over peer memory met a send of 32 bytes" in receiver.text


def test_a_message_that_nobody_sends(kernel_cache: str, tmp_path: Path) -> None:
    receiver, _ = outcomes(2, partial(nobody_sends, tmp_path / "ended"), kernel_cache, timeout_s=6)
    assert receiver.error == "TimeoutError"
    assert "rank 0 waited for rank 1 in a recv of 8 bytes from rank 1 over peer memory" in receiver.text


def refused_messages(comm: Communicator, _: Tell) -> list[str]:
    x = tensor(comm, 2)
    comm.all_reduce(x)
    texts = []
    for messages in (
        [P2POp("isend", x, 1 - comm.rank, 7)],
        [P2POp("isend", x, comm.size)],
        [P2POp("isend", x, comm.rank)],
        [P2POp("isend", x, 1 - comm.rank), P2POp("irecv", np.zeros(2, np.float32), 1 - comm.rank)],
    ):
        try:
            comm.batch_send_recv(messages)
        except lanecast.UsageError as error:
            texts.append(str(error))
    comm.all_reduce(x)
    comm.synchronize()
    return texts


def test_messages_that_are_refused(kernel_cache: str) -> None:
    for rank, outcome in enumerate(outcomes(2, refused_messages, kernel_cache)):
        assert outcome.text == ""
        for text, words in zip(outcome.value, ("tag: 7", "dst: rank 2", "in one group", "lie on one GPU"), strict=True):
            assert words in text
            assert f"rank {rank}" in text
