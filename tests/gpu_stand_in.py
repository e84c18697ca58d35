# SPDX-License-Identifier: Apache-2.0
"""Jobs of ranks with GPUs where there are none: their driver runs kernels on the CPU, and tensors lie in its memory."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import collective_cases
import gpu_host_library
import lanecast
from collective_cases import Array, Call, Case, even, ops_of
from exchange_api import Described, exchange_api
from lanecast import Communicator, _core
from lanecast.startup import progress_thread
from pipe_jobs import Outcome, PipeJob, Tell

THREE = ("all_reduce", "all_gather", "reduce_scatter")
MULTICAST = {"GPU_HOST_MULTICAST": "1", "NCCL_NVLS_ENABLE": "1"}  # which a site may switch off
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "all_to_all")


class Tensor:
    """An array that says of itself what a CUDA tensor of torch's does."""

    def __init__(self, array: Array, dtype: str, ordinal: int) -> None:
        self.array, self.dtype, self.shape, self.ordinal = array, f"torch.{dtype}", array.shape, ordinal

    def described(self) -> Described:
        address = int(self.array.ctypes.data) if self.array.size else 0
        return Described(address, self.dtype, self.shape, ordinal=self.ordinal)

    __dlpack_c_exchange_api__ = exchange_api(described)

    def __setitem__(self, place: slice, other: Tensor) -> None:
        self.array[place] = other.array


class DeviceCall(Call):
    """A case with tensors of the rank's GPU, or of the one that is named."""

    def __init__(self, comm: Communicator, case: Case, ordinal: int | None = None) -> None:
        super().__init__(comm, case)
        self._ordinal = comm.rank if ordinal is None else ordinal

    def start(self) -> None:
        arrays = self._source, self._target
        dtype = {"float8_e4m3": "float8_e4m3fn"}.get(self.case.dtype, self.case.dtype)
        source, target = (Tensor(array, dtype, self._ordinal) for array in arrays)
        self._source, self._target = source, target  # type: ignore[assignment]
        super().start()
        self._source, self._target = arrays

    def _in_core(self, *arguments: Any) -> None:
        asked = *arguments, None  # reproducible or not: as the communicator is
        self.comm._core.enqueue(*asked)

    def finish(self) -> list[str]:
        if self._work is not None:
            self._work.synchronize()  # type: ignore[union-attr]
            self._work = None
        self.comm.synchronize()
        return super().finish()


def run_on_gpu(cases: list[Case], guard: int, comm: Communicator, _: Tell) -> list[str]:
    collective_cases.GUARD = guard
    wrong = []
    for case in cases:
        call = DeviceCall(comm, case)
        call.start()
        wrong += call.finish()
    return wrong


def in_environment(environment: dict[str, str], body: Any, comm: Communicator, tell: Tell) -> Any:
    os.environ.update(environment)  # read by the first call on a GPU
    return body(comm, tell)


def outcomes(size: int, body: Callable[[Communicator, Tell], Any], kernel_cache: str, **options: Any) -> list[Outcome]:
    """What becomes of body(comm, tell) on each rank. options: of the communicator; variables: of the environment."""
    # Before the communicator is made, which reads some of it.
    environment = {**gpu_host_library.environment(), **options.pop("variables", {})}
    job = PipeJob(size, body, kernel_cache=kernel_cache, environment=environment, **{"timeout_s": 100, **options})
    ended = [job.outcome(rank, timeout_s=300) for rank in range(size)]
    assert job.end() == [0] * size
    return ended


def shape_cases(size: int, algorithm: str, counts: tuple[int, ...], chunks: tuple[int, int]) -> list[Case]:
    """The collectives that every algorithm of an all-gather gives, in place and not."""
    return [
        Case(kind, even(kind, count, size), algorithm, in_place=in_place, chunks=cut)
        for kind, count, cut in itertools.product(THREE, counts, chunks)
        for in_place in ((False, True) if size == 2 else (cut > 1,))
    ]


def type_cases() -> list[Case]:
    """All-reduces of each type by each of its operators."""
    return [
        Case("all_reduce", (33,), "ring", dtype, op, in_place=True, chunks=2)
        for dtype in _core.DTYPES
        for op in ops_of(dtype)
    ]


def between_hosts(topology: str) -> dict[str, Any]:
    """Options of a job whose outermost domains are hosts: "2x1", or "2+1"."""
    if "x" in topology:
        hosts, ranks = (int(number) for number in topology.split("x"))
        of_each = [ranks] * hosts
    else:
        of_each = [int(number) for number in topology.split("+")]
    return {"topology": topology, "hosts": "".join("abcd"[host] * ranks for host, ranks in enumerate(of_each))}


def judge(size: int, cases: list[Case], kernel_cache: str, guard: int = 3, **options: Any) -> None:
    """Fails the test unless all cases give the right results on all ranks."""
    for outcome in outcomes(size, partial(run_on_gpu, cases, guard), kernel_cache, **options):
        assert outcome.text == ""
        assert outcome.value == []


def expect_named_absence(ended: list[Outcome]) -> None:
    """Of two ranks, of which the second makes no more calls."""
    waited, stayed_away = ended
    assert waited.error in ("TimeoutError", "TransportError")  # the latter where its going is noticed first
    assert "rank 1" in waited.text
    assert stayed_away.error == ""


def expect_different_calls(ended: list[Outcome]) -> None:
    """Of ranks that have made different calls."""
    assert "the ranks have made different calls" in "".join(outcome.text for outcome in ended)
    assert "" not in [outcome.error for outcome in ended]


def in_place_is_offered(kind: str) -> tuple[bool, ...]:
    return {"broadcast": (True,), "reduce": (True,), "all_to_all": (False,)}.get(kind, (False, True))


def tensor(comm: Communicator, count: int) -> Tensor:
    return Tensor(np.ones(count, np.float32), "float32", comm.rank)


def opened(comm: Communicator) -> Communicator:
    """Of ranks whose GPUs are open, with what the first call makes."""
    comm.all_reduce(tensor(comm, 1))
    comm.synchronize()
    return comm


def _gather(comm: Communicator, mine: bytes) -> bytes:
    everyone = np.empty(comm.size * len(mine), np.uint8)
    comm.all_gather_into_tensor(everyone, np.frombuffer(mine, np.uint8))
    return everyone.tobytes()


def another(comm: Communicator, **options: Any) -> Communicator:
    """Of the same ranks."""
    return lanecast.from_all_gather(comm.rank, comm.size, partial(_gather, comm), **options)


@dataclass(frozen=True)
class Taking:
    """What transports do that take a GPU's memory: stuck_while: such a file is there, they do not return."""

    takes: bool = True
    calls_driver: bool = False
    stuck_while: str = ""


FREE_OF_DRIVER = Taking()


def taking_gpus(comm: Communicator, how: Taking, **options: Any) -> Communicator:
    """Of the same ranks, with such transports."""
    gather, progress = partial(_gather, comm), progress_thread()
    core = _core.Communicator.from_all_gather_on_gpus(
        comm.rank, comm.size, gather, progress, options, how.takes, how.calls_driver, how.stuck_while
    )
    return Communicator(core)
