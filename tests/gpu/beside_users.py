# SPDX-License-Identifier: Apache-2.0
"""One rank, a host of its own: python beside_users.py FOLDER [shared]. What a program does for the first time while a
call of its GPU waits for the other host neither stands still nor waits for longer than the call."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
if "LANECAST_GPU_NICS" not in os.environ:  # which makes hosts by itself
    os.environ["LANECAST_HOST"] = f"host{os.environ['RANK']}"  # before a communicator is made
os.environ.setdefault("CUDA_MODULE_LOADING", "LAZY")
os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # needs a fabric that not every machine lends

from campaign import TIMEOUT_S, Campaign
from lanecast.bench.gpu_ranks import GpuRanks
from lanecast.communicator import Communicator

ELEMENTS = (1000, 8 << 20)  # messages that lie on the host, and some that may lie on the GPU
_BUSY_CYCLES = 2_000_000_000  # of the GPU that is late, about a second
# Each is launched once, and compiled or loaded then.
_KERNELS = ("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_i0", "modified_bessel_i1")


def run(campaign: Campaign) -> None:
    kernels = iter(_KERNELS)
    acts: dict[str, Callable[[], Any]] = {
        "nothing": lambda: None,
        "a kernel that loads": lambda: _launch(next(kernels)),
        "memory taken": _take_memory,
        "memory freed": _free_memory,
        "a stream": _make_stream,
        "a capture": _capture,
        "NCCL": lambda: _by_nccl(campaign),  # the first time makes its communicator, the second launches its kernel
    }
    for name, act in acts.items():
        for elements in ELEMENTS:
            campaign.check(
                f"{name} beside {elements} elements",
                lambda comm, act=act, elements=elements: _beside(campaign, comm, act, elements),  # type: ignore[misc]
            )
    campaign.check("where messages lie", _where)


def _where(comm: Communicator) -> list[str]:
    print(f"rank {comm.rank}: {comm.gpu_messages} messages over {comm.transports}", flush=True)
    return []


def _beside(campaign: Campaign, comm: Communicator, act: Callable[[], Any], elements: int) -> list[str]:
    """Rank 0 makes the call when its GPU has long work before it: the other GPU's kernels wait for it meanwhile."""
    import torch

    x = torch.full((elements,), float(comm.rank + 1), device=campaign.ranks.device.device)
    comm.all_reduce(x)  # whatever that does for the first time
    campaign.settle(comm)
    x.fill_(comm.rank + 1)
    campaign.settle(comm)
    campaign.together()
    if comm.rank == 0:
        torch.cuda._sleep(_BUSY_CYCLES)
    comm.all_reduce(x)
    begun = time.monotonic()
    act()
    took = time.monotonic() - begun
    campaign.settle(comm)
    sums = torch.unique(x).tolist()
    expected = comm.size * (comm.size + 1) / 2
    wrong = [] if sums == [expected] else [f"rank {comm.rank}: {sums[:4]} instead of {expected}"]
    if took > TIMEOUT_S:
        wrong.append(f"rank {comm.rank}: it took {took:.1f} s")
    return wrong


def _launch(name: str) -> None:
    import torch

    getattr(torch.special, name)(torch.ones(4, device="cuda"))


def _take_memory() -> None:
    import torch

    torch.empty(300 << 20, dtype=torch.uint8, device="cuda")  # more than torch has at hand


def _free_memory() -> None:
    import torch

    torch.cuda.empty_cache()


def _make_stream() -> None:
    driver = ctypes.CDLL("libcuda.so.1")
    stream = ctypes.c_void_p()
    assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
    assert driver.cuStreamDestroy_v2(stream) == 0


def _capture() -> None:
    import torch

    graph = torch.cuda.CUDAGraph()
    x = torch.ones(8, device="cuda")
    with torch.cuda.graph(graph):
        y = x + 1
    graph.replay()
    assert y.sum().item() == 16


def _by_nccl(campaign: Campaign) -> None:
    import torch
    from torch import distributed

    group = campaign.ranks.group()
    distributed.all_reduce(torch.ones(8, device="cuda"), group=group)


def main(folder: Path, *, shared: bool) -> None:
    ranks = GpuRanks(shared_gpus=shared)
    campaign = Campaign(ranks)
    run(campaign)
    campaign.write(folder)
    campaign.together()
    ranks.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), shared="shared" in sys.argv[2:])
