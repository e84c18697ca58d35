# SPDX-License-Identifier: Apache-2.0
"""Memory that the ranks of a host map of each other, as pools of torch's caching allocator: collectives on tensors in
it copy nothing to and from staging. torch orders and reuses it as any other; only its segments come from here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from lanecast.torch import adapter


@functools.cache
def allocator() -> Any:
    """For torch.cuda.MemPool."""
    library = str(adapter.load().__file__)
    return torch.cuda.memory.CUDAPluggableAllocator(library, "lanecast_pool_alloc", "lanecast_pool_free").allocator()


def mem_pool() -> Any:
    """A torch.cuda.MemPool for torch.cuda.use_mem_pool(), on the current GPU; for the calls of any group of Lanecast.

    Neither collective nor for all ranks: a call is right wherever their tensors lie, and copies nothing where all of
    them lie in such memory. Raises UsageError as adapter.load() does.
    """
    return torch.cuda.MemPool(allocator())


def segments_of(pool: Any) -> list[int]:
    """Where the memory that a torch.cuda.MemPool has taken begins."""
    return [segment["address"] for segment in pool.snapshot(include_traces=False)]


def of_group() -> Callable[[int, int], torch.Tensor]:
    """What takes bytes on the current GPU for one group; it ends with the group."""
    pools: dict[int, Any] = {}

    def take(count: int, device: int) -> torch.Tensor:
        if device not in pools:
            pools[device] = mem_pool()
        with torch.cuda.use_mem_pool(pools[device], device):
            return torch.empty(count, dtype=torch.uint8, device=f"cuda:{device}")

    return take
