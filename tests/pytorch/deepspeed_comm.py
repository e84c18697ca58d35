# SPDX-License-Identifier: Apache-2.0
"""What DeepSpeed's tests/unit/comm check, which its wheel does not bring, and the rest of deepspeed.comm likewise.

deepspeed_comm.py BACKEND FILE, on each rank: rank 0 writes to FILE which checks have passed and which have failed. Left
out are inference_all_reduce, an operator of DeepSpeed's own on CPUs that asks no backend, and all_gather_coalesced,
which waits for works that torch 2.13 gives to no one.
"""

import json
import sys
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

import deepspeed
import torch
from deepspeed import comm as dist


def me() -> int:
    return int(dist.get_rank())


def size() -> int:
    return int(dist.get_world_size())


def mine(*shape: int, rank: int | None = None) -> torch.Tensor:
    return torch.full(shape, 1.0 + (me() if rank is None else rank))


def total(*shape: int) -> torch.Tensor:
    return torch.full(shape, size() * (size() + 1) / 2)


def everyone(count: int) -> torch.Tensor:
    return torch.cat([mine(count, rank=rank) for rank in range(size())])


def same(got: torch.Tensor, wanted: torch.Tensor) -> None:
    assert torch.equal(got, wanted), f"{got} is not {wanted}"


def check_initialized_again(backend: str) -> None:
    deepspeed.init_distributed(dist_backend=backend, auto_mpi_discovery=False, dist_init_required=None)
    deepspeed.init_distributed(dist_backend=backend, auto_mpi_discovery=False, dist_init_required=False)
    assert dist.is_initialized()
    assert (me(), size()) == (torch.distributed.get_rank(), torch.distributed.get_world_size())


def check_all_reduce() -> None:
    x = mine(1, 3)
    dist.all_reduce(x)
    same(x, total(1, 3))
    dist.all_reduce(x, op=dist.ReduceOp.MAX, async_op=True).wait()
    same(x, total(1, 3))


def check_all_reduce_coalesced() -> None:
    tensors = [mine(3), mine(2, 5)]
    work = dist.all_reduce_coalesced(tensors, async_op=True)
    work.wait()
    same(tensors[0], total(3))
    same(tensors[1], total(2, 5))


def check_broadcast() -> None:
    x = mine(7)
    dist.broadcast(x, src=size() - 1)
    same(x, mine(7, rank=size() - 1))


def check_reduce() -> None:
    x = mine(7)
    dist.reduce(x, dst=0)
    if me() == 0:
        same(x, total(7))


def check_all_gather() -> None:
    found = [torch.zeros(3) for _ in range(size())]
    dist.all_gather(found, mine(3))
    same(torch.cat(found), everyone(3))


def check_all_gather_into_tensor() -> None:
    found = torch.zeros(3 * size())
    dist.all_gather_into_tensor(found, mine(3))
    same(found, everyone(3))


def check_allgather_fn() -> None:
    found = torch.zeros(3 * size())
    dist.allgather_fn(found, mine(3), async_op=True).wait()
    same(found, everyone(3))


def check_reduce_scatter() -> None:
    share = torch.zeros(3)
    dist.reduce_scatter(share, [mine(3) for _ in range(size())])
    same(share, total(3))


def check_reduce_scatter_tensor() -> None:
    share = torch.zeros(3)
    dist.reduce_scatter_tensor(share, mine(3 * size()))
    same(share, total(3))


def check_reduce_scatter_fn() -> None:
    share = torch.zeros(3)
    dist.reduce_scatter_fn(share, mine(3 * size()))
    same(share, total(3))


def check_all_to_all_single() -> None:
    found = torch.zeros(2 * size())
    dist.all_to_all_single(found, mine(2 * size()))
    same(found, everyone(2))


def check_all_to_all() -> None:
    found = [torch.zeros(2) for _ in range(size())]
    dist.all_to_all(found, [mine(2) for _ in range(size())])
    same(torch.cat(found), everyone(2))


def check_gather_and_scatter() -> None:
    found = [torch.zeros(2) for _ in range(size())] if me() == 0 else None
    dist.gather(mine(2), found, dst=0)
    if found:
        same(torch.cat(found), everyone(2))
    share = torch.zeros(2)
    dist.scatter(share, [mine(2, rank=rank) for rank in range(size())] if me() == 0 else None, src=0)
    same(share, mine(2))


def check_messages() -> None:
    x = mine(4) if me() == 0 else torch.zeros(4)
    if me() == 0:
        dist.send(x, 1)
        dist.isend(x, 1).wait()
    elif me() == 1:
        dist.recv(x, 0)
        dist.irecv(x, 0).wait()
        same(x, mine(4, rank=0))


def check_groups_and_barriers() -> None:
    group = dist.new_group(list(range(size())))
    x = mine(3)
    dist.all_reduce(x, group=group)
    same(x, total(3))
    assert dist.get_world_size(group) == size()
    assert dist.get_global_rank(group, 1) == 1
    dist.barrier()
    dist.barrier(group=group)


def check_objects() -> None:
    found: list[Any] = [None] * size()
    dist.all_gather_object(found, f"of {me()}")
    assert found == [f"of {rank}" for rank in range(size())]
    values = [f"of {me()}"]
    dist.broadcast_object_list(values, src=1)
    assert values == ["of 1"]


def main(backend: str, file: str) -> None:
    deepspeed.init_distributed(dist_backend=backend, timeout=timedelta(seconds=60))
    own: dict[str, tuple[Any, ...]] = {"check_initialized_again": (backend,)}
    outcomes: dict[str, list[str]] = {"passed": [], "failed": []}
    for name in [name for name in globals() if name.startswith("check_")]:
        try:
            globals()[name](*own.get(name, ()))
            outcomes["passed"].append(name)
        except Exception:
            traceback.print_exc()
            outcomes["failed"].append(name)
    if me() == 0:
        Path(file).write_text(json.dumps(outcomes))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
