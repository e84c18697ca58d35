# SPDX-License-Identifier: Apache-2.0
"""NCCL's own collectives by Lanecast's calls: results, order beside our own, and a peer that does not come."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import lanecast
from campaign import Campaign, expected_error
from collective_cases import DTYPES, Case, even, ops_of
from device_call import DeviceCall
from lanecast.bench.backends import lanecast_call
from lanecast.bench.cases import REDUCING
from lanecast.bench.cases import Case as LargeCase
from lanecast.bench.memory import TorchMemory
from lanecast.bench.payload import Payload
from lanecast.communicator import Communicator
from streams import numbers, total, unequal

NATIVE = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
COUNTS = (0, 1, 3, 1000, 4099)
LARGE = ((1 << 20) + 3, 3 << 20)
_IN_PLACE_ONLY = ("all_reduce", "broadcast", "reduce")
_SHORT_S = 3.0


def run(campaign: Campaign) -> None:
    for kind in NATIVE:
        for dtype in DTYPES:
            cases = list(_small(kind, dtype, campaign.size))
            campaign.check(f"nccl {kind} {dtype}", lambda comm, cases=cases: _back_to_back(campaign, comm, cases))  # type: ignore[misc]
        campaign.check(f"large nccl {kind}", lambda comm, kind=kind: _large(campaign, comm, kind))  # type: ignore[misc]
    campaign.check("nccl between our own", lambda comm: _between(campaign, comm))
    campaign.check("nccl that is late", lambda _: _late(campaign))
    campaign.check("nccl afterwards", lambda _: _between(campaign, campaign.another()))


def _small(kind: str, dtype: str, size: int) -> Iterator[tuple[Case, int]]:
    """Cases, and by how many elements their buffers begin past an aligned address."""
    turn = count()
    for op in ops_of(dtype) if kind in REDUCING else ("sum",):
        for elements in COUNTS:
            k = next(turn)
            in_place = kind in _IN_PLACE_ONLY or k % 2 == 1
            counts = even(kind, elements, size)
            yield Case(kind, counts, "nccl", dtype, op, in_place, root=k % size, async_op=k % 4 == 3), (k // 2) % 2


def _back_to_back(campaign: Campaign, comm: Communicator, cases: list[tuple[Case, int]]) -> list[str]:
    """All of them without waiting in between."""
    started = []
    for case, shift in cases:
        call = DeviceCall(comm, case, campaign.ranks.device.device, shift)
        try:
            call.start()
            started.append(call)
        except lanecast.UsageError as error:
            if "algorithm 'nccl'" not in str(error):
                raise
            name = f"nccl {case.kind} {case.dtype} {case.op}"
            campaign.left_out[name] = campaign.left_out.get(name, 0) + 1
    campaign.settle(comm)
    return [line for call in started for line in call.finish()]


def _large(campaign: Campaign, comm: Communicator, kind: str) -> list[str]:
    import torch

    arena = torch.empty(
        2 * (max(LARGE) + 64) * 8 * campaign.size, dtype=torch.uint8, device=campaign.ranks.device.device
    )
    wrong = []
    for dtype, elements in (("float32", LARGE[0]), ("bfloat16", LARGE[1]), ("float64", LARGE[0])):
        case = LargeCase(kind, elements, dtype, "sum", kind in _IN_PLACE_ONLY, comm.rank, comm.size)
        payload = Payload(case, TorchMemory(arena))
        payload.reset()
        lanecast_call(comm, payload, "nccl")()
        campaign.settle(comm)
        if found := payload.wrong(payload.output):
            wrong.append(f"rank {comm.rank}: {case}: {found} wrong")
        campaign.together()  # the next case overwrites the buffers
    return wrong


def _between(campaign: Campaign, comm: Communicator) -> list[str]:
    import torch

    wrong = []
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for turn, elements in enumerate((1000, campaign.large)):
            tensor = numbers(campaign, elements, turn)
            comm.all_reduce(tensor, algorithm="nccl")
            ours = numbers(campaign, elements, turn)
            comm.all_reduce(ours)
            beside = numbers(campaign, elements, turn)
            comm.all_reduce(beside, algorithm="nccl", async_op=True).wait()  # type: ignore[union-attr]
            for name, each in (("nccl", tensor), ("ours", ours), ("beside", beside)):
                wrong += unequal(campaign, name, each, total(campaign, elements, turn))
    campaign.settle(comm)
    return wrong


def _late(campaign: Campaign) -> list[str]:
    """The others give up at their deadline, though only the device waits; NCCL's kernel ends with them."""
    import torch

    comm = campaign.another(timeout_s=_SHORT_S)
    tensor = torch.ones(1000, device=campaign.ranks.device.device)
    comm.all_reduce(tensor, algorithm="nccl")
    campaign.settle(comm)
    if campaign.rank == campaign.size - 1:
        time.sleep(4 * _SHORT_S)
        # The failed communicator refuses the call, or the call hears why the others have given up.
        kinds = (lanecast.TransportError, lanecast.TimeoutError)
        return expected_error(lambda: _call(comm, tensor), kinds, "rank 0 waited")
    comm.all_reduce(tensor, algorithm="nccl")
    begun = time.monotonic()
    torch.cuda.synchronize()  # which raises nothing, and must end
    took = time.monotonic() - begun
    wrong = (
        [] if _SHORT_S / 2 < took < 4 * _SHORT_S else [f"rank {comm.rank}: the device was released after {took:.1f} s"]
    )
    return wrong + expected_error(
        comm.synchronize, (lanecast.TimeoutError, lanecast.TransportError), "NCCL's all_reduce"
    )


def _call(comm: Communicator, tensor: Any) -> None:
    comm.all_reduce(tensor, algorithm="nccl")
    comm.synchronize()
