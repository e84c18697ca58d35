# SPDX-License-Identifier: Apache-2.0
"""What each call of torch.distributed has to give: the functions that the ranks of test_torch_calls.py run."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
ODD_TYPES = [torch.bool, torch.complex64, torch.float8_e4m3fn, torch.uint16, torch.complex128]
SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (7, 3), (1000,)]
ELEMENTWISE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum, "SUM": torch.add,
    "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor,
}  # fmt: skip


def me() -> int:
    return int(dist.get_rank())


def size() -> int:
    return int(dist.get_world_size())


def ranks() -> range:
    return range(size())


def value(rank: int, shape: tuple[int, ...], dtype: torch.dtype = torch.float32, salt: int = 0) -> torch.Tensor:
    """Unlike any other rank's, and in each element; small, so that sums and products of a few ranks are exact."""
    count = int(torch.tensor(shape, dtype=torch.int64).prod()) if shape else 1
    numbers = (torch.arange(count) + 3 * rank + salt) % 4 + (rank % 2)
    return numbers.to(dtype).reshape(shape)


def same(got: torch.Tensor, expected: torch.Tensor) -> None:
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    as_bytes = torch.uint8 if got.element_size() == 1 else got.dtype  # 8-bit floats cannot be compared
    assert torch.equal(got.view(as_bytes), expected.view(as_bytes)), (got, expected)


def fold(op: str, shares: list[torch.Tensor]) -> torch.Tensor:
    result = shares[0].clone()
    for share in shares[1:]:
        result = ELEMENTWISE[op](result, share)
    return result


def check_all_reduce() -> None:
    for dtype in FLOATS + INTEGERS:
        for op in ELEMENTWISE:
            if op.startswith("B") and dtype.is_floating_point:
                continue
            for shape in SHAPES:
                x = value(me(), shape, dtype)
                dist.all_reduce(x, getattr(ReduceOp, op))
                same(x, fold(op, [value(r, shape, dtype) for r in ranks()]))


def check_average_and_scaled_sum() -> None:
    for dtype in FLOATS:
        x = value(me(), (9,), dtype) * size()
        dist.all_reduce(x, ReduceOp.AVG)
        same(x, sum(value(r, (9,), dtype) for r in ranks()))
        for factor in (0.5, torch.tensor(0.5, dtype=dtype)):
            scaled = dist._make_nccl_premul_sum(factor)
            y = value(me(), (9,), dtype)
            dist.all_reduce(y, scaled)
            same(y, sum(value(r, (9,), dtype) for r in ranks()) * 0.5)
            z, whole = torch.empty(2, dtype=dtype), value(me(), (2 * size(),), dtype)
            dist.reduce_scatter_tensor(z, whole, scaled)
            same(whole, value(me(), (2 * size(),), dtype))  # what a rank brings stays as it was
            total = sum(value(r, (2 * size(),), dtype) for r in ranks()) * 0.5
            same(z, total[2 * me() : 2 * me() + 2])
            for shares in (list(whole.chunk(size())), [share.clone() for share in whole.chunk(size())]):
                z.zero_()  # shares that lie side by side, and ones that do not
                dist.reduce_scatter(z, shares, scaled)
                same(z, total[2 * me() : 2 * me() + 2])


def check_average_of_integers() -> None:
    """The sum, divided towards zero, whatever the type holds of the sum."""
    shares = [torch.tensor([[3 + r, -4 - r, 7], [100 * r, -9, 2]]) for r in ranks()]
    expected = torch.div(sum(shares), size(), rounding_mode="trunc")
    for dtype in (torch.int64, torch.int32, torch.int16):
        x = shares[me()].to(dtype)
        dist.all_reduce(x, ReduceOp.AVG)
        same(x, expected.to(dtype))
        strided = torch.zeros(3, 2, dtype=dtype).t()
        strided.copy_(shares[me()])
        dist.reduce(strided, 0, ReduceOp.AVG)
        same(strided, (expected if me() == 0 else shares[me()]).to(dtype))
        y = torch.empty(2, 3, dtype=dtype)
        dist.reduce_scatter_tensor(y, shares[me()].to(dtype).repeat(size(), 1), ReduceOp.AVG)
        same(y, expected.to(dtype))
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        limits = torch.iinfo(dtype)
        shares = [
            torch.tensor([limits.max - r, limits.min + r, limits.max // (r + 1), r - 1 if limits.min else r])
            for r in ranks()
        ]
        totals = [sum(int(share[k]) for share in shares) for k in range(4)]
        means = torch.tensor([abs(t) // size() * (1 if t >= 0 else -1) for t in totals]).to(dtype)
        x = shares[me()].to(dtype)
        dist.all_reduce(x, ReduceOp.AVG)
        same(x, means)
        x = shares[me()].to(dtype)
        dist.reduce(x, 0, ReduceOp.AVG)
        same(x, means if me() == 0 else shares[me()].to(dtype))
        y = torch.empty(4, dtype=dtype)
        dist.reduce_scatter_tensor(y, shares[me()].to(dtype).repeat(size()), ReduceOp.AVG)
        same(y, means)


def check_averages_at_both_ends() -> None:
    """No mean is lost because the type has no number for a sum, or none for a share."""
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        limits = torch.finfo(dtype)
        for value in (limits.max, limits.smallest_normal * limits.eps):
            for count in (3, 40_000):
                x = torch.full((count,), value, dtype=dtype)
                dist.all_reduce(x, ReduceOp.AVG)
                same(x, torch.full((count,), value, dtype=dtype))
                dist.reduce(x, 0, ReduceOp.AVG)
                same(x, torch.full((count,), value, dtype=dtype))
                y = torch.empty(count, dtype=dtype)
                dist.reduce_scatter_tensor(y, x.repeat(size()), ReduceOp.AVG)
                same(y, x)


def check_inference() -> None:
    """Its tensors may be written by threads that are in no such mode."""
    with torch.inference_mode():
        wide = value(me(), (4, 6))
        dist.all_reduce(wide[:, ::2])
        parts = [torch.empty(3) for _ in ranks()]
        dist.all_gather(parts, value(me(), (3,)))
    same(wide[:, ::2], fold("SUM", [value(r, (4, 6)) for r in ranks()])[:, ::2])
    for r in ranks():
        same(parts[r], value(r, (3,)))


def check_bool_means_logic() -> None:
    masks = [value(r, (8,)) > 1 for r in ranks()]
    for op, expected in (
        ("SUM", torch.stack(masks).any(0)), ("MAX", torch.stack(masks).any(0)), ("BOR", torch.stack(masks).any(0)),
        ("PRODUCT", torch.stack(masks).all(0)), ("MIN", torch.stack(masks).all(0)),
        ("BXOR", torch.stack(masks).sum(0) % 2 == 1),
    ):  # fmt: skip
        mask = masks[me()].clone()
        dist.all_reduce(mask, getattr(ReduceOp, op))
        same(mask, expected)


def check_complex_sum() -> None:
    shares = [torch.complex(value(r, (5,)), value(r, (5,), salt=1)) for r in ranks()]
    x = shares[me()].clone()
    dist.all_reduce(x)
    same(x, fold("SUM", shares))
    wide = torch.complex(value(me(), (2 * size(),)), value(me(), (2 * size(),), salt=2))
    y = torch.empty(2, dtype=torch.complex64)
    dist.reduce_scatter(y, list(wide.chunk(size())))
    every = [torch.complex(value(r, (2 * size(),)), value(r, (2 * size(),), salt=2)) for r in ranks()]
    same(y, fold("SUM", every).chunk(size())[me()])


def check_any_strides() -> None:
    """What travels are elements by their indices, whatever a rank's strides."""
    shape = (6, 4)
    x = value(me(), shape)
    strided = torch.zeros(6, 8)[:, ::2]
    transposed = torch.zeros(4, 6).t()
    mine = strided if me() % 2 else transposed
    mine.copy_(x)
    dist.all_reduce(mine)
    same(mine, fold("SUM", [value(r, shape) for r in ranks()]))
    mine.copy_(x)
    dist.broadcast(mine, src=size() - 1)
    same(mine, value(size() - 1, shape))
    gathered = [torch.zeros(4, 6).t() for _ in ranks()]
    mine.copy_(x)
    dist.all_gather(gathered, mine)
    for r in ranks():
        same(gathered[r], value(r, shape))


def check_inputs_that_share_memory() -> None:
    """What is only read may be expanded, as the gradient of a sum is."""
    mine, whole = torch.tensor(1.0 + me()).expand(2), torch.tensor([1.0 + me()]).expand(2 * size(), 3)
    everyone = torch.cat([torch.full((2,), 1.0 + r) for r in ranks()])
    parts, together = [torch.empty(2) for _ in ranks()], torch.empty(2 * size())
    dist.all_gather(parts, mine)
    same(torch.cat(parts), everyone)
    dist.all_gather_into_tensor(together, mine)
    same(together, everyone)
    share, exchanged = torch.empty(2, 3), torch.empty(2 * size(), 3)
    calls: list[Callable[[], Any]] = [
        lambda: dist.reduce_scatter_tensor(share, whole),
        lambda: dist.reduce_scatter(share, list(whole.chunk(size()))),
    ]
    for call in calls:
        share.zero_()
        call()
        same(share, torch.full((2, 3), everyone.sum().item() / 2))
    dist.all_to_all_single(exchanged, whole)
    same(exchanged, everyone[:, None].repeat(1, 3))
    dist.all_to_all(parts, [mine for _ in ranks()])
    same(torch.cat(parts), everyone)
    at_root = me() == size() - 1
    dist.gather(mine, parts if at_root else None, dst=size() - 1)
    same(torch.cat(parts), everyone)
    dist.scatter(share, [torch.ones(1).expand(2, 3)] * size() if at_root else None, src=size() - 1)
    same(share, torch.ones(2, 3))
    given = torch.tensor(3.0).expand(4) if at_root else torch.empty(4)
    dist.broadcast(given, src=size() - 1)
    same(given.clone(), torch.full((4,), 3.0))


def check_broadcast_and_reduce() -> None:
    for dtype in FLOATS + INTEGERS + ODD_TYPES:
        for root in ranks():
            x = value(me(), (5,), torch.float32).to(dtype)
            dist.broadcast(x, src=root)
            same(x, value(root, (5,), torch.float32).to(dtype))
    for root in ranks():
        x = value(me(), (5,))
        dist.reduce(x, dst=root)
        same(x, fold("SUM", [value(r, (5,)) for r in ranks()]) if me() == root else value(me(), (5,)))


def check_all_gather() -> None:
    for dtype in FLOATS + INTEGERS + ODD_TYPES:
        parts = [torch.empty(3, dtype=dtype) for _ in ranks()]
        dist.all_gather(parts, value(me(), (3,)).to(dtype))
        whole = torch.empty(3 * size(), dtype=dtype)
        dist.all_gather_into_tensor(whole, value(me(), (3,)).to(dtype))
        slices = list(torch.empty(3 * size(), dtype=dtype).chunk(size()))  # side by side in memory: nothing is copied
        dist.all_gather(slices, value(me(), (3,)).to(dtype))
        for r in ranks():
            same(parts[r], value(r, (3,)).to(dtype))
            same(slices[r], value(r, (3,)).to(dtype))
            same(whole[3 * r : 3 * r + 3], value(r, (3,)).to(dtype))
    whole[3 * me() : 3 * me() + 3] = value(me(), (3,), dtype, salt=1)
    dist.all_gather_into_tensor(whole, whole[3 * me() : 3 * me() + 3])
    for r in ranks():
        same(whole[3 * r : 3 * r + 3], value(r, (3,), dtype, salt=1))


def check_uneven_all_gather_and_reduce_scatter() -> None:
    parts = [torch.empty(2 * r) for r in ranks()]
    dist.all_gather(parts, value(me(), (2 * me(),)))
    for r in ranks():
        same(parts[r], value(r, (2 * r,)))
    out = torch.empty(2 * me())
    dist.reduce_scatter(out, [value(me(), (2 * r,), salt=r) for r in ranks()])
    same(out, fold("SUM", [value(r, (2 * me(),), salt=me()) for r in ranks()]))


def check_reduce_scatter() -> None:
    for op in ("SUM", "MAX", "PRODUCT"):
        out = torch.empty(3)
        dist.reduce_scatter(out, [value(me(), (3,), salt=r) for r in ranks()], getattr(ReduceOp, op))
        same(out, fold(op, [value(r, (3,), salt=me()) for r in ranks()]))
        whole = value(me(), (3 * size(),))
        dist.reduce_scatter_tensor(out, whole, getattr(ReduceOp, op))
        expected = fold(op, [value(r, (3 * size(),)) for r in ranks()])[3 * me() : 3 * me() + 3]
        same(out, expected)
        whole = value(me(), (3 * size(),))
        place = whole[3 * me() : 3 * me() + 3]
        dist.reduce_scatter_tensor(place, whole, getattr(ReduceOp, op))
        same(place, expected)


def check_gather_and_scatter() -> None:
    for root in ranks():
        parts = [torch.empty(4) for _ in ranks()] if me() == root else []
        dist.gather(value(me(), (4,)), parts or None, dst=root)
        for r, part in enumerate(parts):
            same(part, value(r, (4,)))
        out = torch.empty(4)
        dist.scatter(out, [value(root, (4,), salt=r) for r in ranks()] if me() == root else None, src=root)
        same(out, value(root, (4,), salt=me()))


def check_all_to_all() -> None:
    out = torch.empty(2 * size(), 3)
    dist.all_to_all_single(out, value(me(), (2 * size(), 3)))
    for r in ranks():
        same(out[2 * r : 2 * r + 2], value(r, (2 * size(), 3))[2 * me() : 2 * me() + 2])
    rows = [(me() + r) % 3 for r in ranks()]  # symmetric, so it is what arrives as well
    sent = [value(me(), (rows[r], 2), salt=r) for r in ranks()]
    uneven = torch.empty(sum(rows), 2)
    dist.all_to_all_single(uneven, torch.cat(sent), rows, rows)
    parts = [torch.empty(rows[r], 2) for r in ranks()]
    dist.all_to_all(parts, sent)
    for r, got in enumerate(uneven.split(rows)):
        same(got, value(r, (rows[r], 2), salt=me()))
        same(parts[r], value(r, (rows[r], 2), salt=me()))


def check_messages() -> None:
    if size() == 1:
        return
    after, before = (me() + 1) % size(), (me() - 1) % size()
    for shape in SHAPES:
        got = torch.empty(shape)
        work = dist.isend(value(me(), shape), after, tag=5)
        assert dist.recv(got, before, tag=5) == before
        assert work is not None
        work.wait()
        same(got, value(before, shape))
    started = dist.isend(torch.tensor([7.0 + me()]).expand(3), after)
    dist.recv(got := torch.empty(3), before)
    same(got, torch.full((3,), 7.0 + before))
    started.wait()
    got = [torch.empty(3), torch.empty(3)]  # tags tell messages apart, whatever the order of the receives
    works = [dist.isend(value(me(), (3,), salt=tag), after, tag=tag) for tag in (0, 1)]
    dist.recv(got[1], before, tag=1)
    dist.recv(got[0], before, tag=0)
    for tag in (0, 1):
        same(got[tag], value(before, (3,), salt=tag))
        works[tag].wait()
    batch = [dist.P2POp(dist.isend, value(me(), (3,)), after), dist.P2POp(dist.irecv, got[0], before)]
    for started in dist.batch_isend_irecv(batch):
        started.wait()
    same(got[0], value(before, (3,)))


def check_refused_message_of_a_batch() -> None:
    """torch leaves a group coalescing for good where a message of a batch raises at once."""
    if size() == 1:
        return
    after, before = (me() + 1) % size(), (me() - 1) % size()
    got, mine = torch.empty(3), value(me(), (3,))
    with pytest.raises(ValueError, match="lanecast: recv: tensor"):
        dist.batch_isend_irecv([dist.P2POp(dist.irecv, torch.ones(1).expand(3), before)])
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, after), dist.P2POp(dist.irecv, got, before)]):
        work.wait()
    same(got, value(before, (3,)))
    dist.all_reduce(mine)
    same(mine, fold("SUM", [value(r, (3,)) for r in ranks()]))


def check_receive_from_any() -> None:
    """Two receives at once share out what has come; sizes beyond what a transport sends unasked are among them."""
    if size() == 1:
        return
    for count in (0, 3, 100_000):
        if me() == 0:
            got = [torch.empty(count) for _ in range(2 * (size() - 1))]
            works = [dist.irecv(each, tag=4) for each in got]
            for work in works:
                work.wait()
            senders = [work._source_rank() for work in works]
            assert sorted(senders) == sorted(2 * list(range(1, size())))
            for each, sender in zip(got, senders, strict=True):
                same(each, value(sender, (count,)))
            assert dist.recv(torch.empty(2)) == 1
        else:
            for _ in range(2):
                dist.send(value(me(), (count,)), 0, tag=4)
            if me() == 1:
                dist.send(torch.ones(2), 0)
        dist.barrier()


def check_asynchronous() -> None:
    """Works of many kinds at once, futures and their callbacks, in any order of waiting."""
    sums = [value(me(), (100,), salt=k) for k in range(20)]
    works = [dist.all_reduce(each, async_op=True) for each in sums]
    whole = torch.empty(100 * size())
    gathering = dist.all_gather_into_tensor(whole, value(me(), (100,)), async_op=True)
    doubled = works[3].get_future().then(lambda future: future.value()[0] * 2)
    gathering.wait()
    same(whole[:100], value(0, (100,)))
    for work in reversed(works):
        work.wait()
        assert work.is_completed()
        assert work.is_success()
    expected = [fold("SUM", [value(r, (100,), salt=k) for r in ranks()]) for k in range(20)]
    same(doubled.wait(), expected[3] * 2)
    for got, want in zip(sums, expected, strict=True):
        same(got, want)
    nested = dist.all_reduce(value(me(), (3,)), async_op=True).get_future().then(
        lambda future: dist.all_reduce(future.value()[0], async_op=True).get_future().wait()[0]
    )  # fmt: skip
    same(nested.wait(), fold("SUM", [value(r, (3,)) for r in ranks()]) * size())
    for _ in range(50):  # works that nobody waits for
        dist.all_reduce(torch.ones(10), async_op=True)
    dist.barrier()


def check_coalesced() -> None:
    tensors = [value(me(), (k,)) for k in (1, 0, 5)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for k, tensor in zip((1, 0, 5), tensors, strict=True):
        same(tensor, fold("SUM", [value(r, (k,)) for r in ranks()]))
    whole = [torch.empty(2 * size()), torch.empty(3 * size())]
    with dist._coalescing_manager(async_ops=True) as manager:
        for k, out in zip((2, 3), whole, strict=True):
            dist.all_gather_into_tensor(out, value(me(), (k,)))
    manager.wait()
    same(whole[1][:3], value(0, (3,)))
    share = [torch.empty(2), torch.empty(3)]
    with dist._coalescing_manager():
        for k, out in zip((2, 3), share, strict=True):
            dist.reduce_scatter_tensor(out, value(me(), (k * size(),)))
    same(share[0], fold("SUM", [value(r, (2 * size(),)) for r in ranks()])[2 * me() : 2 * me() + 2])
    mixed = [value(me(), (4,)), value(me(), (4,), salt=1)]
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        dist.broadcast(mixed[0], 0, async_op=True)
        dist.broadcast(mixed[1], size() - 1, async_op=True)
    manager.wait()
    same(mixed[0], value(0, (4,)))
    same(mixed[1], value(size() - 1, (4,), salt=1))


def check_objects() -> None:
    everything: list[Any] = [None] * size()
    dist.all_gather_object(everything, {"rank": me(), "text": "x" * (me() * 100)})
    assert everything == [{"rank": r, "text": "x" * (r * 100)} for r in ranks()]
    shared = [me(), "mine"] if me() == 0 else [None, None]
    dist.broadcast_object_list(shared, src=0)
    assert shared == [0, "mine"]
    got: list[Any] = [None]
    dist.scatter_object_list(got, [f"for {r}" for r in ranks()] if me() == 0 else None, src=0)
    assert got == [f"for {me()}"]


def check_sharded_tensors() -> None:
    """torch asks by its name whether a backend is for a GPU, and makes what it gathers there."""
    from torch.distributed._shard import sharded_tensor
    from torch.distributed._shard.sharding_spec import ChunkShardingSpec

    spec = ChunkShardingSpec(dim=0, placements=[f"rank:{r}/cpu" for r in ranks()])
    sharded = sharded_tensor.zeros(spec, 2 * size(), 3)
    sharded.local_shards()[0].tensor.fill_(me())
    whole = torch.empty(2 * size(), 3) if me() == 0 else None
    sharded.gather(0, whole)
    if whole is not None:
        same(whole, torch.arange(float(size())).repeat_interleave(2)[:, None].repeat(1, 3))


def check_groups() -> None:
    evens = dist.new_group([r for r in ranks() if r % 2 == 0])
    pairs = [dist.new_group([r, (r + 1) % size()]) for r in ranks() if size() > 2]
    if me() % 2 == 0:
        x = value(me(), (3,))
        dist.all_reduce(x, group=evens)
        same(x, fold("SUM", [value(r, (3,)) for r in ranks() if r % 2 == 0]))
    for r, pair in enumerate(pairs):
        if me() in (r, (r + 1) % size()):
            y = value(me(), (3,))
            dist.broadcast(y, src=r, group=pair)
            same(y, value(r, (3,)))
    for group in [evens, *pairs]:
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(group)


def check_merged_groups() -> None:
    """Groups of one rank each become one of all, as over gloo, in the order in which they come."""
    alone = [dist.new_group([r]) for r in ranks()][me()]
    for name in ("merged first", "merged again"):  # torch counts the ranks in the store, and never clears it
        store = dist.PrefixStore(name, dist.distributed_c10d._get_default_store())
        merged = alone.merge_remote_group(store, size(), timedelta(seconds=60), name)
        x = value(merged.rank(), (3,))
        merged.allreduce([x]).wait()
        same(x, fold("SUM", [value(r, (3,)) for r in ranks()]))
        merged._enable_collectives_timing()  # what gloo takes
        merged.shutdown()
    dist.destroy_process_group(alone)


def check_sequence_numbers() -> None:
    # Of the backend: torch's own group hands the question on to the backends that it knows by name only.
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    before = backend._get_sequence_number_for_group()
    work = dist.all_reduce(torch.ones(1), async_op=True)
    work.wait()
    dist.barrier()
    assert backend._get_sequence_number_for_group() == before + 2
    if size() > 1 and me() < 2:
        _ = dist.send(torch.ones(1), 1) if me() == 0 else dist.recv(torch.ones(1), 0)
    assert backend._get_sequence_number_for_group() == before + 2


def check_sparse_goes_to_gloo() -> None:
    x = torch.sparse_coo_tensor(torch.tensor([[me()]]), torch.tensor([1.0]), (size(),))
    dist.all_reduce(x)
    same(x.to_dense(), torch.ones(size()))


def check_profile() -> None:
    with torch.profiler.profile() as profile:
        dist.all_reduce(torch.ones(10))
        dist.all_gather_into_tensor(torch.empty(size()), torch.ones(1), async_op=True).wait()
    names = {event.name for event in profile.events()}
    assert {"lanecast:all_reduce", "lanecast:_all_gather_base"} <= names, names
