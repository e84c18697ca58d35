# SPDX-License-Identifier: Apache-2.0
"""What a program does for the first time while a call on its GPU waits for other ranks: the driver is held then, until
that call ends. Without a GPU: a driver in between counts whose calls come, and has such a lock."""

from __future__ import annotations

import platform
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpu_host_library
import lanecast
from collective_cases import Case, even
from gpu_stand_in import FREE_OF_DRIVER, Taking, run_on_gpu, taking_gpus, tensor
from lanecast import Communicator
from pipe_jobs import Outcome, PipeJob, Tell

pytestmark = [
    pytest.mark.timeout(400),  # the first one builds the driver
    pytest.mark.skipif(platform.machine() != "x86_64", reason="calls go through functions written for x86-64"),
]

LONG = 100_000  # elements of float32 whose halves are no short messages
LET_GO_S = 60.0  # what would wait for ever ends, and fails the test


def outcomes(size: int, body: Any, timeout_s: float = 100, **options: Any) -> list[Outcome]:
    environment = {
        **gpu_host_library.environment(),
        "LANECAST_CUDA_LIBRARY": str(gpu_host_library.watched_library()),
    }
    job = PipeJob(size, body, environment=environment, timeout_s=timeout_s, **options)
    ended = [job.outcome(rank, timeout_s=300) for rank in range(size)]
    assert job.end() == [0] * size, [(each.text, job.words(rank)) for rank, each in enumerate(ended)]
    return ended


def moved(settings: dict[str, Any], how: Taking, comm: Communicator, tell: Tell) -> tuple[list[str], list[str]]:
    """What is wrong with the results, and which other threads than this one have called the driver."""
    ours = taking_gpus(comm, how, **settings)
    kinds = ("all_reduce", "all_gather", "reduce_scatter")
    cases = [
        Case(kind, even(kind, count, comm.size), "ring", chunks=chunks, async_op=chunks > 1)
        for kind in kinds
        for count in (3, LONG)
        for chunks in (1, 5)
    ]
    wrong = run_on_gpu(cases[:1], 3, ours, tell)
    watched = gpu_host_library.Watched()
    watched.reset()
    wrong += run_on_gpu(cases, 3, ours, tell)
    calls = watched.calls()
    assert threading.get_native_id() in calls
    return wrong, [f"{who}: {what}" for who, what in calls.items() if who != threading.get_native_id()]


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("messages", ["direct", "staged", ""])
def test_threads_that_move_messages_make_no_call_of_the_driver(size: int, messages: str, kernel_cache: str) -> None:
    settings = {"gpu_messages": messages, "topology": f"{size}x1", "kernel_cache": kernel_cache}
    for outcome in outcomes(size, partial(moved, settings, FREE_OF_DRIVER), hosts="abc"[:size]):
        assert (outcome.text, outcome.value) == ("", ([], []))


def places(settings: dict[str, Any], how: Taking, comm: Communicator, _: Tell) -> list[str]:
    made = [taking_gpus(comm, how, device=comm.rank, **settings) for _again in range(2)]
    return [each.gpu_messages for each in made]


@pytest.mark.parametrize(("how", "place"), [(FREE_OF_DRIVER, "direct"), (Taking(calls_driver=True), "staged")])
def test_a_transport_that_calls_the_driver_is_taken_by_name_alone(how: Taking, place: str, kernel_cache: str) -> None:
    environment = gpu_host_library.environment()
    job = PipeJob(2, partial(places, {"kernel_cache": kernel_cache}, how), hosts="ab", environment=environment)
    for rank in range(2):
        outcome = job.outcome(rank, timeout_s=300)
        assert (outcome.text, outcome.value) == ("", [place] * 2)
    assert job.end() == [0, 0]
    said = [job.words(rank).count("the transport of this test would call the GPU's driver") for rank in range(2)]
    assert said == ([0, 0] if place == "direct" else [1, 0])  # once, though there are two communicators


def while_a_kernel_loads(
    begun: Path, settings: dict[str, Any], how: Taking, comm: Communicator, _: Tell
) -> tuple[bool, float]:
    """Rank 1 loads a kernel behind its call, which waits for rank 0; that one calls when the driver is held."""
    # Rank 1 is to end this one: of two equal deadlines either may be the first.
    deadline = {"timeout_s": 6.0} if how.calls_driver and comm.rank == 1 else {}
    ours = taking_gpus(comm, how, **settings, **deadline)
    x = tensor(ours, LONG)
    ours.all_reduce(x, algorithm="ring")
    ours.synchronize()
    x.array[:] = comm.rank + 1
    loaded = True
    if comm.rank == 0:
        end = time.monotonic() + LET_GO_S
        while not begun.exists() and time.monotonic() < end:
            time.sleep(0.01)
        ours.all_reduce(x, algorithm="ring")
    else:
        watched = gpu_host_library.Watched()
        ours.all_reduce(x, algorithm="ring")
        threading.Thread(target=tell_of, args=(watched, begun)).start()
        loaded = watched.load_a_kernel(LET_GO_S)
    ours.synchronize()
    return loaded, float(x.array.sum())


def tell_of(watched: gpu_host_library.Watched, begun: Path) -> None:
    while not watched.is_held():
        time.sleep(0.001)
    begun.touch()


@pytest.mark.parametrize("messages", ["direct", "staged"])
def test_a_kernel_that_loads_while_a_call_waits(messages: str, kernel_cache: str, tmp_path: Path) -> None:
    settings = {"gpu_messages": messages, "topology": "2x1", "kernel_cache": kernel_cache}
    body = partial(while_a_kernel_loads, tmp_path / "begun", settings, FREE_OF_DRIVER)
    for outcome in outcomes(2, body, hosts="ab"):
        assert (outcome.text, outcome.value) == ("", (True, 3.0 * LONG))


def test_a_library_that_waits_for_the_driver_is_left_at_the_deadline(kernel_cache: str, tmp_path: Path) -> None:
    settings = {"gpu_messages": "direct", "topology": "2x1", "kernel_cache": kernel_cache}
    body = partial(while_a_kernel_loads, tmp_path / "begun", settings, Taking(calls_driver=True))
    waited, kept = outcomes(2, body, hosts="ab")
    assert kept.error in ("TimeoutError", "TransportError"), kept  # the latter where it has failed before it waits
    for words in ("rank 1 waited", "s for ucx (messages with rank 0)", "has not given the thread back",
                  "all_reduce by ring", "gpu_messages='direct'"):  # fmt: skip
        assert words in kept.text
    assert waited.error in ("TimeoutError", "TransportError")
    assert "rank 1" in waited.text


def kept_by_a_library(stuck: Path, comm: Communicator, _: Tell) -> dict[str, str]:
    """Where each wait ends while the thread that moves messages is in a library, and afterwards."""
    ours = taking_gpus(comm, Taking(takes=False, stuck_while=str(stuck)), timeout_s=6.0 if comm.rank == 1 else 60.0)
    said = {}

    def ended(what: str, call: Any) -> None:
        try:
            call()
            said[what] = "well"
        except lanecast.Error as error:
            said[what] = f"{type(error).__name__}: {error}"

    x = np.ones(8)
    if comm.rank == 0:
        ended("call", lambda: ours.all_reduce(x))
        return said
    stuck.touch()
    work: Any = ours.all_reduce(x, async_op=True)
    ended("wait", work.wait)
    ended("call", lambda: ours.all_reduce(x))
    ended("synchronize", ours.synchronize)
    stuck.unlink()
    end = time.monotonic() + LET_GO_S
    while "has failed" not in said.get("afterwards", "") and time.monotonic() < end:
        ended("afterwards", lambda: ours.all_reduce(x))
    return said


def test_a_library_that_does_not_return(tmp_path: Path) -> None:
    other, kept = outcomes(2, partial(kept_by_a_library, tmp_path / "stuck"), hosts="ab")
    assert (other.text, kept.text) == ("", "")
    for what in ("wait", "call", "synchronize"):
        assert kept.value[what].startswith("TimeoutError: rank 1 waited "), kept.value
        assert "s for ucx (messages with rank 0), which has not given the thread back" in kept.value[what]
        assert "all_reduce" in kept.value[what]
    assert "TransportError: rank 1: this communicator has failed and takes no more calls" in kept.value["afterwards"]
