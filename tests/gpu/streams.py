# SPDX-License-Identifier: Apache-2.0
"""Collectives beside each other and beside other work: on several streams, and asynchronous."""

from __future__ import annotations

import statistics
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import lanecast
from campaign import Campaign
from lanecast.communicator import Communicator

SMALL = 1000
_TURNS = 12
_ROW = 20  # calls, one behind the other
_MATRIX = 6144  # of bf16: its product takes every multiprocessor


class Streams:
    """Some streams beside the current one; where there is no GPU, everything is done at once."""

    def __init__(self, campaign: Campaign, count: int) -> None:
        import torch

        self._torch, self._on_gpu = torch, campaign.on_gpu
        self._streams = [torch.cuda.Stream() if campaign.on_gpu else None for _ in range(count)]

    def on(self, k: int) -> AbstractContextManager[Any]:
        """What is enqueued in here comes after what the current stream holds, on the k-th."""
        stream = self._streams[k]
        if stream is None:
            return nullcontext()
        stream.wait_stream(self._torch.cuda.current_stream())
        context: AbstractContextManager[Any] = self._torch.cuda.stream(stream)
        return context


def numbers(campaign: Campaign, count: int, turn: int) -> Any:
    """What this rank brings: other numbers on each rank, in each turn and for each element, whose sum is exact."""
    import torch

    index = torch.arange(count, dtype=torch.int64, device=campaign.ranks.device.device)
    return ((index * 7 + turn * 131) % 10_007 + campaign.rank * 10_007).to(torch.float32)


def total(campaign: Campaign, count: int, turn: int) -> Any:
    """The sum of what all ranks bring."""
    ranks = campaign.size
    own = numbers(campaign, count, turn) - campaign.rank * 10_007
    return own * ranks + 10_007 * (ranks * (ranks - 1) // 2)


def unequal(campaign: Campaign, what: str, got: Any, expected: Any) -> list[str]:
    wrong = int((got != expected).sum().item())
    return [f"rank {campaign.rank}: {what}: {wrong} of {got.numel()} wrong"] if wrong else []


def run(campaign: Campaign) -> None:
    for name, body in (
        ("two communicators in opposite order", _opposite_order),
        ("one communicator on two streams", _two_streams),
        ("beside NCCL and a matrix product", _beside_others),
        ("many calls back to back", _back_to_back),
        ("calls of many pieces", _many_pieces),
        ("asynchronous calls", _asynchronous),
        ("asynchronous calls that nobody waits for", _forgotten),
    ):
        campaign.check(name, lambda comm, body=body: body(campaign, comm))  # type: ignore[misc]


def _opposite_order(campaign: Campaign, _: Communicator) -> list[str]:
    comms, streams = (campaign.another(), campaign.another()), Streams(campaign, 2)
    made = []
    for turn in range(_TURNS):
        for count in (SMALL, campaign.large):
            tensors = [numbers(campaign, count, turn + k) for k in range(2)]
            # Where nobody runs beside, opposite orders would wait for each other.
            order = (0, 1) if campaign.rank % 2 == 0 or not campaign.on_gpu else (1, 0)
            for k in order:
                with streams.on(k):
                    comms[k].all_reduce(tensors[k])
            made += [(tensors[k], count, turn + k) for k in range(2)]
    for comm in comms:
        campaign.settle(comm)
    return [line for tensor, count, turn in made
            for line in unequal(campaign, f"turn {turn}, {count}", tensor, total(campaign, count, turn))]  # fmt: skip


def _two_streams(campaign: Campaign, comm: Communicator) -> list[str]:
    streams, made = Streams(campaign, 2), []
    for turn in range(_TURNS):
        for k, count in ((0, campaign.large), (1, SMALL)):
            tensor = numbers(campaign, count, turn)
            with streams.on(k):
                comm.all_reduce(tensor)
            made.append((tensor, count, turn))
    campaign.settle(comm)
    return [line for tensor, count, turn in made
            for line in unequal(campaign, f"turn {turn}, {count}", tensor, total(campaign, count, turn))]  # fmt: skip


def _beside_others(campaign: Campaign, comm: Communicator) -> list[str]:
    import torch
    from torch import distributed

    group, device = campaign.ranks.group(), campaign.ranks.device.device
    streams, made = Streams(campaign, 3), []
    matrix = torch.eye(_MATRIX if campaign.on_gpu else 64, dtype=torch.bfloat16, device=device)
    product = matrix
    for turn in range(_TURNS):
        ours, theirs = numbers(campaign, campaign.large, turn), numbers(campaign, campaign.large, turn + 1)
        with streams.on(0):
            product = product @ matrix
        with streams.on(1):
            comm.all_reduce(ours)
        with streams.on(2):
            distributed.all_reduce(theirs, group=group)
        made.append((ours, theirs, turn))
    campaign.settle(comm)
    wrong = unequal(campaign, "the matrix product", product, matrix)
    for ours, theirs, turn in made:
        wrong += unequal(campaign, f"ours, turn {turn}", ours, total(campaign, campaign.large, turn))
        wrong += unequal(campaign, f"theirs, turn {turn}", theirs, total(campaign, campaign.large, turn + 1))
    return wrong


def _back_to_back(campaign: Campaign, comm: Communicator) -> list[str]:
    import torch

    own = numbers(campaign, SMALL, 1)
    gathered = torch.empty(SMALL * campaign.size, dtype=torch.float32, device=own.device)
    share = torch.empty_like(own)
    for _ in range(campaign.many):
        comm.all_gather_into_tensor(gathered, own)
        comm.reduce_scatter_tensor(share, gathered, "max")
    campaign.settle(comm)
    return unequal(campaign, "after many calls", share, own)


def _many_pieces(campaign: Campaign, comm: Communicator) -> list[str]:
    """Those of a long maximum come by kernels whose blocks wait for each, those of a sum may come otherwise."""
    if not campaign.on_gpu or campaign.ranks.shared_gpus:
        return []
    tensor, device = numbers(campaign, 16 << 20, 1), campaign.ranks.device

    def row_us(op: str) -> float:
        campaign.settle(comm)
        campaign.together()
        comm.all_reduce(tensor, op)
        first = device.mark()
        for _ in range(_ROW):
            comm.all_reduce(tensor, op)
        last = device.mark()
        device.synchronize()
        return campaign.ranks.latest(device.elapsed_us(first, last)) / _ROW

    row_us("sum")
    longest, least = (statistics.median(row_us(op) for _ in range(5)) for op in ("max", "sum"))
    return [f"rank {campaign.rank}: {longest:.0f} us a call, sums {least:.0f}"] if longest > 3.5 * least else []


def _asynchronous(campaign: Campaign, comm: Communicator) -> list[str]:
    wrong: list[str] = []
    for turn in range(_TURNS):
        started = []
        for count in (campaign.large, SMALL):
            tensor = numbers(campaign, count, turn)
            started.append((comm.all_reduce(tensor, async_op=True), tensor, count))
        plain = numbers(campaign, SMALL, turn + 3)
        comm.all_reduce(plain)  # in its order among the others
        for work, tensor, count in started:
            assert work is not None
            work.wait()
            doubled = tensor * 2  # on the current stream, behind the call
            wrong += unequal(campaign, f"turn {turn}, {count}", doubled, total(campaign, count, turn) * 2)
            if isinstance(work, lanecast.DeviceWork):
                work.synchronize()
            if not work.is_completed():
                wrong.append(f"rank {campaign.rank}: a call that is done says that it is not")
        wrong += unequal(campaign, f"turn {turn}, between", plain, total(campaign, SMALL, turn + 3))
    return wrong


def _forgotten(campaign: Campaign, comm: Communicator) -> list[str]:
    """Tensors dropped while a call still uses them: their memory must not become another's."""
    import torch

    others = []
    for turn in range(_TURNS):
        comm.all_reduce(numbers(campaign, campaign.large, turn), async_op=True)
        others.append(torch.full((campaign.large,), float(turn), device=campaign.ranks.device.device))
    campaign.settle(comm)
    last = numbers(campaign, SMALL, 5)
    comm.all_reduce(last)
    wrong = unequal(campaign, "the call after", last, total(campaign, SMALL, 5))
    for turn, other in enumerate(others):
        wrong += unequal(campaign, f"another's memory, turn {turn}", other, torch.full_like(other, float(turn)))
    return wrong
