# SPDX-License-Identifier: Apache-2.0
"""What must end in an error on every rank that it concerns, and never in a hang: wrong calls, and peers that went."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import lanecast
from campaign import Campaign, expected_error
from lanecast.communicator import Communicator
from streams import SMALL, numbers, total, unequal

_SOON_S = 30.0  # far below the deadline of the communicator that must not need it
_ONE_NOTICES = ("roots", "collectives")
_COMMUNICATORS = 200
_LEAK_BYTES = 64 << 20
_LEFT_BYTES = 16 << 20  # less than one communicator takes


def run(campaign: Campaign) -> None:
    campaign.check("bad inputs", lambda comm: _bad_inputs(campaign, comm))
    if campaign.size > 1:
        for name, call in _mismatches(campaign).items():
            campaign.check(f"mismatch of {name}", lambda _, name=name, call=call: _mismatched(campaign, name, call))  # type: ignore[misc]
        campaign.check("a peer that does not come", lambda _: _late(campaign))
        campaign.check("a peer that is stopped", lambda _: _stopped(campaign))
        if campaign.on_gpu:
            campaign.check("one GPU for two ranks", lambda _: _shared(campaign))
    campaign.check("a new communicator afterwards", lambda _: _works(campaign, campaign.another()))
    campaign.check("communicators come and go", lambda _: _come_and_go(campaign))


def _works(campaign: Campaign, comm: Communicator) -> list[str]:
    tensor = numbers(campaign, SMALL, 1)
    comm.all_reduce(tensor)
    campaign.settle(comm)
    return unequal(campaign, "a call afterwards", tensor, total(campaign, SMALL, 1))


class _At:
    """Elements of float32 at an address, whatever lies there."""

    def __init__(self, address: int, count: int = 4) -> None:
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (count,), "typestr": "<f4", "version": 3}


def _bad_inputs(campaign: Campaign, comm: Communicator) -> list[str]:
    """Each is refused at the call, and the communicator goes on."""
    import torch

    device = campaign.ranks.device.device
    own, whole = torch.ones(4, device=device), torch.ones(4 * campaign.size, device=device)
    calls: dict[str, tuple[Callable[[], object], str]] = {
        "not contiguous": (lambda: comm.all_reduce(whole[::2]), "contiguous"),
        "bool": (lambda: comm.all_reduce(own > 0), "dtype bool"),
        "complex": (lambda: comm.all_reduce(own.to(torch.complex64)), "dtype complex64"),
        "host input": (lambda: comm.all_gather_into_tensor(whole, own.cpu()), "on the CPU"),
        "host output": (lambda: comm.all_gather_into_tensor(whole.cpu(), own), "on the CPU"),
        "sizes": (lambda: comm.all_gather_into_tensor(whole, whole), "elements"),
        "operator": (lambda: comm.all_reduce(own, "band"), "band"),
        "algorithm": (lambda: comm.all_reduce(own, algorithm="no_such"), "no_such"),
    }
    host = torch.ones(4)
    if campaign.on_gpu:
        calls["a host pointer"] = (lambda: comm.all_reduce(_At(host.data_ptr())), "does not lie on GPU")
        calls["a pointer to nothing"] = (lambda: comm.all_reduce(_At(0x1000)), "does not lie on GPU")
        calls["an element in two parts"] = (lambda: comm.all_reduce(_At(whole.data_ptr() + 1, 2)), "multiple of the 4")
    others = torch.cuda.device_count() if campaign.on_gpu else 1
    if others > 1:
        other = torch.ones(4, device=torch.device("cuda", (device.index + 1) % others))
        calls["another GPU's pointer"] = (lambda: comm.all_reduce(_At(other.data_ptr())), "does not lie on GPU")
        calls["another GPU"] = (lambda: comm.all_reduce(other), "GPU")
        calls["two GPUs"] = (lambda: comm.all_gather_into_tensor(whole, other), "one device")
    wrong = _works(campaign, comm)
    for name, (call, word) in calls.items():
        found = expected_error(call, lanecast.UsageError, word)
        wrong += [f"rank {campaign.rank}: {name}: {line}" for line in found]
    return wrong + _works(campaign, comm)


def _mismatches(campaign: Campaign) -> dict[str, Callable[[Communicator], object]]:
    """What the last rank calls otherwise."""
    import torch

    odd = campaign.rank == campaign.size - 1
    device = campaign.ranks.device.device
    return {
        "counts": lambda comm: comm.all_reduce(torch.ones(200 if odd else 100, device=device)),
        "large counts": lambda comm: comm.all_reduce(torch.ones((8 << 20) + odd, device=device)),
        "types": lambda comm: comm.all_reduce(torch.ones(100, device=device, dtype=torch.int32 if odd else None)),
        "operators": lambda comm: comm.all_reduce(torch.ones(100, device=device), "max" if odd else "sum"),
        "roots": lambda comm: comm.broadcast(torch.ones(100, device=device), int(odd)),
        "collectives": lambda comm: (
            comm.all_reduce(torch.ones(100, device=device))
            if odd
            else comm.broadcast(torch.ones(100, device=device), 0)
        ),
    }


def _mismatched(campaign: Campaign, name: str, call: Callable[[Communicator], object]) -> list[str]:
    """Whoever gets from all ranks notices; of a broadcast's two ends one may be done before."""
    comm = campaign.another(timeout_s=120.0)
    wrong = _works(campaign, comm)
    campaign.together()
    start = time.monotonic()

    def fails() -> None:
        call(comm)
        campaign.settle(comm)

    missing = expected_error(fails, lanecast.Error)
    noticed = campaign.ranks.total(int(not missing))
    if missing and (name not in _ONE_NOTICES or not noticed):
        wrong += missing
    if (took := time.monotonic() - start) > _SOON_S:
        wrong.append(f"rank {campaign.rank}: told after {took:.0f} s")
    return wrong if missing else wrong + _stays_failed(campaign, comm)


def _stays_failed(campaign: Campaign, comm: Communicator) -> list[str]:
    """Each further call raises."""

    def again() -> None:
        comm.all_reduce(numbers(campaign, SMALL, 0))
        campaign.settle(comm)

    return [f"rank {campaign.rank}: afterwards: {line}" for line in expected_error(again, lanecast.Error)]


def _late(campaign: Campaign) -> list[str]:
    comm = campaign.another(timeout_s=2.0)
    wrong = _works(campaign, comm)
    absent = campaign.size - 1
    if campaign.rank != absent:

        def fails() -> None:
            comm.all_reduce(numbers(campaign, SMALL, 0))
            campaign.settle(comm)

        wrong += expected_error(fails, lanecast.TimeoutError, f"rank {absent}")
        wrong += _stays_failed(campaign, comm)
    campaign.together()
    return wrong


def _stopped(campaign: Campaign) -> list[str]:
    """It is woken by those who have given it up."""
    pids = np.zeros(campaign.size, np.int64)
    campaign.ranks.control.all_gather_into_tensor(pids, np.array([os.getpid()]))
    comm = campaign.another(timeout_s=3.0)
    wrong = _works(campaign, comm)
    campaign.together()
    absent = campaign.size - 1
    if campaign.rank == absent:
        os.kill(os.getpid(), signal.SIGSTOP)
    else:

        def fails() -> None:
            comm.all_reduce(numbers(campaign, SMALL, 0))
            campaign.settle(comm)

        wrong += expected_error(fails, (lanecast.TimeoutError, lanecast.TransportError), f"rank {absent}")
        os.kill(int(pids[absent]), signal.SIGCONT)
    campaign.together()
    return wrong


def _shared(campaign: Campaign) -> list[str]:
    """Refused without leave."""
    wrong = expected_error(lambda: campaign.another(device=0, allow_shared_gpu=False), lanecast.UsageError, "same GPU")
    return [f"rank {campaign.rank}: {line}" for line in wrong]


def _come_and_go(campaign: Campaign) -> list[str]:
    """Neither the device's memory nor files stay behind."""
    wrong: list[str] = []
    before = (0, 0)
    for turn in range(_COMMUNICATORS):
        wrong += _works(campaign, campaign.another())
        gc.collect()
        campaign.together()
        if turn == 10:
            before = _taken(campaign)
    campaign.together()
    after = _taken(campaign)
    if after[0] - before[0] > _LEAK_BYTES:
        wrong.append(f"rank {campaign.rank}: {after[0] - before[0]} bytes of the device's memory are gone")
    if after[1] - before[1] > 16:
        wrong.append(f"rank {campaign.rank}: {after[1] - before[1]} files are still open")
    return wrong


def _taken(campaign: Campaign) -> tuple[int, int]:
    import torch

    memory = 0
    if campaign.on_gpu:
        free, size = torch.cuda.mem_get_info()
        memory = size - free
    return memory, len(list(Path("/proc/self/fd").iterdir()))


def killed(campaign: Campaign, folder: Path) -> None:
    """The last rank dies while the others call; each of them says so, and has its memory back. No host can wait for all
    ranks any more."""
    wrong = _works(campaign, campaign.comm)
    before = _taken(campaign)[0]
    wrong += _loses_a_peer(campaign)
    gc.collect()
    left = _taken(campaign)[0] - before
    if left > _LEFT_BYTES:
        wrong.append(f"rank {campaign.rank}: {left} bytes of the device's memory are gone with the peer")
    campaign.wrong |= {"a peer that is killed": wrong} if wrong else {}
    campaign.done["a peer that is killed"] = 0.0
    campaign.write(folder)


def _loses_a_peer(campaign: Campaign) -> list[str]:
    comm = campaign.another(timeout_s=5.0)
    wrong = _works(campaign, comm)
    campaign.together()
    if campaign.rank == campaign.size - 1:
        os.kill(os.getpid(), signal.SIGKILL)

    def fails() -> None:
        for turn in range(1000):
            comm.all_reduce(numbers(campaign, SMALL, turn))
            campaign.settle(comm)

    wrong += expected_error(fails, (lanecast.TimeoutError, lanecast.TransportError), f"rank {campaign.size - 1}")
    return wrong + _stays_failed(campaign, comm)
