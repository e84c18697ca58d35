# SPDX-License-Identifier: Apache-2.0
"""Helpers that map a GPU's buffer and move slices of it by kernels of their own, on the driver without a GPU."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpu_host_library
import lanecast
from gpu_stand_in import Tensor, between_hosts, outcomes
from lanecast import Communicator, _core
from lanecast.cluster.gpu_nics import Network, parse
from lanecast.helpers import on_gpu
from lanecast.helpers.leading import Leader
from lanecast.helpers.started import HelpedDeviceWork
from pipe_jobs import PipeJob, Tell
from test_helpers_going_wrong import gone

COUNT = 10_007
OPTIONS: dict[str, Any] = {"processes_per_gpu": 3, "allow_shared_cores": True}


class OnGpu:
    """An array in a GPU's memory of this process's own, which others can map."""

    def __init__(self, device: int, values: Any) -> None:
        self.memory = _core.WindowMemory(device, values.nbytes)
        whole = (ctypes.c_ubyte * values.nbytes).from_address(self.memory.address)
        self.array = np.frombuffer(whole, np.uint8).view(values.dtype)
        self.array[:] = values
        self.tensor = Tensor(self.array, str(values.dtype), device)


def moves(comm: Leader, counts: list[int], algorithm: str) -> list[str]:
    """The three collectives of so many elements a rank by this algorithm; what came out wrong."""
    rank, size = comm.rank, comm.size
    wrong = []

    def number(r: int, count: int) -> Any:
        return np.arange(count, dtype=np.int32) * (r + 3) + r

    def judge(what: str, found: Any, expected: Any) -> None:
        if not (found == expected).all():
            wrong.append(f"{what} of {counts} by {algorithm}: {np.flatnonzero(found != expected)[:5]}")

    vector = OnGpu(rank, number(rank, counts[0]))
    comm.all_reduce(vector.tensor, algorithm=algorithm)
    judge("all_reduce", vector.array, sum(number(r, counts[0]) for r in range(size)))
    if algorithm == "nccl":
        return wrong
    share, whole = OnGpu(rank, number(rank, counts[rank])), OnGpu(rank, np.zeros(sum(counts), np.int32))
    comm.all_gather_into_tensor(whole.tensor, share.tensor, counts=counts, algorithm=algorithm)
    gathered = np.concatenate([number(r, counts[r]) for r in range(size)])
    judge("all_gather", whole.array, gathered)
    share.array[:] = 0
    comm.reduce_scatter_tensor(share.tensor, whole.tensor, counts=counts, algorithm=algorithm)
    judge("reduce_scatter", share.array, number(rank, counts[rank]) * size)
    return wrong


def moves_slices(algorithms: tuple[str, ...], comm: Communicator, _: Tell) -> list[str]:
    assert isinstance(comm, Leader)
    comm.use_processes(3)
    wrong = []
    for algorithm, count in itertools.product(algorithms, (3, COUNT)):
        wrong += moves(comm, [count] * comm.size, algorithm)
        wrong += moves(comm, [count + 5 * r for r in range(comm.size)], algorithm)
    return wrong


@pytest.mark.timeout(400)  # the first one builds the driver
@pytest.mark.parametrize(
    ("size", "topology", "algorithms"),
    [
        (2, "", ("", "ring", "nccl")),
        (2, "2x1", ("", "ring", "nccl")),
        pytest.param(4, "2x2", ("", "hierarchical(ring,peers)", "hierarchical(direct,peers)"), marks=pytest.mark.long),
        pytest.param(3, "", ("", "direct"), marks=pytest.mark.long),
    ],
)
def test_slices_that_each_process_moves(
    size: int, topology: str, algorithms: tuple[str, ...], kernel_cache: str
) -> None:
    shape = between_hosts(topology) if topology else {}
    for outcome in outcomes(size, partial(moves_slices, algorithms), kernel_cache, **shape, **OPTIONS):
        assert (outcome.text, outcome.value) == ("", [])


def starts_slices(algorithms: tuple[str, ...], comm: Communicator, _: Tell) -> list[str]:
    """Several calls under way, waited for in another order, with one between that the leader makes alone."""
    assert isinstance(comm, Leader)
    comm.use_processes(3)
    rank, size = comm.rank, comm.size
    wrong = []
    for algorithm, turn in itertools.product(algorithms, range(3)):
        vectors = [OnGpu(rank, np.full(COUNT + k, rank + k, np.int32)) for k in range(3)]
        works = [comm.all_reduce(each.tensor, algorithm=algorithm, async_op=True) for each in vectors]
        word = OnGpu(rank, np.full(5, rank, np.int32))
        comm.broadcast(word.tensor, 1)
        for work in works if turn % 2 else reversed(works):
            assert isinstance(work, HelpedDeviceWork)
            work.synchronize()
            assert work.is_completed()
        comm.synchronize()
        found = [sorted(set(each.array.tolist())) for each in (*vectors, word)]
        expected = [[sum(range(size)) + size * k] for k in range(3)]
        if found != [*expected, [1]]:
            wrong.append(f"{algorithm}: {found}")
    return wrong


@pytest.mark.timeout(400)
@pytest.mark.parametrize("topology", ["", pytest.param("2x1", marks=pytest.mark.long)])
def test_started_calls_have_helpers_on_gpus(topology: str, kernel_cache: str) -> None:
    shape = between_hosts(topology) if topology else {}
    for outcome in outcomes(2, partial(starts_slices, ("", "ring")), kernel_cache, **shape, **OPTIONS):
        assert (outcome.text, outcome.value) == ("", [])


@pytest.fixture(scope="module")
def nics() -> Iterator[Network]:
    """Two hosts with a NIC each, which sees the stand-in's GPUs."""
    made = Network(parse("1GBps,10us"), ["a", "b"], 1)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in gpu_host_library.environment().items():
            patch.setenv(name, value)
        made.start()
    yield made
    made.stop()


def moves_slices_on_gpus(comm: Communicator, tell: Tell) -> list[str]:
    wrong = moves_slices(("", "ring"), comm, tell)
    return wrong if comm.gpu_messages == "direct" else [*wrong, comm.gpu_messages]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("queues", ["8", "1"])
def test_slices_over_the_nics_of_gpus(queues: str, nics: Network, kernel_cache: str) -> None:
    """All processes of a GPU send through its NIC. The messages lie on the GPU, also where MPS leaves few queues."""
    before = [nic["sent_bytes"] for nic in nics.traffic()]
    variables = {**nics.environment(), "CUDA_DEVICE_MAX_CONNECTIONS": queues}
    found = outcomes(2, moves_slices_on_gpus, kernel_cache, hosts="ab", variables=variables, **OPTIONS)
    assert [(outcome.text, outcome.value) for outcome in found] == [("", [])] * 2
    sent = [nic["sent_bytes"] - begun for nic, begun in zip(nics.traffic(), before, strict=True)]
    assert min(sent) > 24 * COUNT


def inode_at(address: int, pid: int | str = "self") -> str:
    """Of the file that lies there in a process's memory."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        begin, end = (int(bound, 16) for bound in line.split()[0].split("-"))
        if begin <= address < end:
            return line.split()[4]
    raise AssertionError("no memory of its own")


def stays_in_no_helper(comm: Communicator, _: Tell) -> list[int]:
    """What helpers still map of their leader's memory after each call; and how much their memory grows."""
    assert isinstance(comm, Leader)
    comm.use_processes(3)
    mapped, lines = [], []
    for _turn in range(60):
        vector = OnGpu(comm.rank, np.ones(99, np.int32))
        comm.all_reduce(vector.tensor)
        inode = inode_at(vector.memory.address)
        maps = [Path(f"/proc/{helper.pid}/maps").read_text() for helper in comm.helpers]
        mapped.append(sum(line.split()[4] == inode for text in maps for line in text.splitlines()))
        lines.append(sum(len(text.splitlines()) for text in maps))
    return [sum(mapped), max(0, lines[-1] - lines[20])]


@pytest.mark.timeout(400)
def test_no_memory_stays_mapped_behind_a_call(kernel_cache: str) -> None:
    for outcome in outcomes(2, stays_in_no_helper, kernel_cache, **OPTIONS):
        assert outcome.text == ""
        assert outcome.value[0] == 0
        assert outcome.value[1] < 20  # by 40 calls of 2 helpers


def refuses_and_goes_on(comm: Communicator, _: Tell) -> list[str]:
    assert isinstance(comm, Leader)
    comm.use_processes(3)
    vector = OnGpu(comm.rank, np.ones(99, np.int32))
    own = Tensor(np.zeros(COUNT, np.int32), "int32", comm.rank)  # of no cudaMalloc, as expandable segments
    share, whole = OnGpu(comm.rank, np.ones(99, np.int32)), OnGpu(comm.rank, np.ones(198, np.int32))

    def captured() -> None:
        gpu_host_library.capture(on=True)
        try:
            comm.all_reduce(vector.tensor)
        finally:
            gpu_host_library.capture(on=False)

    calls: tuple[Callable[[], Any], ...] = (
        lambda: comm.all_reduce(own),
        lambda: comm.all_gather_into_tensor(whole.tensor, share.tensor, algorithm="nccl"),
        lambda: comm.all_gather_into_tensor(whole.tensor, share.tensor, algorithm="peer_kernel"),
        lambda: comm.all_reduce(vector.tensor, algorithm="no_such"),
        captured,
    )
    said = []
    for call in calls:
        with pytest.raises(lanecast.UsageError) as refused:
            call()
        said.append(str(refused.value))
        comm.all_reduce(vector.tensor)
    assert (vector.array == comm.size ** len(calls)).all()
    with pytest.raises(lanecast.UsageError) as refused:
        _core.SliceMemory("0000:99:00.0", bytes(64), 0)
    return [*said, str(refused.value)]


@pytest.mark.timeout(400)
def test_refusals_name_the_rank_and_what_to_do(kernel_cache: str) -> None:
    words = (
        "that no other process can map",
        "slices of shares lie apart, and NCCL has no call for them",
        "no way to move slices of shares",
        "algorithm 'no_such' is unknown",
        "no CUDA graph can capture a call that several processes move; use_processes(1)",
    )
    for rank, outcome in enumerate(outcomes(2, refuses_and_goes_on, kernel_cache, **OPTIONS)):
        assert outcome.text == ""
        for expected, said in zip(words, outcome.value, strict=False):
            assert expected in said
            assert f"rank {rank}" in said
        assert "show it the same ones as its neighbours" in outcome.value[-1]


def test_multiprocessors_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [on_gpu.ctas_of_helpers({}, processes) for processes in (2, 8, 100)] == [32, 8, 1]
    monkeypatch.setenv("LANECAST_MAX_CTAS", "12")
    assert [on_gpu.ctas_of_helpers(given, 4) for given in ({}, {"max_ctas": 16})] == [3, 4]


def leads_on_gpu_zero(comm: Communicator, _: Tell) -> str:
    assert isinstance(comm, Leader)
    comm.use_processes(3)
    vector = OnGpu(0, np.zeros(99, np.int32))
    with pytest.raises(lanecast.UsageError) as refused:
        comm.all_reduce(vector.tensor)
    return str(refused.value)


def test_two_leaders_of_one_gpu_are_refused(kernel_cache: str) -> None:
    for outcome in outcomes(2, leads_on_gpu_zero, kernel_cache, **OPTIONS):
        assert outcome.text == ""
        assert "ranks 0 and 1 " in outcome.value
        assert "GPU" in outcome.value


def calls_for_ever(comm: Communicator, tell: Tell) -> None:
    assert isinstance(comm, Leader)
    comm.use_processes(3)
    vector = OnGpu(comm.rank, np.ones(COUNT, np.int32))
    for turn in range(1 << 30):
        if turn == 5:
            tell([helper.pid for helper in comm.helpers])
        vector.array[:] = 1
        comm.all_reduce(vector.tensor)
        assert (vector.array == comm.size).all()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("whose", ["helper", "leader"])
@pytest.mark.parametrize("hosts", [pytest.param({}, id="one host"), pytest.param(between_hosts("2x1"), id="two hosts")])
def test_nothing_stays_behind_where_one_is_killed(whose: str, hosts: dict[str, Any], kernel_cache: str) -> None:
    job = PipeJob(
        2, calls_for_ever, kernel_cache=kernel_cache, environment=gpu_host_library.environment(), timeout_s=60.0,
        **hosts, **OPTIONS,
    )  # fmt: skip
    pids = [job.told(rank) for rank in range(2)]
    if whose == "helper":
        os.kill(pids[1][0], signal.SIGKILL)
    else:
        job.processes[1].kill()
    outcome = job.outcome(0)
    assert outcome.error in {"TransportError", "LostPeerError"}, outcome
    assert "rank 1" in outcome.text or f"process {pids[0][0]}" in outcome.text, outcome
    job.end()
    assert gone([*pids[0], *pids[1]])
