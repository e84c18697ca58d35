# SPDX-License-Identifier: Apache-2.0
"""What works and groups tell of calls that have ended, or have failed: functions that the ranks of
test_torch_watching.py run, with tensors of the CPU, and that those of test_torch_on_gpu.py run with CUDA tensors."""

import queue
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ErrorType, OpType, WorkResult

from torch_calls import me, same, size

COUNT = 1000


def own() -> torch.Tensor:
    return torch.full((COUNT,), 1.0 + me())


def total() -> torch.Tensor:
    return torch.full((COUNT,), size() * (size() + 1) / 2)


def backend_of(group: Any) -> Any:
    return group._get_backend(own().device)


def check_future_of_the_result() -> None:
    works = [dist.all_reduce(own(), async_op=True) for _ in range(3)]
    early = [work.get_future_result() for work in works]
    for work, future in zip(works, early, strict=True):
        assert WorkResult(future.wait()) == WorkResult.SUCCESS
        assert work.is_completed()
        assert work.get_future_result().value() == 0  # asked for when all is over
    with dist._coalescing_manager(device=own().device, async_ops=True) as manager:
        dist.all_reduce(own())
        dist.all_reduce(own())
    assert [work.get_future_result().wait() for work in manager.works] == [0]
    told: queue.Queue[int] = queue.Queue()
    work = dist.all_reduce(own(), async_op=True)
    work.get_future_result().then(lambda future: told.put(future.value()))
    assert told.get(timeout=60) == 0
    work.wait()


def check_pending_works() -> None:
    tensors = [own() for _ in range(10)]
    for x in tensors:
        dist.all_reduce(x, async_op=True)
    dist.group.WORLD._wait_for_pending_works()
    for x in tensors:
        same(x, total())
    dist.group.WORLD._wait_for_pending_works()  # none


def check_duration() -> None:
    group = dist.new_group()
    untimed = dist.all_reduce(own(), group=group, async_op=True)
    untimed.wait()
    with pytest.raises(RuntimeError, match="_enable_collectives_timing"):
        untimed._get_duration()
    group._enable_collectives_timing()
    store, begun = dist.distributed_c10d._get_default_store(), "rank 0 has begun the call that is timed"
    if 0 < me() == size() - 1:
        store.wait([begun])
        time.sleep(0.2)
    begin = time.monotonic()
    work = dist.all_reduce(own(), group=group, async_op=True)
    if me() == 0:
        store.set(begun, "")
    assert work.get_future_result().wait() == 0
    passed = 1000 * (time.monotonic() - begin)
    least = 200 if size() > 1 and me() == 0 and not own().is_cuda else 0  # the driver that pretends tells none
    assert least < work._get_duration() < passed + 1
    with dist._coalescing_manager(group, own().device, async_ops=True) as manager:
        for root in (0, size() - 1):
            dist.broadcast(own(), root, group=group, async_op=True)
    manager.wait()
    assert manager.works
    for together in manager.works:
        assert together.get_future_result().wait() == 0
        assert 0 < together._get_duration() < 90_000
    dist.destroy_process_group(group)


def check_hook_at_the_end_of_calls() -> None:
    group = dist.new_group()
    heard: list[Any] = []
    main = threading.get_ident()

    def hook(info: Any) -> None:
        time.sleep(0.01)  # longer than the calls
        heard.append((info, threading.get_ident()))
        raise ValueError("is warned of, and stops nothing")

    assert not group._has_hooks()
    group._register_on_completion_hook(hook)
    assert group._has_hooks()
    with pytest.raises(RuntimeError, match="has a hook"):
        group._register_on_completion_hook(hook)
    whole = own().new_empty(size() * COUNT)
    for async_op in (False, True):
        dist.all_reduce(own(), group=group, async_op=async_op)
        dist.all_gather_into_tensor(whole, own(), group=group, async_op=async_op)
    dist.destroy_process_group(group)  # waits for them
    heard.sort(key=lambda each: each[0].seq)  # several threads end works
    assert [info.op_type for info, _ in heard] == [OpType.ALLREDUCE, OpType._ALLGATHER_BASE] * 2
    assert [info.seq for info, _ in heard] == [1, 2, 3, 4]
    assert main not in {thread for _, thread in heard}
    for info, _ in heard:
        assert timedelta(0) < info.active_duration < timedelta(seconds=90)
        assert info.time_started < info.time_finished


def check_errors_of_a_group() -> None:
    """A rank alone: its call times out; and abort() is an error too."""
    kinds = {"timeout": "TIMEOUT", "abort": "COMM_ERROR"}
    for way in kinds if size() > 1 else ():
        group = dist.new_group()
        x = own()
        dist.all_reduce(x, group=group)
        same(x, total())
        assert backend_of(group).get_error() == ErrorType.SUCCESS
        dist.barrier()  # no rank is there any more when another one gives up
        if way == "timeout":
            backend_of(group).set_timeout(timedelta(seconds=1))
        if me() == 0:
            work = dist.all_reduce(own(), group=group, async_op=True)
            result = work.get_future_result()
            if way == "abort":
                backend_of(group).abort()
            assert WorkResult(result.wait()) == getattr(WorkResult, kinds[way])
            with pytest.raises(dist.DistBackendError):
                work.wait()
            assert backend_of(group).get_error() == getattr(ErrorType, kinds[way])
            group._wait_for_pending_works()
        dist.barrier()
        dist.destroy_process_group(group)
    assert backend_of(dist.group.WORLD).get_error() == ErrorType.SUCCESS
