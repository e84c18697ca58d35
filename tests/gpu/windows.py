# SPDX-License-Identifier: Apache-2.0
"""Memory that ranks register by themselves: calls on it beside plain tensors, at any place, as it comes and goes."""

from __future__ import annotations

import os
import random
from contextlib import ExitStack
from functools import partial
from typing import Any

from campaign import Campaign
from lanecast.communicator import Communicator
from streams import numbers, total, unequal
from symmetric_memory import everyone

_TURNS = 40
_SETTLED = 4  # calls after which all ranks have mapped what one has registered
_KINDS = ("all_gather", "reduce_scatter", "all_reduce")


def expandable() -> bool:
    return "expandable_segments:True" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")


def run(campaign: Campaign) -> None:
    if campaign.on_gpu and expandable():
        campaign.check("calls on expandable segments", partial(_plain, campaign))
    if campaign.on_gpu:
        campaign.check("calls on registered memory", partial(_registered, campaign))
        campaign.check("registered memory comes and goes", partial(_come_and_go, campaign))
        campaign.check("registered memory in a graph", partial(_in_a_graph, campaign))


def _memory(campaign: Campaign, count: int) -> Any:
    import torch

    return torch.empty(count, dtype=torch.float32, device=campaign.ranks.device.device)


def _settle(campaign: Campaign, comm: Communicator) -> None:
    for _ in range(_SETTLED):
        comm.all_reduce(_memory(campaign, 3))
        campaign.together()


def _tried(campaign: Campaign, comm: Communicator, kind: str, memory: tuple[Any, Any], turn: int) -> list[str]:
    """A call of campaign.large elements a share on the beginnings of two tensors, which may be one."""
    count, size = campaign.large, campaign.size
    mine = slice(campaign.rank * count, (campaign.rank + 1) * count)
    source, target = memory[0][: count * size], memory[1][: count * size]
    if kind == "all_gather":
        source = target[mine] if memory[0] is memory[1] else source[:count]
        source.copy_(numbers(campaign, count, turn))
        comm.all_gather_into_tensor(target, source)
        return unequal(campaign, f"turn {turn}: {kind}", target, everyone(campaign, count, turn))
    source.copy_(numbers(campaign, count * size, turn))
    expected = total(campaign, count * size, turn)
    if kind == "reduce_scatter":
        share = source[mine] if memory[0] is memory[1] else target[:count]
        comm.reduce_scatter_tensor(share, source)
        return unequal(campaign, f"turn {turn}: {kind}", share, expected[mine])
    comm.all_reduce(source)
    return unequal(campaign, f"turn {turn}: {kind}", source, expected)


def _registered(campaign: Campaign, comm: Communicator) -> list[str]:
    """Each rank at other places of its memory; then one of them without."""
    room = campaign.size * campaign.large + 64
    one, two, plain = (_memory(campaign, room) for _ in range(3))
    wrong: list[str] = []
    with comm.register(one), comm.register(two):
        _settle(campaign, comm)
        before = comm._core.calls_by_windows()
        for turn in range(4):  # of which those at whole accesses are fast
            shift = 4 * campaign.rank * turn + turn // 3
            for kind in _KINDS:
                wrong += _tried(campaign, comm, kind, (one[shift:], two[60 - shift :]), turn)
                here = one[shift:]
                wrong += _tried(campaign, comm, kind, (here, here), turn + 10)
        campaign.settle(comm)
        taken = comm._core.calls_by_windows() - before
        if campaign.size > 1 and taken != 4 * 2 * len(_KINDS):
            wrong.append(f"rank {campaign.rank}: {taken} calls have gone from window to window")
        for turn in range(campaign.size):
            here = plain if turn == campaign.rank else one
            for kind in _KINDS:
                wrong += _tried(campaign, comm, kind, (here, here), turn + 20)
        campaign.settle(comm)
        if comm._core.calls_by_windows() - before != taken:
            wrong.append(f"rank {campaign.rank}: a call has gone into memory that is not registered")
    return wrong


def _come_and_go(campaign: Campaign, comm: Communicator) -> list[str]:
    """As each rank's own dice say."""
    dice, agreed = random.Random(campaign.rank), random.Random(5)
    room = campaign.size * campaign.large + 64
    wrong: list[str] = []
    with ExitStack() as open_to_the_end:
        kept: list[tuple[Any, Any]] = [(None, _memory(campaign, room))]
        for turn in range(_TURNS):
            if len(kept) < 4 and dice.random() < 0.6:
                memory = _memory(campaign, room)
                kept.append((open_to_the_end.enter_context(comm.register(memory)), memory))
            if len(kept) > 1 and dice.random() < 0.2:
                registration, _ = kept.pop(dice.randrange(1, len(kept)))
                registration.close()
            one, two = dice.choice(kept[-3:])[1], dice.choice(kept[-3:])[1]
            wrong += _tried(campaign, comm, agreed.choice(_KINDS), (one, two), turn)
    return wrong


def _in_a_graph(campaign: Campaign, comm: Communicator) -> list[str]:
    """Replayed between other calls; whether the peers' buffers are registered is found out at each replay."""
    x = _memory(campaign, campaign.large)
    wrong: list[str] = []
    with comm.register(x):
        _settle(campaign, comm)
        replay = campaign.ranks.device.captured(lambda: comm.all_reduce(x), 1)
        before = comm._core.calls_by_windows()
        for turn in range(3):
            x.copy_(numbers(campaign, campaign.large, turn))
            replay()
            wrong += unequal(campaign, f"replay {turn}", x, total(campaign, campaign.large, turn))
            comm.all_reduce(_memory(campaign, 3))
        campaign.settle(comm)
        if campaign.size > 1 and comm._core.calls_by_windows() - before != 3:
            wrong.append(f"rank {campaign.rank}: replays have not gone from window to window")
    return wrong


def _plain(campaign: Campaign, comm: Communicator) -> list[str]:
    room = campaign.size * campaign.large
    one, two = _memory(campaign, room), _memory(campaign, room)
    return [line for kind in _KINDS for here in (one, two) for line in _tried(campaign, comm, kind, (one, here), 1)]
