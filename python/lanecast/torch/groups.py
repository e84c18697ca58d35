# SPDX-License-Identifier: Apache-2.0
"""How a group of torch.distributed gets its backend."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from datetime import timedelta
from types import ModuleType
from typing import Any

import torch.distributed as dist

import lanecast_torch
from lanecast import _core, gpu_libraries, job, nics
from lanecast.emulation import take_part_in_emulation
from lanecast.torch import adapter, memory


def make(given: Any, options: Any) -> Any:
    """What init_process_group and new_group call for a group with this backend.

    given: torch's DistributedBackendOptions: store, rank, size, timeout. options: the caller's pg_options, or None.
    Collective over the group. Raises ValueError for options that do not fit, and DistBackendError where the ranks do
    not come together within the timeout.
    """
    compiled = _adapter()
    if options is None:
        options = compiled.Options()
    elif not isinstance(options, compiled.Options):
        raise ValueError(f"lanecast: pg_options: expected lanecast.torch.Options, got {type(options).__name__}")
    options.timeout = given.timeout
    take_part_in_emulation()
    options.job_size, options.job_ranks = _part_of_job(list(given.global_ranks_in_group))
    nics.pin()
    launched = job.detect()
    # Not of processes that a rank has started, as torch.multiprocessing.spawn does.
    options.mpi = (
        launched is not None
        and launched.starts_mpi
        and (launched.size is None or given.group_size <= launched.size)
        and not _core.inherited_rank()
    )
    options.kernel_cache = options.kernel_cache or os.fsencode(_core.user_cache("kernels") or "")
    options.gpu_libraries = options.gpu_libraries or ":".join(gpu_libraries.folders())
    options.python = options.python or sys.executable
    if options.processes_per_gpu == 0 and dist.is_initialized():
        options.processes_per_gpu = 1  # the variable is for the default group: a mesh has many others
    options.profile = _profile(options.profile)
    return compiled.make(given.store, given.group_rank, given.group_size, options, _understudy, memory.of_group)


def _profile(option: str) -> str:
    """What is wanted, for the core; the room that knows profiles is imported where one is named."""
    if not option and not os.environ.get("LANECAST_PROFILE"):
        return ""
    from lanecast.profiles import finding

    return finding.written_out(option)


def _part_of_job(ranks: list[int]) -> tuple[int, list[int]]:
    """Which ranks of the job that the environment describes a group has; (0, []) where it has all of them.

    ranks: the group's among those of the default group; none: it is that one, which is yet to be made.
    """
    if not ranks or not dist.is_initialized():
        return 0, []
    size, places = _job_of(dist.group.WORLD)
    if size == 0:
        size, places = dist.get_world_size(), list(range(dist.get_world_size()))
    part = [places[rank] for rank in ranks]
    return (0, []) if part == list(range(size)) else (size, part)


def _job_of(group: Any) -> tuple[int, list[int]]:
    """Of a group of Lanecast that was made without ranks that are lost, say; (0, []) where it has all of them."""
    for backend in lanecast_torch.backends_of(group):
        size, ranks = backend.job
        return size, ranks
    return 0, []


@functools.cache
def _adapter() -> ModuleType:
    compiled = adapter.load()
    # While Python's own threads still run: calls under way may want its lock.
    atexit.register(compiled.shut_down_all)
    return compiled


def _understudy(name: str, store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    """For what Lanecast is not built for: lanecast_torch.PASSED_ON."""
    assert name in lanecast_torch.PASSED_ON
    return dist.ProcessGroupGloo(dist.PrefixStore(name, store), rank, size, timeout)
