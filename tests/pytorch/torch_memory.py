# SPDX-License-Identifier: Apache-2.0
"""Memory that a group hands out, whose collectives copy nothing: the functions that the ranks of test_torch_on_gpu.py
run, on GPUs, or where torch has no CUDA on devices that pretend."""

import os
import random
from typing import Any

import pytest
import torch
import torch.distributed as dist

import lanecast.torch
from gpu_or_pretence import Held, own_gpu, there, use_own_gpu
from torch_calls import fold, me, ranks, same, size, value

# Elements of a message that is worth an offer: on a GPU that nobody has measured, or on one that somebody has.
COUNT = ((512 << 10) if "LANECAST_CUDA_LIBRARY" in os.environ else (16 << 20)) // 4 + 5
SETTLED = 4  # calls after which all ranks have mapped what one has brought into a call before


def backend_of(group: Any = None) -> Any:
    return (group or dist.group.WORLD)._get_backend(torch.device("cuda"))


def taken(count: int, group: Any = None, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    use_own_gpu()
    tensor = backend_of(group).allocate_tensor(count, dtype=dtype, device=torch.device("cuda", own_gpu()))
    assert (tensor.numel(), tensor.dtype, tensor.is_cuda) == (count, dtype, True)
    return tensor


def all_reduced(x: torch.Tensor, salt: int = 0, group: Any = None) -> None:
    x.copy_(there(value(me(), (x.numel(),), salt=salt)))
    dist.all_reduce(x, group=group)
    members = dist.get_process_group_ranks(group) if group else ranks()
    same(x.cpu(), fold("SUM", [value(r, (x.numel(),), salt=salt) for r in members]))


def settle(x: torch.Tensor, group: Any = None) -> None:
    for _ in range(SETTLED):
        all_reduced(x, group=group)
        dist.barrier(group)


def check_calls_copy_nothing() -> None:
    group = dist.new_group()
    backend = backend_of(group)
    cuda = torch.device("cuda", own_gpu())
    assert not backend.supports_tensor_alloc(cuda)  # before its first call
    assert not backend.allocate_tensor(3, dtype=torch.int32, device=torch.device("cpu")).is_cuda
    small = there(torch.ones(3))
    dist.all_reduce(small, group=group)
    assert backend.supports_tensor_alloc(cuda)
    whole, other, part = taken(size() * COUNT, group), taken(size() * COUNT, group), taken(COUNT, group)
    for x in (whole, other, part):
        settle(x, group)
    expected = backend.calls_without_copies
    for salt, source in enumerate((whole[me() * COUNT : (me() + 1) * COUNT], part)):
        source.copy_(there(value(me(), (COUNT,), salt=salt)))
        dist.all_gather_into_tensor(whole, source, group=group)
        same(whole.cpu(), torch.cat([value(r, (COUNT,), salt=salt) for r in ranks()]))
    whole.copy_(there(value(me(), (size() * COUNT,))))
    dist.reduce_scatter_tensor(part, whole, group=group)
    total = fold("SUM", [value(r, (size() * COUNT,)) for r in ranks()])
    same(part.cpu(), total[me() * COUNT : (me() + 1) * COUNT])
    all_reduced(other, 5, group)
    found = backend.calls_without_copies - expected
    all_of_them = 4 if size() > 1 else 0
    # On two H200 one of the four copies. Stand-ins have not that choice.
    assert found == all_of_them or (size() > 1 and torch.version.cuda and found == 3), found
    half = taken(2 * COUNT, group, torch.bfloat16)
    half.fill_(me() + 1)
    dist.all_reduce(half, dist.ReduceOp.MAX, group=group)
    assert half.cpu().eq(size()).all()
    assert taken(0, group).numel() == 0
    del whole, other, part, half
    dist.destroy_process_group(group)


def check_ranks_take_and_drop_as_they_like() -> None:
    """Sizes and the order of drops are this rank's own; some calls wait for nobody before their tensors are dropped."""
    all_reduced(there(torch.zeros(3)))
    dice, agreed = random.Random(me()), random.Random(3)
    kept: list[torch.Tensor] = []
    for turn in range(12):
        count = COUNT + 4 * agreed.randrange(3)
        if dice.random() < 0.5:
            kept.append(taken(dice.choice((100, COUNT, 3 * COUNT))))
        if kept and dice.random() < 0.5:
            kept.pop(dice.randrange(len(kept)))
        x = there(torch.zeros(count)) if dice.random() < 0.2 else taken(count)
        x.copy_(there(value(me(), (count,), salt=turn)))
        nonsense = there(torch.full((count,), -1.0))
        held = Held() if turn % 5 == 4 else None
        work = dist.all_reduce(x, async_op=True)
        if turn % 2:
            work.wait()
            got = x.clone()
            del x, work
        else:
            del x, work  # as ProcessGroupNCCL has it: nobody gets the memory before the call is done
            got = None
        taken(count).copy_(nonsense)  # the memory of the one before, perhaps
        if held:
            held.open()
        if got is not None:
            same(got.cpu(), fold("SUM", [value(r, (count,), salt=turn) for r in ranks()]))
    assert backend_of().calls_without_copies > 0 or size() == 1


def check_a_tensor_outlives_its_group() -> None:
    group, other = dist.new_group(), dist.new_group()
    small = there(torch.ones(3))
    for each in (group, other):
        dist.all_reduce(small, group=each)
    x = taken(COUNT, group)
    settle(x, group)
    dist.destroy_process_group(group)
    settle(x, other)
    assert backend_of(other).calls_without_copies > 0 or size() == 1
    del x
    all_reduced(there(torch.zeros(COUNT)), group=other)
    dist.destroy_process_group(other)


def check_among_several_hosts() -> None:
    """Their groups hand out plain memory, and what is of another group's pool goes like any other."""
    all_reduced(there(torch.zeros(3)))
    ours = taken(COUNT)
    os.environ["LANECAST_HOST"] = f"host {me()}"
    try:
        group = dist.new_group()
    finally:
        del os.environ["LANECAST_HOST"]
    all_reduced(there(torch.zeros(3)), group=group)
    backend = backend_of(group)
    assert backend.supports_tensor_alloc(ours.device) == (size() == 1)
    for x in (taken(COUNT, group), ours):
        settle(x, group)
    assert backend.calls_without_copies == 0
    dist.destroy_process_group(group)


def check_parts_of_a_split_group() -> None:
    all_reduced(there(torch.zeros(3)))
    part = dist.group.WORLD.split_group(list(ranks()), group_name="all of them")
    backend = part._get_backend(torch.device("cuda"))
    part.allreduce([there(torch.zeros(3))]).wait()
    x = backend.allocate_tensor(COUNT, dtype=torch.float32, device=torch.device("cuda", own_gpu()))
    for salt in range(SETTLED):
        x.copy_(there(value(me(), (COUNT,), salt=salt)))
        part.allreduce([x]).wait()
        same(x.cpu(), fold("SUM", [value(r, (COUNT,), salt=salt) for r in ranks()]))
        dist.barrier()
    assert backend.calls_without_copies > 0 or size() == 1
    part.shutdown()
    same(x.cpu(), fold("SUM", [value(r, (COUNT,), salt=SETTLED - 1) for r in ranks()]))


def check_tensors_made_within_a_pool() -> None:
    all_reduced(there(torch.zeros(3)))
    pool = lanecast.torch.mem_pool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.zeros(COUNT, device=torch.device("cuda", own_gpu()))
    before = backend_of().calls_without_copies
    settle(x)
    assert backend_of().calls_without_copies > before or size() == 1
    del pool
    all_reduced(x, 2)


class _Elsewhere:
    """As a pool whose memory is not the library's."""

    def snapshot(self, *, include_traces: bool) -> list[dict[str, int]]:
        assert not include_traces
        return [{"address": 4096}]


def check_a_pool_of_the_groups_allocator_is_registered() -> None:
    """What is registered copies nothing once the peers have mapped it; nobody has to, and freeing ends it."""
    all_reduced(there(torch.zeros(3)))
    backend = backend_of()
    pool = torch.cuda.MemPool(backend.mem_allocator)
    backend.register_mem_pool(pool)  # has nothing yet
    with torch.cuda.use_mem_pool(pool):
        x = torch.zeros(COUNT, device=torch.device("cuda", own_gpu()))
    backend.register_mem_pool(pool)
    for _ in range(SETTLED):  # the peers map it in their next calls, whatever these are
        all_reduced(there(torch.zeros(COUNT)))
        dist.barrier()
    before = backend.calls_without_copies
    all_reduced(x)
    assert backend.calls_without_copies == before + (size() > 1)
    backend.deregister_mem_pool(pool)
    for call in (backend.register_mem_pool, backend.deregister_mem_pool):
        with pytest.raises(ValueError, match=r"lanecast\.torch\.mem_pool"):
            call(_Elsewhere())
    del pool
    all_reduced(x, 2)
