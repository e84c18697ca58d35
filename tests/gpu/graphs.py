# SPDX-License-Identifier: Apache-2.0
"""Calls captured in CUDA graphs and replayed with other inputs, among calls that are not."""

from __future__ import annotations

from typing import Any

from campaign import Campaign
from lanecast.communicator import Communicator
from streams import SMALL, numbers, total, unequal

_REPLAYS = 20
_CAPTURES = 3


def run(campaign: Campaign) -> None:
    for algorithm in campaign.algorithms("peer_kernel", "copy_engine"):
        for count in (SMALL, campaign.large + 3):
            campaign.check(
                f"graph of {count} by {algorithm or 'choice'}",
                lambda comm, count=count, algorithm=algorithm: _replayed(campaign, comm, count, algorithm),  # type: ignore[misc]
            )
    campaign.check("two graphs in turn", lambda comm: _two_graphs(campaign, comm))


class _Captured:
    """A graph of several calls on buffers of its own."""

    def __init__(self, campaign: Campaign, comm: Communicator, count: int, algorithm: str) -> None:
        self._campaign, self._count = campaign, count
        self._own, self._reduced = numbers(campaign, count, 0), numbers(campaign, count, 0)
        self._gathered = self._own.repeat(campaign.size)
        self._share = self._own.clone()

        def calls() -> None:
            comm.all_gather_into_tensor(self._gathered, self._own, algorithm=algorithm)
            comm.reduce_scatter_tensor(self._share, self._gathered, "max", algorithm=algorithm)
            comm.all_reduce(self._reduced, algorithm=algorithm)

        calls()  # what is made with the first call cannot be made in a capture
        campaign.settle(comm)
        campaign.together()
        self._replay = campaign.ranks.device.captured(calls, _CAPTURES)

    def replay(self, turn: int) -> list[str]:
        campaign, count = self._campaign, self._count
        self._own.copy_(numbers(campaign, count, turn))
        # Each of the calls in the graph adds up what the one before has left.
        self._reduced.copy_((self._own % 100).floor())
        self._replay()
        first = sum((numbers_of(campaign, count, turn, rank) % 100).floor() for rank in range(campaign.size))
        expected = first * campaign.size ** (_CAPTURES - 1)
        wrong = unequal(campaign, f"reduce-scatter, replay {turn}", self._share, self._own)
        wrong += unequal(campaign, f"all-reduce, replay {turn}", self._reduced, expected)
        for rank in range(campaign.size):
            part = self._gathered[rank * count : (rank + 1) * count]
            wrong += unequal(
                campaign, f"all-gather of rank {rank}, replay {turn}", part, numbers_of(campaign, count, turn, rank)
            )
        return wrong


def numbers_of(campaign: Campaign, count: int, turn: int, rank: int) -> Any:
    return numbers(campaign, count, turn) + (rank - campaign.rank) * 10_007


def _eager(campaign: Campaign, comm: Communicator, turn: int) -> list[str]:
    tensor = numbers(campaign, SMALL, turn)
    comm.all_reduce(tensor)
    return unequal(campaign, f"between replays, turn {turn}", tensor, total(campaign, SMALL, turn))


def _replayed(campaign: Campaign, comm: Communicator, count: int, algorithm: str) -> list[str]:
    captured = _Captured(campaign, comm, count, algorithm)
    wrong: list[str] = []
    for turn in range(_REPLAYS):
        wrong += captured.replay(turn)
        if turn % 3 == 0:
            wrong += _eager(campaign, comm, turn)
    campaign.settle(comm)
    del captured
    return wrong + _eager(campaign, comm, 99)


def _two_graphs(campaign: Campaign, comm: Communicator) -> list[str]:
    graphs = [_Captured(campaign, comm, count, "") for count in (SMALL, campaign.large)]
    wrong: list[str] = []
    for turn in range(_REPLAYS):
        wrong += graphs[turn % 3 % 2].replay(turn)
    campaign.settle(comm)
    return wrong
