# SPDX-License-Identifier: Apache-2.0
"""Groups without ranks that are lost: functions that the ranks of test_torch_watching.py run."""

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

import lanecast.torch
from torch_calls import me, ranks, same, size


def shrinks_without(group: dist.ProcessGroup, lost: int, flags: int = distributed_c10d.SHRINK_DEFAULT) -> None:
    left = [r for r in ranks() if r != lost]
    if me() == lost:
        return
    small = distributed_c10d.shrink_group([lost], group, shrink_flags=flags)
    assert (small.rank(), small.size()) == (left.index(me()), len(left))
    x = torch.full((3,), 1.0 + me())
    dist.all_reduce(x, group=small)
    same(x, torch.full((3,), sum(1.0 + r for r in left)))
    dist.broadcast(x, src=left[-1], group=small)
    dist.destroy_process_group(small)


def check_a_group_without_one() -> None:
    """Whichever that is; it takes no part, and other groups go on."""
    if size() == 1:
        return
    for lost in ranks():
        group = dist.new_group()
        dist.all_reduce(torch.ones(3), group=group)
        shrinks_without(group, lost)
        if me() == lost:
            dist.destroy_process_group(group)
        dist.barrier()


def check_a_group_whose_call_hangs() -> None:
    """As one of them does not come to it: those that wait abort it, and go on without that one."""
    if size() == 1:
        return
    group = dist.new_group(timeout=timedelta(seconds=90))
    lost = size() - 1
    if me() != lost:
        work = dist.all_reduce(torch.ones(3), group=group, async_op=True)
        shrinks_without(group, lost, distributed_c10d.SHRINK_ABORT)
        with pytest.raises(dist.DistBackendError, match="aborted"):
            work.wait()
    dist.barrier()
    if me() == lost:
        dist.destroy_process_group(group)


def check_options_of_a_shrunk_group() -> None:
    """Those given, or those that the group had; one's own rank cannot be left out."""
    if size() == 1:
        return
    group = dist.new_group()
    backend = group._get_backend(torch.device("cpu"))
    assert backend.supports_shrinking
    if me() > 0:
        options = lanecast.torch.Options(timedelta(seconds=7))
        options.algorithm = "ring"
        backend.shrink([0], 0, options).allreduce([torch.ones(3)]).wait()
        backend.shrink([0]).allreduce([torch.ones(3)]).wait()
    else:
        with pytest.raises(ValueError, match="leaves itself out"):
            backend.shrink([0])
    dist.all_reduce(torch.ones(3), group=group)  # it goes on beside them
    dist.destroy_process_group(group)
