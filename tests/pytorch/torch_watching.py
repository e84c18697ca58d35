# SPDX-License-Identifier: Apache-2.0
"""Calls by which programs watch their groups: functions that the ranks of test_torch_watching.py run."""

import time
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from torch_calls import me, ranks, size

SHORT = timedelta(milliseconds=400)


def raised(function: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(dist.DistBackendError) as caught:
        function(*arguments)
    return str(caught.value)


def end(group: Any) -> None:
    """torch names groups by how many a rank has, so that all have to end theirs."""
    if group is not dist.GroupMember.NON_GROUP_MEMBER:
        dist.destroy_process_group(group)


def check_monitored_barrier() -> None:
    for options in ({}, {"wait_all_ranks": True}, {"timeout": timedelta(seconds=90)}, {"timeout": 90.0}):
        dist.monitored_barrier(**options)
        distributed_c10d.monitored_barrier(None, **options)
    arrived: list[Any] = [None] * size()
    if me() == size() - 1:
        time.sleep(0.2)
    before = time.time()
    dist.monitored_barrier()
    dist.all_gather_object(arrived, (before, time.time()))
    assert min(left for _, left in arrived) >= max(came for came, _ in arrived)
    part = dist.new_group([r for r in ranks() if r != 0] or [0])
    dist.monitored_barrier(part)  # not for the rank that is in no such group
    end(part)


def check_set_pg_timeout() -> None:
    """By torch's function, which programs of others call: it knows no backend but its own."""
    group = dist.new_group(timeout=timedelta(seconds=90))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        distributed_c10d._set_pg_timeout(SHORT, group)
        distributed_c10d._set_pg_timeout(timedelta(seconds=90))
        dist.distributed_c10d._set_pg_timeout(timeout=SHORT, group=group)
    if me() == 0 and size() > 1:
        assert "rank 0 waited 0.4 s for rank 1" in raised(lambda: dist.all_reduce(torch.ones(1), group=group))
    dist.barrier()
    mixed = dist.new_group([me()], backend="gloo", use_local_synchronization=True)
    distributed_c10d._set_pg_timeout(SHORT, mixed)
    end(mixed)
    end(group)


def check_monitored_barrier_names_the_missing() -> None:
    """On rank 0; the others hear of it from that one, and the group goes on."""
    if size() == 1:
        return
    group = dist.new_group(timeout=timedelta(seconds=120))
    for all_of_them in (False, True):
        begin = time.monotonic()
        if me() == 0:
            told = raised(dist.monitored_barrier, group, SHORT, all_of_them)
            late = ", ".join(str(r) for r in ranks() if r > 0) if all_of_them and size() > 2 else "1"
            assert f"Rank{'s' if ',' in late else ''} {late} failed to pass monitoredBarrier in 400 ms" in told
        elif me() > 1 and not all_of_them:
            told = raised(dist.monitored_barrier, group, SHORT)
            assert f"Rank {me()} successfully reached monitoredBarrier" in told
            assert "Rank 1 failed" in told
        assert time.monotonic() - begin < 60
        dist.barrier()
        if me() == 1 or (all_of_them and me() > 1):  # who comes later learns that the others have given up
            assert "Rank" in raised(dist.monitored_barrier, group)
    dist.monitored_barrier(group)
    dist.all_reduce(torch.ones(2), group=group)
    dist.destroy_process_group(group)


def check_monitored_barrier_waits_for_rank_0() -> None:
    if size() == 1:
        return
    group = dist.new_group()
    group._get_backend(torch.device("cpu")).set_timeout(timedelta(seconds=1))
    if me() > 0:
        assert "it did not come in 1000 ms" in raised(dist.monitored_barrier, group, SHORT)
    dist.barrier()
    dist.destroy_process_group(group)


def check_monitored_barrier_of_others_is_torchs() -> None:
    gloo = dist.new_group(backend="gloo")
    dist.monitored_barrier(gloo)
    dist.destroy_process_group(gloo)
    assert distributed_c10d.monitored_barrier is dist.monitored_barrier
    last = dist.new_group([size() - 1])
    dist.monitored_barrier(last)
    end(last)
