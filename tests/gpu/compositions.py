# SPDX-License-Identifier: Apache-2.0
"""Compositions of tensors on GPUs: an all-reduce and one of a user's own, over and over, beside collectives."""

from __future__ import annotations

from typing import Any

import lanecast
from campaign import Campaign, expected_error
from composed_cases import to_the_right
from graphs import numbers_of
from lanecast.communicator import Communicator
from lanecast.compose import forms
from streams import SMALL, Streams, numbers, total, unequal

_TURNS = 6
_ODD = 3  # elements by which nothing is aligned
_SHORT_S = 3.0


def run(campaign: Campaign) -> None:
    for count in (0, 1, SMALL, 4 * campaign.large + _ODD):  # the last in many chunks
        campaign.check(f"composed all-reduce of {count}", lambda comm, count=count: _all_reduce(campaign, comm, count))  # type: ignore[misc]
        campaign.check(f"own composition of {count}", lambda comm, count=count: _own(campaign, comm, count))  # type: ignore[misc]
    campaign.check("two compositions on two streams", lambda comm: _two_streams(campaign, comm))
    if campaign.on_gpu and campaign.size > 1:
        campaign.check("a composition in a graph", lambda comm: _graph(campaign, comm))
        campaign.check("a composition that a rank does not run", lambda _: _late(campaign))


def _all_reduce(campaign: Campaign, comm: Communicator, count: int) -> list[str]:
    source = numbers(campaign, count, 0)
    target = source * 0
    call = comm.compile(forms.all_reduce_by_all_gather(campaign.size), target, source)
    wrong: list[str] = []
    for turn in range(_TURNS):
        source.copy_(numbers(campaign, count, turn))
        if turn % 2:
            call.start()
            call.wait()
        else:
            call.run()
        doubled = target * 2  # behind it on the stream
        wrong += unequal(campaign, f"turn {turn}", doubled, total(campaign, count, turn) * 2)
    return wrong


def _own(campaign: Campaign, comm: Communicator, count: int) -> list[str]:
    size, last = campaign.size, count // 2
    c = to_the_right(size)

    def buffers(turn: int) -> tuple[Any, Any]:
        brought = numbers(campaign, count + last, turn)
        return brought.new_full((count + (last if campaign.rank == 0 else 0),), -1), brought

    call = comm.compile(c, *buffers(0), counts=[count] * size + [last], chunks=5)
    wrong: list[str] = []
    for turn in range(_TURNS):
        kept, brought = buffers(turn)
        call.run(kept, brought)
        left = numbers_of(campaign, count + last, turn, (campaign.rank - 1) % size)
        wrong += unequal(campaign, f"from the left, turn {turn}", kept[:count], left[:count])
        if campaign.rank == 0:
            largest = numbers_of(campaign, count + last, turn, size - 1)[count:]
            wrong += unequal(campaign, f"largest, turn {turn}", kept[count:], largest)
    return wrong


def _two_streams(campaign: Campaign, comm: Communicator) -> list[str]:
    """In turn, with a collective between, and nothing but the communicator's order between the streams."""
    streams, made = Streams(campaign, 2), []
    for turn in range(_TURNS):
        tensors = [numbers(campaign, campaign.large, turn + k) for k in range(3)]
        composed = forms.all_reduce_by_all_gather(campaign.size), forms.all_reduce_by_broadcast(campaign.size)
        for k, composition in enumerate(composed):
            call = comm.compile(composition, tensors[k], tensors[k])
            with streams.on(k):
                call.run()
        comm.all_reduce(tensors[2])
        made.append(tensors)
    campaign.settle(comm)
    return [
        line
        for turn, tensors in enumerate(made)
        for k, tensor in enumerate(tensors)
        for line in unequal(campaign, f"turn {turn}, call {k}", tensor, total(campaign, campaign.large, turn + k))
    ]


def _graph(campaign: Campaign, comm: Communicator) -> list[str]:
    """Replayed on other numbers, with calls between that count on in the same rings."""
    source = numbers(campaign, SMALL, 0)
    target = source * 0
    call = comm.compile(forms.all_reduce_by_all_gather(campaign.size), target, source)
    call.run()
    replay = campaign.ranks.device.captured(call.run, 2)
    wrong: list[str] = []
    for turn in range(_TURNS):
        source.copy_(numbers(campaign, SMALL, turn))
        target.fill_(-1)
        replay()
        wrong += unequal(campaign, f"replay {turn}", target, total(campaign, SMALL, turn))
        call.run()
        wrong += unequal(campaign, f"eager {turn}", target, total(campaign, SMALL, turn))
    return wrong


def _late(campaign: Campaign) -> list[str]:
    comm = campaign.another(timeout_s=_SHORT_S)
    tensor = numbers(campaign, SMALL, 0)
    call = comm.compile(forms.all_reduce(campaign.size), tensor, tensor)
    call.run()
    campaign.settle(comm)
    wrong: list[str] = []
    if campaign.rank == 0:
        call.run()
        wrong = expected_error(comm.synchronize, lanecast.TimeoutError, "rank 0 waited", "for rank", "of composition")
    campaign.together()
    return wrong
