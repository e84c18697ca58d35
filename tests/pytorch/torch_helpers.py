# SPDX-License-Identifier: Apache-2.0
"""What ranks of test_torch_helpers do: groups whose ranks have helpers."""

import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import lanecast.torch

COUNT = 300_007  # of floats: more than what is never tried
CALLS = 12  # of each size: some for each number of processes, and some by the one that was found


def helpers() -> list[int]:
    """This process's children that help."""
    lists = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
    pids = [int(pid) for each in lists for pid in each]
    return [pid for pid in pids if b"lanecast.helpers" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def is_all(found: torch.Tensor, value: float) -> bool:
    return bool((found == value).all())


def check_calls(group: dist.ProcessGroup | None = None) -> None:
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    total = float(sum(range(size)))
    for _ in range(CALLS):
        vector = torch.full((COUNT,), float(rank))
        dist.all_reduce(vector, group=group)
        assert is_all(vector, total)
        whole = torch.zeros(size * COUNT)
        dist.all_gather_into_tensor(whole, torch.full((COUNT,), float(rank)), group=group)
        assert all(is_all(part, float(each)) for each, part in enumerate(whole.chunk(size)))
        share = torch.zeros(COUNT)
        dist.reduce_scatter_tensor(share, whole, group=group)
        assert is_all(share, float(rank * size))
        vectors = [torch.full((COUNT + turn,), float(rank + turn)) for turn in range(3)]
        works = [dist.all_reduce(each, group=group, async_op=True) for each in vectors]
        for work in reversed(works):
            work.wait()
        assert all(is_all(each, total + size * turn) for turn, each in enumerate(vectors))
        parts = [torch.zeros(3) for _ in range(size)]
        dist.all_gather(parts, torch.full((3,), float(rank)), group=group)  # too short to be shared
        assert [int(part[0]) for part in parts] == list(range(size))


def trained(processes: int) -> list[float]:
    """A model over a group whose ranks have so many processes: what its parameters are after some steps."""
    options = lanecast.torch.Options()
    options.processes_per_gpu, options.allow_shared_cores = processes, True
    group = dist.new_group(backend="lanecast", pg_options=options)
    assert len(helpers()) >= processes - 1
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Linear(700, 700), process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(10 + dist.get_rank())
    for _ in range(12):
        optimizer.zero_grad()
        model(torch.randn(4, 700)).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group(group)
    return [float(parameter.double().sum()) for parameter in model.parameters()]


def check_default_group(expected: int) -> None:
    """By a variable; other groups have helpers where their options say so alone."""
    assert len(helpers()) == expected
    check_calls()
    assert len(helpers()) == expected
    plain = dist.new_group(backend="lanecast")
    assert len(helpers()) == expected
    check_calls(plain)


def check_training() -> None:
    before = helpers()
    by_one, by_three = trained(1), trained(3)
    assert helpers() == before, "helpers end with their group"
    assert by_one == by_three  # of two ranks: one addition has one order


def fails_without_helpers() -> str:
    """Kill those of rank 0, and make calls of a size that has not been tried."""
    if dist.get_rank() == 0:
        for pid in helpers():
            os.kill(pid, signal.SIGKILL)
    try:
        for _ in range(CALLS):
            dist.all_reduce(torch.zeros(4 * COUNT))
    except dist.DistBackendError as error:
        return str(error)
    return "no call has failed"


def refused() -> str:
    options = lanecast.torch.Options()
    options.processes_per_gpu = 60
    try:
        dist.new_group(backend="lanecast", pg_options=options)
    except ValueError as error:
        return str(error)
    return "taken"
