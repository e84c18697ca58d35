# SPDX-License-Identifier: Apache-2.0
"""GPUs that are opened together where something goes wrong on one of them, or beside a capture: without a GPU."""

from __future__ import annotations

import gc
import time
from functools import partial
from typing import Any

import pytest

import gpu_host_library
import lanecast
from gpu_stand_in import another, outcomes, tensor
from lanecast import Communicator, P2POp, _core
from pipe_jobs import Tell
from test_gpu_without_gpu import NOTHING_HELD

pytestmark = pytest.mark.timeout(400)  # the first one builds the driver

OUT_OF_MEMORY = 2
DEADLINE_S = 240.0  # of which a busy machine takes no half
# The driver's calls, until kernels are loaded, which a process keeps; and each time.
ONCE = ("cuModuleLoadData", "cuModuleGetFunction", "cuFuncLoad")
EACH_TIME = (
    "cuDevicePrimaryCtxRetain", "cuDeviceGetAttribute", "cuDeviceGetName", "cuDeviceGetUuid", "cuDeviceGetPCIBusId",
    "cuMemAlloc", "cuMemsetD8Async", "cuIpcGetMemHandle", "cuIpcOpenMemHandle", "cuMemHostAlloc",
    "cuMemHostGetDevicePointer", "cuStreamCreateWithPriority", "cuEventCreate", "cuFuncSetAttribute",
)  # fmt: skip
# Of those, where there are many of each.
FEW = ("cuDeviceGetName", "cuMemAlloc", "cuIpcGetMemHandle", "cuIpcOpenMemHandle", "cuMemHostAlloc", "cuEventCreate")


def fails_on(comm: Communicator) -> bool:
    return comm.rank == comm.size - 1


def opened(comm: Communicator, call: str, after: int, topology: str) -> tuple[str, float]:
    """What a rank is told, and after how many seconds, where that call of the driver's fails on one of them; nothing
    where there are not so many, so that the GPUs are open then."""
    comm.barrier()
    begun, said, made = time.monotonic(), "", None
    if fails_on(comm):
        gpu_host_library.fail_next(call, OUT_OF_MEMORY, after)
    try:
        made = another(comm, device=comm.rank, topology=topology, timeout_s=DEADLINE_S)
    except lanecast.Error as error:
        said = str(error)
    gpu_host_library.fail_no_more(call)
    took_s = time.monotonic() - begun
    del made
    gc.collect()
    return said, took_s


def what_is_said(
    calls: tuple[str, ...], topology: str, comm: Communicator, _: Tell
) -> tuple[dict[str, list[tuple[str, float]]], str]:
    """For each call the first fails, the second, ..., until there are no more; and what is held then."""
    said = {call: [opened(comm, call, 0, topology)] for call in ONCE}
    for call in calls:
        said[call] = [opened(comm, call, 0, topology)]
        while said[call][-1][0]:
            said[call].append(opened(comm, call, len(said[call]), topology))
        said[call].pop()
    return said, gpu_host_library.held()


PLACES = [
    (3, FEW, "", None),
    pytest.param(3, EACH_TIME, "", None, marks=pytest.mark.slow),
    pytest.param(4, FEW, "2x2", None, marks=pytest.mark.long),  # with groups of two ranks
    pytest.param(4, FEW, "2x2", "aabb", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("size", "calls", "topology", "hosts"), PLACES)
def test_whatever_fails_on_one_rank_is_told_to_all_at_once(
    size: int, calls: tuple[str, ...], topology: str, hosts: str | None, kernel_cache: str
) -> None:
    options = {"hosts": hosts} if hosts else {}
    ended = outcomes(size, partial(what_is_said, calls, topology), kernel_cache, **options)
    for rank, outcome in enumerate(ended):
        assert outcome.text == ""
        said, held = outcome.value
        assert held == NOTHING_HELD
        for call, texts in said.items():
            assert texts, call
            for text, took_s in texts:
                # By name; and before any deadline.
                assert f"{call}: CUDA_ERROR_OUT_OF_MEMORY: out of memory" in text
                assert rank == size - 1 or f"rank {size - 1} refuses: " in text
                assert took_s < DEADLINE_S / 2, (call, text)


def first_call_opens(comm: Communicator, _: Tell) -> str:
    """One that is ordered by a stream."""
    if fails_on(comm):
        gpu_host_library.fail_next("cuDevicePrimaryCtxRetain", OUT_OF_MEMORY)
    with pytest.raises(lanecast.Error) as caught:
        comm.all_reduce(tensor(comm, 8))
    return str(caught.value)


def test_a_gpu_that_the_first_call_cannot_open(kernel_cache: str) -> None:
    *others, failed = outcomes(3, first_call_opens, kernel_cache)
    assert failed.value.startswith("cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY")
    for outcome in others:
        assert outcome.text == ""
        assert "rank 2 refuses: cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY" in outcome.value


def opens_beside_a_capture(comm: Communicator, _: Tell) -> None:
    """All that takes something of a GPU at first, while a thread captures in CUDA's global mode."""
    x, y = tensor(comm, 8), tensor(comm, 8)
    with gpu_host_library.captured_globally():
        for algorithm in ("peer_kernel", "copy_engine", "ring", "nccl"):
            comm.all_reduce(x, algorithm=algorithm)
            comm.synchronize()
        work = comm.all_reduce(x, async_op=True)
        assert isinstance(work, lanecast.DeviceWork)
        work.synchronize()
        comm.batch_send_recv([P2POp("isend", x, 1 - comm.rank), P2POp("irecv", y, 1 - comm.rank)])
        sent = comm.isend(x, 1 - comm.rank)
        comm.irecv(y, 1 - comm.rank).wait()
        sent.wait()
        symmetric = comm._core.symmetric_allocate(comm.rank, 4096)
        window: Any = _core.WindowMemory(comm.rank, 4096)
        assert comm._core.open_window(window)
        for _turn in range(3):  # in which peers map it
            comm.all_reduce(x)
            comm.barrier()
        comm.synchronize()
    window.retire()  # waits for the GPU, which no capture survives, as does the end of symmetric memory
    del symmetric


@pytest.mark.parametrize("topology", ["2x1", "1x2"])
def test_a_capture_in_another_thread(topology: str, kernel_cache: str) -> None:
    for outcome in outcomes(2, opens_beside_a_capture, kernel_cache, timeout_s=60, topology=topology):
        assert outcome.text == ""
