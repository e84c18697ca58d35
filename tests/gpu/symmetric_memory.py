# SPDX-License-Identifier: Apache-2.0
"""Collectives on symmetric memory: whole tensors and parts, beside plain ones, by every algorithm that takes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import lanecast
from campaign import Campaign
from grid import left_out
from lanecast.communicator import Communicator
from streams import SMALL, numbers, total, unequal

ALGORITHMS = ("", "peer_kernel", "copy_engine", "peer_direct")
_TURNS = 6  # of memory that comes and goes
_LEAK_BYTES = 64 << 20


def run(campaign: Campaign) -> None:
    if campaign.on_gpu:
        for algorithm in ALGORITHMS:
            name = f"symmetric memory by {algorithm or 'choice'}"
            campaign.check(name, partial(_collectives, campaign, algorithm))
        campaign.check("symmetric memory comes and goes", partial(_come_and_go, campaign))


def everyone(campaign: Campaign, count: int, turn: int) -> Any:
    """What numbers() brings on all ranks, side by side."""
    import torch

    own = numbers(campaign, count, turn)
    return torch.cat([own + (rank - campaign.rank) * 10_007 for rank in range(campaign.size)])


class _Tried:
    """Calls by one algorithm, and what is wrong with their results."""

    def __init__(self, campaign: Campaign, algorithm: str) -> None:
        self._campaign, self._algorithm = campaign, algorithm
        self.wrong: list[str] = []

    def call(self, kind: str, call: Callable[..., object], got: Any, expected: Any) -> None:
        try:
            call(algorithm=self._algorithm)
        except lanecast.UsageError as error:
            self.wrong += left_out(self._campaign, kind, self._algorithm, error)
            return
        self.wrong += unequal(self._campaign, f"{kind} of {got.numel()} by {self._algorithm}", got, expected)


def _collectives(campaign: Campaign, algorithm: str, comm: Communicator) -> list[str]:
    tried = _Tried(campaign, algorithm)
    for turn, count in enumerate((SMALL, campaign.large, 1, campaign.large + 3)):
        own, whole = comm.symmetric_empty(count, "float32"), comm.symmetric_empty(count * campaign.size, "float32")
        gathered, mine = everyone(campaign, count, turn), slice(campaign.rank * count, (campaign.rank + 1) * count)
        for target in (whole, whole.clone()):
            for source in (own, target[mine]):
                target.fill_(-1.0)
                source.copy_(numbers(campaign, count, turn))
                tried.call("all_gather", partial(comm.all_gather_into_tensor, target, source), target, gathered)
            target.copy_(numbers(campaign, count * campaign.size, turn))
            share = total(campaign, count * campaign.size, turn)[mine]
            tried.call("reduce_scatter", partial(comm.reduce_scatter_tensor, own, target), own, share)
        own.copy_(numbers(campaign, count, turn))
        tried.call("all_reduce", partial(comm.all_reduce, own), own, total(campaign, count, turn))
        campaign.settle(comm)
        campaign.together()
    return tried.wrong


def _come_and_go(campaign: Campaign, comm: Communicator) -> list[str]:
    """What ranks have dropped is free again."""
    import torch

    taken: list[int] = []
    for turn in range(_TURNS):
        tensor = comm.symmetric_empty(64 << 20, "uint8")
        tensor.fill_(turn)
        comm.all_reduce(tensor, "max")
        wrong = unequal(campaign, f"turn {turn}", tensor, torch.full_like(tensor, turn))
        campaign.settle(comm)
        del tensor
        campaign.together()
        free, size = torch.cuda.mem_get_info()
        taken.append(size - free)
        if wrong:
            return wrong
    lost = taken[-1] - taken[1]
    return [f"rank {campaign.rank}: {lost} bytes are gone"] if lost > _LEAK_BYTES else []
