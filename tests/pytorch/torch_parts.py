# SPDX-License-Identifier: Apache-2.0
"""Groups of some of a job's ranks, where variables describe the job: functions that the ranks of test_torch_parts.py
run."""

import os
import tempfile
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import lanecast.torch
from torch_calls import me, size


def sums(group: Any, members: list[int]) -> None:
    """Of few and of many elements, and where there are fewer than ranks."""
    for count in (0, 1, 1000):
        x = torch.full((count,), 1.0 + me())
        dist.all_reduce(x, group=group)
        assert torch.equal(x, torch.full((count,), sum(1.0 + r for r in members)))


def part(members: list[int]) -> None:
    group = dist.new_group(members)
    if me() in members:
        sums(group, members)
        dist.destroy_process_group(group)


def check_parts(*parts: list[int]) -> None:
    for members in parts:
        part(members)
    sums(None, list(range(size())))


def check_mesh(rows: int, columns: int) -> None:
    mesh = init_device_mesh("cpu", (rows, columns), mesh_dim_names=("rows", "columns"))
    row, column = divmod(me(), columns)
    sums(mesh.get_group("columns"), [row * columns + c for c in range(columns)])
    sums(mesh.get_group("rows"), [r * columns + column for r in range(rows)])


def check_split_and_shrunk() -> None:
    """Of a part, and a part of what is left: they know their places in the job."""
    last = size() - 1
    group = dist.new_group()
    half = group.split_group([0, last], timedelta(seconds=60))
    if me() in (0, last):
        assert half is not None
        sums(half, [0, last])
        backend = half._get_backend(torch.device("cpu"))
        assert backend.job == (size(), [0, last])
        if me() == last:
            alone = backend.shrink([0])
            assert (alone.size(), alone.job) == (1, (size(), [last]))
            alone.allreduce([torch.ones(3)]).wait()
    if me() != 1:
        left = dist.distributed_c10d.shrink_group([1], group)
        sums(left, [r for r in range(size()) if r != 1])
        dist.destroy_process_group(left)
    dist.barrier()


def check_options_of_a_part_alone(topology: str) -> None:
    """What the program gives describes the group, and where that is shrunk the group that it was given for."""
    options = lanecast.torch.Options()
    options.topology, options.algorithm = topology, "hierarchical(ring,direct)"
    members = [0, 1, 2, 3]
    group = dist.new_group(members, pg_options=options)
    if me() not in members:
        return
    sums(group, members)
    if me() < 3:
        left = dist.distributed_c10d.shrink_group([3], group)
        sums(left, [0, 1, 2])
        dist.destroy_process_group(left)
    else:
        dist.destroy_process_group(group)


def said_by_parts(*parts: list[int]) -> list[str]:
    """Lines on standard error of what is left aside."""
    kept = os.dup(2)
    with tempfile.TemporaryFile("w+") as file:
        os.dup2(file.fileno(), 2)
        try:
            check_parts(*parts)
        finally:
            os.dup2(kept, 2)
        file.seek(0)
        return [line for line in file.read().splitlines() if "left aside" in line]
