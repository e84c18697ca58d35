# SPDX-License-Identifier: Apache-2.0
"""Every collective with every type, operator and kind of size, out of and in place, even and uneven, on any address."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, product

import numpy as np

import lanecast
from campaign import Campaign
from collective_cases import DTYPES, Case, even, ops_of
from device_call import DeviceCall
from lanecast import _core
from lanecast.bench.cases import REDUCING
from lanecast.bench.cases import Case as LargeCase
from lanecast.bench.memory import TorchMemory
from lanecast.bench.payload import Payload
from lanecast.communicator import Communicator
from lanecast.dtypes import torch_dtype

ALGORITHMS = ("", "peer_kernel", "peer_two_shot", "copy_engine")
WITH_CHAIN = (*ALGORITHMS, "peer_chain")
OF_STAND_IN = ("", "peer_two_shot")  # what is chosen there for its sizes is the kernel
COUNTS = (0, 1, 3, 7, 1000, 4099)
LARGE = ((1 << 20) + 3, 3 << 20)  # elements of each part
LARGE_OF_STAND_IN = ((1 << 12) + 3,)
LARGE_TYPES = (("float32", "sum"), ("bfloat16", "sum"), ("int8", "max"), ("float64", "avg"))
# Such vectors go by the copy engines of multiprocessors, where those can: by type, operator and elements.
LONG_SUMS = (
    ("float32", "sum", (33 << 20) + 3), ("bfloat16", "avg", (66 << 20) + 5), ("float16", "sum", 80 << 20),
    ("float32", "max", 33 << 20), ("int32", "sum", (33 << 20) + 1),
)  # fmt: skip
_IN_PLACE_ONLY = ("all_reduce", "broadcast", "reduce")  # as the package offers them
_UNEVEN = ("all_gather", "reduce_scatter", "gather", "scatter", "all_to_all")
_BACK_TO_BACK = 16


def small(kind: str, dtype: str, size: int) -> Iterator[tuple[Case, int]]:
    """Cases, and by how many elements their buffers begin past an aligned address."""
    turn = count()
    for op in ops_of(dtype) if kind in REDUCING else ("sum",):
        for elements in COUNTS:
            chained = kind == "broadcast" or (kind == "reduce" and op != "avg")
            for algorithm in WITH_CHAIN if chained else ALGORITHMS:
                k = next(turn)
                uneven = kind in _UNEVEN and k % 3 == 2
                counts = even(kind, elements, size)
                if uneven:
                    counts = tuple(max(0, elements + (part * 5) % 7 - 3) for part in range(len(counts)))
                in_place = kind in _IN_PLACE_ONLY or (kind != "all_to_all" and k % 2 == 1)
                yield Case(
                    kind, counts, algorithm, dtype, op, in_place, root=k % size,
                    own_counts=uneven and kind == "all_to_all",
                ), (k // 2) % 2  # fmt: skip


def run_small(campaign: Campaign) -> None:
    algorithms = WITH_CHAIN if campaign.on_gpu else OF_STAND_IN
    for kind in _core.KINDS:
        for dtype in DTYPES:
            cases = [each for each in small(kind, dtype, campaign.size) if each[0].algorithm in algorithms]
            # More ranks take longer to foresee, and tell less that is new.
            step = max(1, campaign.size // 2)

            def body(comm: Communicator, cases: list[tuple[Case, int]] = cases[::step]) -> list[str]:
                wrong: list[str] = []
                for first in range(0, len(cases), _BACK_TO_BACK):
                    wrong += _back_to_back(campaign, comm, cases[first : first + _BACK_TO_BACK])
                return wrong

            campaign.check(f"{kind} {dtype}", body)


def run_codes(campaign: Campaign) -> None:
    """Sums of every code of a narrow type with others, NaN and infinities too: the bits of the CPU's kernels."""
    for dtype, op in product(("float16", "bfloat16"), ("sum", "avg")):

        def body(comm: Communicator, dtype: str = dtype, op: str = op) -> list[str]:
            return _sums_of_codes(campaign, comm, dtype, op)

        campaign.check(f"codes {dtype} {op}", body)


def _sums_of_codes(campaign: Campaign, comm: Communicator, dtype: str, op: str) -> list[str]:
    import torch

    turns = 1 << 9 if campaign.on_gpu else 1  # long enough for copy engines of multiprocessors where those are few
    brought = [(np.arange(1 << 16) * (2 * q + 1) + 977 * q).astype(np.uint16) for q in range(comm.size)]
    expected = np.empty_like(brought[0])
    sources = [codes.view(np.uint8) for codes in brought]
    divisor, overrange = (float(comm.size), -1) if op == "avg" else (1.0, 0)  # -1: all are added at once
    _core.reduce(dtype, op, expected.view(np.uint8), sources, expected.size, divisor, "", overrange)
    mine = torch.from_numpy(brought[comm.rank].view(np.int16)).to(campaign.ranks.device.device)
    wrong = []
    for algorithm in campaign.algorithms(*ALGORITHMS[1:]) if campaign.on_gpu else OF_STAND_IN:
        tensor = mine.repeat(turns).view(torch_dtype(dtype))
        comm.all_reduce(tensor, op=op, algorithm=algorithm)
        campaign.settle(comm)
        found = tensor.view(torch.int16).cpu().numpy().view(np.uint16).reshape(turns, -1)
        if differ := int((found != expected).sum()):
            wrong.append(f"rank {comm.rank}: {dtype} {op} by {algorithm or 'choice'}: {differ} wrong")
    return wrong


def _back_to_back(campaign: Campaign, comm: Communicator, cases: list[tuple[Case, int]]) -> list[str]:
    """All of them without waiting in between."""
    calls = [DeviceCall(comm, case, campaign.ranks.device.device, shift) for case, shift in cases]
    started, wrong = [], []
    for call in calls:
        try:
            call.start()
            started.append(call)
        except lanecast.UsageError as error:
            wrong += left_out(campaign, call.case.kind, call.case.algorithm, error)
    campaign.settle(comm)
    return wrong + [line for call in started for line in call.finish()]


def left_out(campaign: Campaign, kind: str, algorithm: str, error: lanecast.UsageError) -> list[str]:
    """A pinned algorithm need not offer every collective, and says so; what is chosen has to run all."""
    if not algorithm or "algorithm" not in str(error):
        return [f"rank {campaign.rank}: {kind} by {algorithm or 'choice'}: {error}"]
    name = f"{kind} by {algorithm}: {error}"
    campaign.left_out[name] = campaign.left_out.get(name, 0) + 1
    return []


def run_large(campaign: Campaign) -> None:
    import torch

    device = campaign.ranks.device.device
    room = 2 * (max(LARGE) + 64) * 8 * campaign.size
    arena = torch.empty(room, dtype=torch.uint8, device=device)
    for kind in _core.KINDS:
        for dtype, op in LARGE_TYPES:

            def body(comm: Communicator, kind: str = kind, dtype: str = dtype, op: str = op) -> list[str]:
                wrong = []
                for elements in LARGE if campaign.on_gpu else LARGE_OF_STAND_IN:
                    for algorithm in ALGORITHMS if campaign.on_gpu else OF_STAND_IN:
                        for in_place in (False, True) if kind not in (*_IN_PLACE_ONLY, "all_to_all") else (True,):
                            case = LargeCase(kind, elements, dtype, op, in_place, comm.rank, comm.size)
                            wrong += _one_large(campaign, comm, case, (algorithm, arena))
                return wrong

            campaign.check(f"large {kind} {dtype}", body)


def run_long_sums(campaign: Campaign) -> None:
    """On the last rank also in memory that does not suit copy engines, so that it moves its pieces by threads."""
    import torch

    most = max(elements for _, _, elements in LONG_SUMS)
    arena = torch.empty(2 * (most + 64) * 4, dtype=torch.uint8, device=campaign.ranks.device.device)
    for dtype, op, elements in LONG_SUMS:

        def body(comm: Communicator, dtype: str = dtype, op: str = op, elements: int = elements) -> list[str]:
            case = LargeCase("all_reduce", elements, dtype, op, True, comm.rank, comm.size)
            is_last = comm.rank == comm.size - 1
            places = (arena, arena[4 * is_last :])
            return [line for place in places for line in _one_large(campaign, comm, case, ("peer_two_shot", place))]

        campaign.check(f"long {dtype} {op}", body)


def _one_large(campaign: Campaign, comm: Communicator, case: LargeCase, how: tuple[str, object]) -> list[str]:
    from lanecast.bench.backends import lanecast_call

    algorithm, arena = how
    payload = Payload(case, TorchMemory(arena))
    payload.reset()
    try:
        lanecast_call(comm, payload, algorithm)()
    except lanecast.UsageError as error:
        return left_out(campaign, case.collective, algorithm, error)
    campaign.settle(comm)
    wrong = payload.wrong(payload.output)
    campaign.together()  # the next case overwrites the buffers
    return [f"rank {comm.rank}: {case} by {algorithm or 'choice'}: {wrong} wrong"] if wrong else []
