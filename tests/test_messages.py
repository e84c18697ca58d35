# SPDX-License-Identifier: Apache-2.0
"""Send, recv, batches and barriers among threads: payloads, matching, deadlines, misuse."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lanecast
from collective_cases import Case, run_cases
from lanecast import Communicator, P2POp, UsageError
from message_cases import all_cases, blanks, judge, payload

TIMEOUT_S = 60.0


def on_threads(size: int, function: Callable[[Communicator], Any], **options: Any) -> list[Any]:
    return lanecast.run_threads(size, function, **{"timeout_s": TIMEOUT_S, **options})


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_every_case(size: int) -> None:
    wrong = [line for lines, _ in on_threads(size, all_cases) for line in lines]
    assert wrong == []


def test_messages_wait_for_no_collective() -> None:
    def body(comm: Communicator) -> list[str]:
        got, total = blanks(50_000), np.ones(100_000)
        work = None
        if comm.rank == 0:
            work = comm.all_reduce(total, async_op=True)  # cannot finish: rank 1 wants its message first
            comm.send(payload(0, 1, 0, got.size), 1)
        else:
            comm.recv(got, 0)
            comm.all_reduce(total)
        if work is not None:
            work.wait()
        return [] if comm.rank == 0 else judge(got, 0, 1, 0)

    assert on_threads(2, body) == [[], []]


def test_split_beside_a_message_under_way() -> None:
    def body(comm: Communicator) -> list[str]:
        got = blanks(100_000)
        work = comm.irecv(got, 0, 9) if comm.rank == 2 else None
        child = comm.split(0, key=-comm.rank)
        assert child is not None
        wrong = run_cases(child, [Case("all_reduce", (31,))])
        if comm.rank == 0:
            comm.send(payload(0, 2, 9, got.size), 2, 9)
            comm.send(payload(0, 1, 1, 3), 1, 1)
        if comm.rank == 1:
            small = blanks(3)
            comm.recv(small, 0, 1)
            wrong += judge(small, 0, 1, 1)
        if work is not None:
            work.wait()
            wrong += judge(got, 0, 2, 9)
        return wrong

    assert on_threads(3, body) == [[]] * 3


def test_dropped_work_keeps_its_arrays() -> None:
    def body(comm: Communicator) -> list[str]:
        got = [blanks(100_000) for _ in range(5)]
        for number, buffer in enumerate(got):
            if comm.rank == 0:
                comm.isend(payload(0, 1, number, buffer.size), 1, number)
                _ = np.zeros(buffer.size)  # would get the memory if it were free
            else:
                comm.recv(buffer, 0, number)
        comm.barrier()
        return [line for number, buffer in enumerate(got) if comm.rank == 1 for line in judge(buffer, 0, 1, number)]

    assert on_threads(2, body) == [[], []]


@pytest.mark.parametrize("topology", ["1", "2", "5", "2x3"])
@pytest.mark.parametrize("async_op", [False, True])
def test_nobody_leaves_a_barrier_before_all_have_come(topology: str, async_op: bool) -> None:
    size = {"2x3": 6}.get(topology) or int(topology)
    come, lock = [0], threading.Lock()

    def body(comm: Communicator) -> list[int]:
        seen = []
        for turn in range(20):
            if turn % size == comm.rank:
                time.sleep(0.002)
            with lock:
                come[0] += 1
            work = comm.barrier(async_op)
            if work is not None:
                work.wait()
            seen.append(come[0])
        return seen

    results = on_threads(size, body, **({} if topology.isdigit() else {"topology": topology}))
    for turn in range(20):
        assert all(seen[turn] >= size * (turn + 1) for seen in results)


def failures(size: int, body: Callable[[Communicator], Any], **options: Any) -> list[str]:
    """Each rank's error, with its type; empty where it had none. All stay until the last has ended."""
    ended = threading.Barrier(size, timeout=200)

    def guarded(comm: Communicator) -> str:
        text = ""
        try:
            body(comm)
        except lanecast.Error as error:
            text = f"{type(error).__name__}: {error}"
        ended.wait()
        return text

    return on_threads(size, guarded, **options)


@pytest.mark.parametrize(("sent", "expected"), [(3, 4), (4, 3), (300_000, 4), (4, 300_000), (0, 1)])
@pytest.mark.parametrize("receiver_first", [False, True])
def test_sizes_that_differ(sent: int, expected: int, receiver_first: bool) -> None:
    def body(comm: Communicator) -> None:
        if comm.rank == 0:
            time.sleep(0.02 * receiver_first)
            comm.send(np.ones(sent, np.uint8), 1, 6)
        else:
            time.sleep(0.02 * (not receiver_first))
            comm.recv(np.ones(expected, np.uint8), 0, 6)

    _, receiver = failures(2, body)
    assert receiver.startswith("TransportError")
    assert re.search(rf"rank 0 sends {sent} bytes under tag 6, .*expects {expected}\b", receiver), receiver


@pytest.mark.parametrize("form", ["blocking", "started", "batch"])
def test_a_message_that_never_comes(form: str) -> None:
    def body(comm: Communicator) -> None:
        if comm.rank == 1:  # the others are alive, and not interested
            buffer = np.ones(5, np.float32)
            if form == "blocking":
                comm.recv(buffer, 0, 12)
            elif form == "started":
                comm.irecv(buffer, 0, 12).wait()
            else:
                comm.batch_send_recv([P2POp("irecv", buffer, 0, 12), P2POp("irecv", buffer, 2, 13)])

    texts = failures(3, body, timeout_s=3.0)
    assert texts[1].startswith("TimeoutError: rank 1 waited")
    assert "recv of 20 bytes from rank 0, tag 12" in texts[1]
    assert ("for rank 0, 2" in texts[1]) == (form == "batch")


def test_a_peer_that_leaves() -> None:
    def body(comm: Communicator) -> None:
        if comm.rank == 0:
            raise LookupError("rank 0 has lost its way")
        comm.recv(np.ones(5), 0, 12)

    with pytest.raises(LookupError) as caught:
        on_threads(2, body)
    assert "recv of 40 bytes from rank 0, tag 12" in caught.value.__notes__[0]


def test_a_barrier_that_not_all_reach() -> None:
    texts = failures(3, lambda comm: comm.barrier() if comm.rank else None, timeout_s=3.0)
    assert all("Error: barrier" in text for text in texts[1:]), texts


MISUSES: dict[str, tuple[Callable[[Communicator], Any], str]] = {
    "to itself": (lambda c: c.send(np.ones(1), c.rank), "dst: rank"),
    "outside": (lambda c: c.recv(np.ones(1), 7), "src: rank 7 is outside 0 to 2"),
    "before the first": (lambda c: c.isend(np.ones(1), -1), "dst: rank -1"),
    "no rank": (lambda c: c.recv(np.ones(1), None), "src=None"),  # type: ignore[arg-type]
    "negative tag": (lambda c: c.irecv(np.ones(1), (c.rank + 1) % 3, -1), "tag: -1"),
    "no tag": (lambda c: c.irecv(np.ones(1), 0, "a"), "tag='a'"),  # type: ignore[arg-type]
    "read-only": (lambda c: c.recv(b"abc", (c.rank + 1) % 3), "tensor is read-only"),
    "strided": (lambda c: c.send(np.ones(8)[::2], (c.rank + 1) % 3), "tensor is not contiguous"),
    "op": (lambda c: c.batch_isend_irecv([P2POp("send", np.ones(1), (c.rank + 1) % 3)]), "op 'send'"),
    "one of two": (
        lambda c: c.batch_isend_irecv([P2POp(c.isend, np.ones(1), (c.rank + 1) % 3), P2POp(c.irecv, np.ones(1), 9)]),
        "src: rank 9",
    ),
}


@pytest.mark.parametrize("what", MISUSES)
def test_misuse_is_refused_and_harmless(what: str) -> None:
    call, word = MISUSES[what]

    def body(comm: Communicator) -> list[str]:
        with pytest.raises(UsageError) as caught:
            call(comm)
        assert word in str(caught.value), caught.value
        assert f"rank {comm.rank}: " in str(caught.value)
        return all_cases(comm)[0]

    assert on_threads(3, body) == [[]] * 3
