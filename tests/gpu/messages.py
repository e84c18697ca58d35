# SPDX-License-Identifier: Apache-2.0
"""Messages between two ranks: alone and in groups, on several streams, beside collectives, and in graphs."""

from __future__ import annotations

from typing import Any

import lanecast
from campaign import TIMEOUT_S, Campaign, expected_error
from graphs import numbers_of
from lanecast.communicator import Communicator
from streams import SMALL, Streams, numbers, total, unequal

_TURNS = 10
_SIZES = (0, 1, 3, SMALL, 100_003)  # elements
_LARGE_OFFSET = 3  # so that nothing is aligned
_SHORT_S = 3.0


def run(campaign: Campaign) -> None:
    for name, body in (
        ("messages of all sizes around the ring", _ring),
        ("messages from each to each and to oneself", _each_to_each),
        ("many messages in one group", _many),
        ("messages to the right before the answer", _pairs),
        ("asynchronous receives before any send", _receives_first),
        ("messages beside collectives", _beside_collectives),
        ("messages in a graph", _graph),
    ):
        campaign.check(name, lambda comm, body=body: body(campaign, comm))  # type: ignore[misc]
    if campaign.on_gpu and campaign.size > 1:
        campaign.check("a message of another size", lambda _: _other_size(campaign))
        campaign.check("a message that nobody sends", lambda _: _never_sent(campaign))


def _around(campaign: Campaign, by: int = 1) -> tuple[int, int]:
    """The ranks so many places after this one, and before."""
    return (campaign.rank + by) % campaign.size, (campaign.rank - by) % campaign.size


def _op(name: str, tensor: Any, peer: int) -> lanecast.P2POp:
    return lanecast.P2POp(name, tensor, peer)


def _empty(like: Any) -> Any:
    import torch

    return torch.full_like(like, -1)


def _from(campaign: Campaign, rank: int, count: int, turn: int) -> Any:
    return numbers_of(campaign, count, turn, rank)


def _ring(campaign: Campaign, comm: Communicator) -> list[str]:
    if campaign.size == 1:
        return []
    wrong: list[str] = []
    after, before = _around(campaign)
    for count in (*_SIZES, campaign.large, 4 * campaign.large + _LARGE_OFFSET):
        for offset in (0, 1):
            sent = numbers(campaign, count + offset, count)[offset:]
            got = _empty(numbers(campaign, count + offset, 0))[offset:]
            comm.batch_send_recv([_op("irecv", got, before), _op("isend", sent, after)])
            expected = _from(campaign, before, count + offset, count)[offset:]
            wrong += unequal(campaign, f"{count} elements from {offset} on", got, expected)
    return wrong


def _each_to_each(campaign: Campaign, comm: Communicator) -> list[str]:
    if not campaign.on_gpu:
        return []  # the CPU's messages to oneself are refused
    wrong: list[str] = []
    for count in (SMALL, campaign.large):
        for turn in range(_TURNS):
            sent = [numbers(campaign, count, turn + r) for r in range(campaign.size)]
            got = [_empty(sent[0]) for _ in range(campaign.size)]
            ops = [_op("isend", sent[r], r) for r in range(campaign.size)]
            comm.batch_send_recv(ops + [_op("irecv", got[r], r) for r in reversed(range(campaign.size))])
            for r in range(campaign.size):
                expected = _from(campaign, r, count, turn + campaign.rank)
                wrong += unequal(campaign, f"{count} from {r}, turn {turn}", got[r], expected)
    return wrong


def _many(campaign: Campaign, comm: Communicator) -> list[str]:
    """More than one kernel takes, of unequal sizes; those of two ranks match in their order."""
    if campaign.size == 1:
        return []
    after, before = _around(campaign)
    sizes = [(7 * k * k) % 5000 for k in range(300 if campaign.on_gpu else 30)]
    sent = [numbers(campaign, size, k) for k, size in enumerate(sizes)]
    got = [_empty(tensor) for tensor in sent]
    # As NCCL's, a GPU's messages match in their order; those of the CPU's memory do so by equal tags.
    comm.batch_send_recv([_op("isend", tensor, after) for tensor in sent] +
                         [_op("irecv", tensor, before) for tensor in got])  # fmt: skip
    return [line for k, size in enumerate(sizes)
            for line in unequal(campaign, f"message {k}", got[k], _from(campaign, before, size, k))]  # fmt: skip


def _pairs(campaign: Campaign, comm: Communicator) -> list[str]:
    """One call after the other on one stream: even ranks send first."""
    peer = campaign.rank ^ 1
    if peer >= campaign.size:
        return []
    wrong: list[str] = []
    for turn in range(_TURNS):
        for count in (SMALL, campaign.large):
            sent = numbers(campaign, count, turn)
            got = _empty(sent)
            if campaign.rank % 2 == 0:
                comm.send(sent, peer)
                comm.recv(got, peer)
            else:
                comm.recv(got, peer)
                comm.send(sent, peer)
            wrong += unequal(campaign, f"{count}, turn {turn}", got, _from(campaign, peer, count, turn))
    return wrong


def _receives_first(campaign: Campaign, comm: Communicator) -> list[str]:
    """Each message on its own: a receive that waits holds up no send, and a stream waits for what it asks for."""
    if campaign.size == 1:
        return []
    wrong: list[str] = []
    after, before = _around(campaign)
    for turn in range(_TURNS):
        for count in (SMALL, campaign.large):
            sent = numbers(campaign, count, turn)
            got = _empty(sent)
            receive = comm.irecv(got, before)
            send = comm.isend(sent, after)
            receive.wait()
            doubled = got * 2
            send.wait()
            sent.zero_()  # nothing that was sent is read any more
            wrong += unequal(campaign, f"{count}, turn {turn}", doubled, _from(campaign, before, count, turn) * 2)
    return wrong


def _beside_collectives(campaign: Campaign, comm: Communicator) -> list[str]:
    if campaign.size == 1:
        return []
    streams, made = Streams(campaign, 2), []
    after, before = _around(campaign)
    for turn in range(_TURNS):
        sent, summed = numbers(campaign, campaign.large, turn), numbers(campaign, campaign.large, turn + 1)
        got = _empty(sent)
        with streams.on(0):
            comm.batch_send_recv([_op("isend", sent, after), _op("irecv", got, before)])
        with streams.on(1):
            comm.all_reduce(summed)
        made.append((sent, got, summed, turn))
    campaign.settle(comm)
    wrong: list[str] = []
    for _, got, summed, turn in made:
        wrong += unequal(campaign, f"message, turn {turn}", got, _from(campaign, before, campaign.large, turn))
        wrong += unequal(campaign, f"sum, turn {turn}", summed, total(campaign, campaign.large, turn + 1))
    return wrong


def _graph(campaign: Campaign, comm: Communicator) -> list[str]:
    if campaign.size == 1:
        return []
    wrong: list[str] = []
    after, before = _around(campaign)
    for count in (SMALL, campaign.large + _LARGE_OFFSET):
        sent = numbers(campaign, count, 0)
        got, summed = _empty(sent), sent.clone()

        def calls(sent: Any = sent, got: Any = got, summed: Any = summed) -> None:
            comm.batch_send_recv([_op("isend", sent, after), _op("irecv", got, before)])
            comm.all_reduce(summed, "max")

        calls()
        campaign.settle(comm)
        campaign.together()
        replay = campaign.ranks.device.captured(calls, 3)
        for turn in range(_TURNS):
            sent.copy_(numbers(campaign, count, turn))
            replay()
            wrong += unequal(campaign, f"{count}, replay {turn}", got, _from(campaign, before, count, turn))
            own = numbers(campaign, SMALL, turn + 50)
            plain = _empty(own)
            comm.batch_send_recv([_op("irecv", plain, before), _op("isend", own, after)])
            expected = _from(campaign, before, SMALL, turn + 50)
            wrong += unequal(campaign, f"between replays, turn {turn}", plain, expected)
        campaign.settle(comm)
    return wrong


def _other_size(campaign: Campaign) -> list[str]:
    comm = campaign.another(timeout_s=_SHORT_S)
    tensor = numbers(campaign, SMALL, 0)
    comm.all_reduce(tensor)
    campaign.settle(comm)
    if campaign.rank > 1:
        return []
    if campaign.rank == 0:
        comm.send(tensor, 1)
        return []
    comm.recv(_empty(tensor)[1:], 0)
    return expected_error(comm.synchronize, lanecast.TransportError, "rank 1", f"{4 * SMALL} bytes",
                          f"{4 * SMALL - 4} bytes")  # fmt: skip


def _never_sent(campaign: Campaign) -> list[str]:
    comm = campaign.another(timeout_s=_SHORT_S)
    tensor = numbers(campaign, SMALL, 0)
    comm.all_reduce(tensor)
    campaign.settle(comm)
    wrong: list[str] = []
    if campaign.rank == 0:
        comm.recv(tensor, 1)
        wrong = expected_error(comm.synchronize, lanecast.TimeoutError, "rank 0 waited", "for rank 1", "recv of")
    campaign.together()
    assert _SHORT_S < TIMEOUT_S
    return wrong
