# SPDX-License-Identifier: Apache-2.0
"""The kinds of memory that collectives on GPUs may want their buffers in; one piece of each for a whole benchmark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lanecast.bench import settings
from lanecast.bench.gpu_ranks import GpuRanks
from lanecast.bench.memory import TorchMemory

_SLACK_BYTES = 4096  # of the alignment of buffers


class Arenas:
    """Memory by kind, taken when a kind is first asked for; every method is collective."""

    def __init__(self, ranks: GpuRanks, largest_bytes: int) -> None:
        """largest_bytes: of the full buffers, of which a payload has two."""
        self._ranks, self._size_bytes = ranks, 2 * largest_bytes + _SLACK_BYTES
        self._arenas: dict[str, Any] = {}
        self._release: list[Callable[[], None]] = []

    def of(self, kind: str) -> Any:
        """A tensor of bytes."""
        if kind not in self._arenas:
            make = {
                settings.PLAIN: self._plain, settings.SYMMETRIC: self._symmetric, settings.WINDOWS: self._windows,
                settings.TORCH_SYMMETRIC: self._torch_symmetric,
            }[kind]  # fmt: skip
            self._arenas[kind] = make()
        return self._arenas[kind]

    def memory(self, kind: str) -> TorchMemory:
        """The whole of it, for one payload."""
        return TorchMemory(self.of(kind))

    def close(self) -> None:
        """Give all of it back."""
        for release in self._release:
            release()
        self._release.clear()
        self._arenas.clear()

    def _plain(self) -> Any:
        import torch

        return torch.empty(self._size_bytes, dtype=torch.uint8, device=self._ranks.device.device)

    def _symmetric(self) -> Any:
        return self._ranks.comm.symmetric_empty(self._size_bytes, "uint8")

    def _windows(self) -> Any:
        """Of NCCL's own allocator, registered as a symmetric window, which its symmetric kernels need."""
        import torch

        backend = self._ranks.group()._get_backend(self._ranks.device.device)
        pool = torch.cuda.MemPool(backend.mem_allocator)
        with torch.cuda.use_mem_pool(pool):
            arena = self._plain()
        backend.register_mem_pool(pool, symm=True)
        self._release.append(lambda: backend.deregister_mem_pool(pool))
        return arena

    def _torch_symmetric(self) -> Any:
        import torch
        from torch.distributed import _symmetric_memory

        arena = _symmetric_memory.empty(self._size_bytes, dtype=torch.uint8, device=self._ranks.device.device)
        _symmetric_memory.rendezvous(arena, self._ranks.group())
        return arena
