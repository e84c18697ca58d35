# SPDX-License-Identifier: Apache-2.0
"""Where a benchmark runs, the CPU or a GPU: its clock, and whether all that was asked of it is done."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from lanecast import _core

Call = Callable[[], object]


class Device(Protocol):
    """What measuring asks of any device; the only clock that it looks at."""

    queues: bool  # does a call return before it is done?
    most_calls: int  # of a round

    def synchronize(self) -> None:
        """Block until all that was enqueued is done."""

    def mark(self) -> Any:
        """This moment, or where the current queue stands."""

    def elapsed_us(self, first: Any, last: Any) -> float:
        """Microseconds between two marks, both of which the device has passed."""


class Gpu(Device, Protocol):
    """What backends that only GPUs have ask besides; see Cuda."""

    device: Any  # torch's

    def pinned(self, size_bytes: int) -> Any: ...

    def captured(self, call: Call, times: int) -> Call: ...


class Host:
    """The CPU, which does a call before it returns."""

    queues = False
    most_calls = 10_000

    def synchronize(self) -> None:
        """Nothing is ever enqueued."""

    def mark(self) -> float:
        return time.perf_counter()

    def elapsed_us(self, first: float, last: float) -> float:
        return (last - first) * 1e6


HOST = Host()


def require_torch() -> Any:
    """torch with a GPU; raises UsageError with what is missing."""
    try:
        import torch
    except (ImportError, OSError) as error:  # of torch itself, or of a library that it is linked with, such as NCCL
        raise _core.UsageError(f"device cuda: needs torch with CUDA, which cannot be loaded: {error}") from None
    if not torch.cuda.is_available():
        raise _core.UsageError(f"device cuda: torch {torch.__version__} finds no GPU here")
    return torch


class Cuda:
    """One GPU through torch, made current."""

    queues = True
    most_calls = 200  # where the device's queue is full, the host waits, and its time says nothing

    def __init__(self, ordinal: int, shared: bool = False) -> None:
        """shared: where there is no GPU of this number, those that there are go round."""
        self._torch = require_torch()
        found = self._torch.cuda.device_count()
        ordinal = ordinal % found if shared else ordinal
        if ordinal >= found:
            raise _core.UsageError(f"local rank {ordinal}: there are {found} GPUs here, and each rank needs its own")
        self._torch.cuda.set_device(ordinal)
        self.device = self._torch.device("cuda", ordinal)
        self._capturing = self._torch.cuda.Stream()

    def synchronize(self) -> None:
        """Block until all that was enqueued is done."""
        self._torch.cuda.synchronize()

    def pinned(self, size_bytes: int) -> Any:
        """Memory of the host that the device's copy engines reach, as a tensor of bytes."""
        return self._torch.empty(size_bytes, dtype=self._torch.uint8, pin_memory=True)

    def mark(self) -> Any:
        """A mark in the current stream, which knows when the device has passed it."""
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def elapsed_us(self, first: Any, last: Any) -> float:
        """Between two marks that the device has passed."""
        return float(first.elapsed_time(last)) * 1e3

    def captured(self, call: Call, times: int) -> Call:
        """A graph of so many calls, one behind the other; replays on the current stream."""
        cuda = self._torch.cuda
        graph = cuda.CUDAGraph()
        cuda.synchronize()
        # By hand: torch.cuda.graph() empties torch's caches first, which takes longer than what is measured.
        with cuda.stream(self._capturing):
            # Other threads, such as NCCL's watchdog, may ask the device for what would spoil a capture of all threads.
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                for _ in range(times):
                    call()
            finally:
                graph.capture_end()
        replay: Call = graph.replay
        return replay
