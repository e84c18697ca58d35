# SPDX-License-Identifier: Apache-2.0
"""What a small blocking call of torch.distributed costs, Lanecast beside gloo in the same processes, in turns.

    OMP_NUM_THREADS=1 torchrun --nproc-per-node 2 bench/small_torch_calls.py

Each round holds a few calls of each backend, so that what disturbs the machine meets both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

BACKENDS = ("lanecast", "gloo")
SIZES = (8, 1024, 65536)  # bytes
ROUNDS, CALLS, WARM_UP = 15, 60, 5


def call_s(call: Callable[[], object]) -> float:
    """Mean of CALLS calls."""
    for _ in range(WARM_UP):
        call()
    begin = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - begin) / CALLS


def compare(what: str, calls: dict[str, Callable[[], object]]) -> None:
    """Print median and least of the rounds, in microseconds."""
    rounds = [{backend: call_s(call) for backend, call in calls.items()} for _ in range(ROUNDS)]
    if dist.get_rank() > 0:
        return
    for backend in calls:
        times_us = [1e6 * each[backend] for each in rounds]
        print(f"{what:>18}  {backend:<9} median {statistics.median(times_us):7.1f} us  least {min(times_us):7.1f} us")


def main() -> None:
    """Measure all calls on this job's ranks."""
    dist.init_process_group("gloo")
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}

    def all_reduce(tensor: torch.Tensor, group: dist.ProcessGroup) -> Callable[[], object]:
        return lambda: dist.all_reduce(tensor, dist.ReduceOp.MAX, group=group)  # MAX: the values stay

    def barrier(group: dist.ProcessGroup) -> Callable[[], object]:
        return lambda: dist.barrier(group=group)

    for size in SIZES:
        tensor = torch.ones(size // 4)
        compare(f"all_reduce {size} B", {backend: all_reduce(tensor, group) for backend, group in groups.items()})
    compare("barrier", {backend: barrier(group) for backend, group in groups.items()})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
