# SPDX-License-Identifier: Apache-2.0
"""Messages of a GPU's memory between two ranks of several hosts, without a GPU: of all lengths and in any order, in
graphs, beside other calls, and those that go wrong."""

from __future__ import annotations

import ctypes
import itertools
import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpu_host_library
import lanecast
from gpu_host_library import Graph
from gpu_message_cases import LENGTHS, around, content, empty, filled, nobody_sends, wrong_in
from gpu_stand_in import FREE_OF_DRIVER, Tensor, between_hosts, opened, outcomes, taking_gpus
from lanecast import Communicator, P2POp
from pipe_jobs import Outcome, Tell, stays_until

pytestmark = pytest.mark.timeout(400)  # the first one builds the driver


def all_right(ended: list[Outcome]) -> None:
    for outcome in ended:
        assert (outcome.text, outcome.value) == ("", [])


def of_all_lengths(lengths: tuple[int, ...], comm: Communicator, _: Tell) -> list[str]:
    return [what for turn, count in enumerate(lengths) for what in around(comm, turn, count)]


@pytest.mark.parametrize(
    ("size", "topology", "lengths"), [(2, "2x1", LENGTHS), (3, "2+1", LENGTHS[::3]), (4, "2x2", LENGTHS[1::4])]
)
def test_messages_of_all_lengths(size: int, topology: str, lengths: tuple[int, ...], kernel_cache: str) -> None:
    all_right(outcomes(size, partial(of_all_lengths, lengths), kernel_cache, **between_hosts(topology)))


def of_two_alone(ended: Path, comm: Communicator, _: Tell) -> list[str]:
    """Of three ranks with open GPUs, of which the second does nothing."""
    opened(comm)
    if comm.rank == 1:
        stays_until(ended)
        return []
    peer = 2 - comm.rank
    wrong = []
    for turn, count in enumerate((8, 200_001)):
        got = empty(comm, count)
        comm.batch_send_recv([P2POp("isend", filled(comm, count, turn=turn), peer), P2POp("irecv", got, peer)])
        comm.synchronize()
        wrong += wrong_in(comm, got, peer, turn)
    comm.send(filled(comm, 1), peer)  # both have come
    comm.recv(empty(comm, 1), peer)
    comm.synchronize()
    ended.touch()
    return wrong


def test_two_ranks_open_a_channel_by_themselves(kernel_cache: str, tmp_path: Path) -> None:
    all_right(outcomes(3, partial(of_two_alone, tmp_path / "ended"), kernel_cache, **between_hosts("3x1")))


def many_at_once(comm: Communicator, _: Tell) -> list[str]:
    """More than a kernel takes, from each to each in one list; then as many, started one by one in other orders."""
    peers = [rank for rank in range(comm.size) if rank != comm.rank]
    counts = [(k * k * 37) % 9973 for k in range(70)]
    wrong = []
    for started in (False, True):
        got = {rank: [empty(comm, count) for count in counts] for rank in peers}
        sends = [P2POp("isend", filled(comm, count, turn=k), rank) for rank in peers for k, count in enumerate(counts)]
        receives = [P2POp("irecv", place, rank) for rank in peers for place in got[rank]]
        operations = sends + receives if comm.rank else receives + sends
        if started:
            works = [getattr(comm, str(each.op))(each.tensor, each.peer) for each in operations]
            for work in works:
                work.wait()
        else:
            comm.batch_send_recv(operations)
        comm.synchronize()
        wrong += [what for rank in peers for k in range(70) for what in wrong_in(comm, got[rank][k], rank, k)]
    return wrong


@pytest.mark.parametrize(("size", "topology"), [(2, "2x1"), (3, "2+1")])
def test_more_messages_than_a_kernel_takes(size: int, topology: str, kernel_cache: str) -> None:
    all_right(outcomes(size, many_at_once, kernel_cache, **between_hosts(topology)))


def drawn(seed: int, rounds: int, comm: Communicator, _: Tell) -> list[str]:
    """Lists of messages of any lengths among all pairs, in an order of each rank's own, without a word in between."""
    common, own = random.Random(seed), random.Random(comm.rank)
    opened(comm)
    wrong, judged = [], []
    for turn in range(rounds):
        operations, got = [], []
        for source, target in itertools.product(range(comm.size), repeat=2):
            for _again in range(common.choice([0, 0, 1, 1, 2])):
                count = common.choice([0, 1, 247, 5_000, 70_000, 140_000, 900_001])
                if comm.rank == source:
                    operations.append(P2POp("isend", filled(comm, count, turn=turn), target))
                if comm.rank == target:
                    got.append((empty(comm, count), source, turn))
                    operations.append(P2POp("irecv", got[-1][0], source))
        # Between two ranks the order is common to both; else it is not.
        peers = own.sample(range(comm.size), comm.size)
        operations.sort(key=lambda each, peers=peers: peers.index(each.peer))  # type: ignore[misc]
        if own.random() < 0.5:
            comm.batch_send_recv(operations)
        else:
            comm.batch_isend_irecv(operations)[0].wait()
        judged += got
    comm.synchronize()
    for place, source, turn in judged:
        wrong += wrong_in(comm, place, source, turn)
    return wrong


@pytest.mark.parametrize(
    ("size", "topology", "rounds"),
    [(4, "2+1+1", 6), pytest.param(7, "3+3+1", 6, marks=pytest.mark.long),
     pytest.param(3, "2+1", 60, marks=pytest.mark.long)],
)  # fmt: skip
def test_lists_that_are_drawn(size: int, topology: str, rounds: int, kernel_cache: str) -> None:
    all_right(outcomes(size, partial(drawn, 7, rounds), kernel_cache, **between_hosts(topology)))


def beyond_2_gib(comm: Communicator, _: Tell) -> list[str]:
    """Of memory that lies in pages of zeros but for some bytes."""
    count = (1 << 31) + 5
    bytes_at = gpu_host_library.memory(comm.rank, count)
    array = np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(bytes_at))
    places = [0, 1 << 20, (1 << 31) - 1, 1 << 31, count - 1]
    opened(comm)
    if comm.rank == 0:
        array[places] = range(1, 6)
        comm.send(Tensor(array, "uint8", comm.rank), 1)
    else:
        comm.recv(Tensor(array, "uint8", comm.rank), 0)
    comm.synchronize()
    found = [*array[places].tolist(), int(np.count_nonzero(array[1 << 20 :]))]
    return [] if found == [1, 2, 3, 4, 5, 4] else [str(found)]


@pytest.mark.long
def test_a_message_beyond_2_gib(kernel_cache: str) -> None:
    all_right(outcomes(2, beyond_2_gib, kernel_cache, **between_hosts("2x1")))


LONG = 300_000  # bytes of a message that lies on the GPU where it may


def on_the_gpu(settings: dict[str, Any], comm: Communicator, _: Tell) -> list[str]:
    ours = taking_gpus(comm, FREE_OF_DRIVER, **settings)
    wrong = [what for turn, count in enumerate((5, LONG, 100, 9 << 20)) for what in around(ours, turn, count)]
    return wrong if ours.gpu_messages == "direct" else [*wrong, ours.gpu_messages]


@pytest.mark.parametrize("queues", ["8", "2"])
def test_messages_that_lie_on_the_gpu(queues: str, kernel_cache: str) -> None:
    """Also where MPS leaves a process two hardware queues: the transport copies on no stream of this process."""
    options = {**between_hosts("2x1"), "variables": {"CUDA_DEVICE_MAX_CONNECTIONS": queues}}
    settings = {"topology": options.pop("topology"), "kernel_cache": kernel_cache, "timeout_s": 60.0}
    all_right(outcomes(2, partial(on_the_gpu, settings), kernel_cache, **options))


def beside_host_calls(comm: Communicator, _: Tell) -> list[str]:
    """A rank stands in a barrier while its message is moved, and its peer comes there once it has that."""
    opened(comm)
    peer, got = 1 - comm.rank, empty(comm, LONG)
    wrong = []
    for turn in range(4):
        if (comm.rank + turn) % 2 == 0:
            comm.send(filled(comm, LONG, turn=turn), peer)
            comm.barrier()
        else:
            comm.recv(got, peer)
            comm.synchronize()
            wrong += wrong_in(comm, got, peer, turn)
            comm.barrier()
    return wrong


def test_a_barrier_while_messages_move(kernel_cache: str) -> None:
    all_right(outcomes(2, beside_host_calls, kernel_cache, **between_hosts("2x1")))


def replayed(comm: Communicator, _: Tell) -> list[str]:
    """Fresh data in each replay, of messages in both directions; eager ones and collectives between them."""
    opened(comm)
    peer, count = 1 - comm.rank, 70_001
    source, got, short = filled(comm, count), empty(comm, count), empty(comm, 3)
    eager, late = empty(comm, 40_000), empty(comm, 40_000)

    def calls() -> None:
        comm.batch_send_recv([P2POp("isend", source, peer), P2POp("irecv", got, peer)])
        if comm.rank:
            comm.send(short, peer)
        else:
            comm.recv(short, peer)

    comm.batch_send_recv([P2POp("isend", filled(comm, 40_000), peer), P2POp("irecv", eager, peer)])
    graph = Graph(comm.rank, calls)
    wrong = []
    for turn in range(12):
        source.array[:] = content(count, comm.rank, turn)
        short.array[:] = content(3, comm.rank, turn)
        graph.launch()
        if turn % 3 == 1:
            comm.batch_send_recv([P2POp("irecv", late, peer), P2POp("isend", filled(comm, 40_000, turn=turn), peer)])
        assert gpu_host_library.synchronize(comm.rank) == 0
        comm.synchronize()
        wrong += [*wrong_in(comm, got, peer, turn), *wrong_in(comm, short, 1, turn)]
        if turn % 3 == 1:
            wrong += wrong_in(comm, late, peer, turn)
            x = Tensor(np.ones(9, np.float32), "float32", comm.rank)
            comm.all_reduce(x)
            comm.synchronize()
            wrong += [] if x.array.sum() == 18 else [f"a sum of {x.array.sum()}"]
    graph.destroy()
    return [*wrong, *wrong_in(comm, eager, peer)]


def test_messages_in_a_graph(kernel_cache: str) -> None:
    all_right(outcomes(2, replayed, kernel_cache, **between_hosts("2x1")))


def sizes_differ(sent: int, expected: int, comm: Communicator, _: Tell) -> None:
    opened(comm)
    if comm.rank == 0:
        comm.send(filled(comm, sent), 1)
    else:
        comm.recv(empty(comm, expected), 0)
    comm.synchronize()
    comm.barrier()


@pytest.mark.parametrize(("sent", "expected"), [(32, 36), (100, 70_000), (1_000_000, 999_999)])
def test_a_message_of_another_size(sent: int, expected: int, kernel_cache: str) -> None:
    body = partial(sizes_differ, sent, expected)
    sender, receiver = outcomes(2, body, kernel_cache, **between_hosts("2x1"), timeout_s=60.0)
    assert receiver.error == "TransportError"
    assert (
        f"rank 1: a recv of {expected} bytes from rank 0 of a GPU's memory met a send of {sent} bytes" in receiver.text
    )
    assert sender.error == "TransportError"


def test_a_message_that_nobody_sends(kernel_cache: str, tmp_path: Path) -> None:
    body = partial(nobody_sends, tmp_path / "ended")
    receiver, _ = outcomes(2, body, kernel_cache, **between_hosts("2x1"), timeout_s=6)
    assert receiver.error == "TimeoutError"
    assert "s for rank 1 in recv of 8 bytes from rank 1 of a GPU's memory over ucx" in receiver.text


def second_leaves(comm: Communicator, _: Tell) -> None:
    opened(comm)
    if comm.rank == 0:
        comm.recv(empty(comm, 8), 1)
        comm.synchronize()


def test_a_peer_that_has_gone(kernel_cache: str) -> None:
    waited, gone = outcomes(2, second_leaves, kernel_cache, **between_hosts("2x1"), timeout_s=60)
    assert waited.error == "TransportError"
    assert "rank 0 lost rank 1" in waited.text
    assert "recv of 8 bytes from rank 1 of a GPU's memory" in waited.text
    assert gone.error == ""


def refused(comm: Communicator, _: Tell) -> list[str]:
    opened(comm)
    x = empty(comm, 2)
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
    opened(comm)
    return texts


def test_messages_that_are_refused(kernel_cache: str) -> None:
    for rank, outcome in enumerate(outcomes(2, refused, kernel_cache, **between_hosts("2x1"))):
        assert outcome.text == ""
        for text, words in zip(outcome.value, ("tag: 7", "dst: rank 2", "in one group", "lie on one GPU"), strict=True):
            assert words in text
            assert f"rank {rank}" in text
