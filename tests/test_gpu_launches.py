# SPDX-License-Identifier: Apache-2.0
"""What calls on GPUs within a host launch, as traces have it and as the driver has counted it."""

from __future__ import annotations

import json
import platform
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import gpu_host_library
from composed_cases import form
from gpu_stand_in import Tensor, outcomes, tensor
from lanecast import Communicator, traces
from lanecast.point_to_point import P2POp
from lanecast.traces.perfetto import write_perfetto
from pipe_jobs import Tell

COUNT = 5003
TURNS = 3

pytestmark = [
    pytest.mark.timeout(400),  # the first one builds the driver
    pytest.mark.skipif(platform.machine() != "x86_64", reason="calls go through functions written for x86-64"),
]


def launched_by(watched: gpu_host_library.Watched, call: str = "cuLaunchKernel") -> int:
    lines = [line.split() for calls in watched.calls().values() for line in calls]
    return sum(int(count) for name, count, _ in lines if name == call)


def composed(folder: Path, comm: Communicator, _: Tell) -> tuple[int, int]:
    """Runs and starts of one composition; its lanes, and how many kernels the driver was told to launch."""
    x, y = (Tensor(np.ones(COUNT, np.int32), "int32", comm.rank) for _ in range(2))
    call = comm.compile(form("all_reduce_by_all_gather", comm.size), y, x, chunks=4)
    assert call.program is not None
    watched = gpu_host_library.Watched()
    watched.reset()
    for _turn in range(TURNS):
        call.run()
    call.start()
    call.wait()
    comm.synchronize()
    comm.write_trace(folder)
    assert set(y.array) == {comm.size}
    return call.program.lanes, launched_by(watched)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_composed_call_is_one_launch(size: int, kernel_cache: str, tmp_path: Path) -> None:
    watched = {"LANECAST_CUDA_LIBRARY": str(gpu_host_library.watched_library())}
    ended = outcomes(size, partial(composed, tmp_path), kernel_cache, trace_steps=True, variables=watched)
    assert [outcome.text for outcome in ended] == [""] * size
    (job,) = traces.read(tmp_path)
    for rank, outcome in enumerate(ended):
        lanes, launches = outcome.value
        found = job.ranks[rank].launches
        assert len(found) == launches == TURNS + 1
        assert [each["call"] for each in found] == [1, 2, 3, 4]
        assert {(each["kernel"], each["blocks"], each["bytes"]) for each in found} == {
            ("lanecast_program_int32", lanes, COUNT * 4)
        }
        assert all(each["what"].startswith("composition ") for each in found)
    assert "rank 0: no calls but those of GPUs within a host" in traces.report(job)
    (line,) = [line for line in traces.report(job).splitlines() if "lanecast_program_int32" in line]
    ranks = "1 rank" if size == 1 else f"{size} ranks"
    assert f": {(TURNS + 1) * size} calls of {ranks}, each one launch: lanecast_program_int32 in " in line
    write_perfetto(job, tmp_path / "run.json")
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    slices = [event for event in events if event.get("name", "").startswith("lanecast_program_int32: composition ")]
    assert len(slices) == (TURNS + 1) * size


def all_kinds(folder: Path, comm: Communicator, _: Tell) -> int:
    comm.barrier()
    x, y = tensor(comm, 1000), tensor(comm, 1000)
    comm.compile(form("all_reduce", comm.size), x, x)  # opens what a first call would open
    watched = gpu_host_library.Watched()
    watched.reset()
    comm.all_reduce(x)
    comm.all_reduce(x, algorithm="ring")
    other = 1 - comm.rank
    comm.batch_send_recv([P2POp("isend", x, other), P2POp("irecv", y, other)])
    comm.synchronize()
    comm.write_trace(folder)
    return launched_by(watched)


def test_every_launch_of_other_calls_is_there_too(kernel_cache: str, tmp_path: Path) -> None:
    watched = {"LANECAST_CUDA_LIBRARY": str(gpu_host_library.watched_library())}
    body = partial(all_kinds, tmp_path)
    ended = outcomes(2, body, kernel_cache, trace_steps=True, variables=watched)
    (job,) = traces.read(tmp_path)
    for rank, outcome in enumerate(ended):
        assert outcome.text == ""
        found = job.ranks[rank].launches
        assert len(found) == outcome.value
        whats = ["all_reduce sum of float32", "all_reduce sum of float32", "messages"]
        assert list(dict.fromkeys((each["call"], each["what"]) for each in found)) == list(enumerate(whats, 1))
        assert [each["bytes"] for each in found if each["call"] == 3] == [8000]
        assert [each["kernel"] for each in found if each["call"] == 2] == ["lanecast_program_float32"]


def untraced(folder: Path, comm: Communicator, _: Tell) -> None:
    x = tensor(comm, 1000)
    comm.all_reduce(x)
    comm.synchronize()
    comm.write_trace(folder)


def test_without_steps_no_launch_is_kept(kernel_cache: str, tmp_path: Path) -> None:
    assert [each.text for each in outcomes(2, partial(untraced, tmp_path), kernel_cache)] == ["", ""]
    (job,) = traces.read(tmp_path)
    assert [trace.launches for trace in job.ranks.values()] == [[], []]


def reduced(count: int, comm: Communicator, _: Tell) -> tuple[int, int]:
    """Launches of an all-reduce without clusters and with them."""
    x = tensor(comm, count)
    comm.all_reduce(x)  # connects
    comm.synchronize()
    watched = gpu_host_library.Watched()
    watched.reset()
    comm.all_reduce(x)
    comm.synchronize()
    assert set(x.array) == {comm.size**2}
    return launched_by(watched), launched_by(watched, "cuLaunchKernelEx")


@pytest.mark.parametrize(
    ("blocks", "count", "launches"), [(16, 100_000, (0, 1)), (15, 100_000, (1, 0)), (16, 1000, (1, 0))]
)
def test_blocks_of_long_calls_come_in_clusters(
    blocks: int, count: int, launches: tuple[int, int], kernel_cache: str
) -> None:
    variables = {"LANECAST_CUDA_LIBRARY": str(gpu_host_library.watched_library()), "LANECAST_MAX_CTAS": str(blocks)}
    for outcome in outcomes(2, partial(reduced, count), kernel_cache, variables=variables):
        assert outcome.text == ""
        assert outcome.value == launches
