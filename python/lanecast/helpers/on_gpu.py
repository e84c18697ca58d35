# SPDX-License-Identifier: Apache-2.0
"""Slices of a GPU's buffers that the GPU moves: each process maps its leader's buffers, and has kernels of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from lanecast import _core
from lanecast._core import DeviceBuffer
from lanecast.bound import Bound
from lanecast.device_calls import DeviceWork
from lanecast.dtypes import itemsize
from lanecast.helpers.memory import Place

_MOST_CTAS = 64  # of one process's calls, where the user does not say


def through_hosts(call: Bound) -> bool:
    """Does its algorithm take the hosts' memory, as an MPI's own collectives do?"""
    return "mpi" in call.algorithm.replace("(", ",").replace(")", ",").split(",")


def ctas_of_helpers(options: dict[str, Any], processes: int) -> int:
    """Multiprocessors for each: where processes run side by side (MPS), all of them find room beside their leader."""
    of_leader = int(options.get("max_ctas") or os.environ.get("LANECAST_MAX_CTAS") or 0)
    return max(1, (of_leader or _MOST_CTAS) // processes)


def chosen(core: Any, asked: tuple[int, int, int], gpu: int) -> tuple[str, int]:
    """Algorithm and chunks of slices: what the leaders' times of links say; within a host, where slices need none,
    what the user has set. asked: kind, elements, dtype. Collective where the GPU is not open yet."""
    core.open_gpu(gpu)
    found = core.explain_on_gpu(*asked, False, False)
    if core.gpu_messages() or found["decided_by"] == "pinned":
        return found["algorithm"], found["chunks"]
    return "", 0


def move_slice(core: Any, call: Bound, index: int, slices: int) -> None:
    """By this process's own communicator; returns when it is done."""
    core.enqueue_slice(index, slices, *call)
    core.synchronize()


def start_slice(core: Any, held: Any, call: Bound, index: int, slices: int) -> DeviceWork:
    """The same beside the caller's stream, which goes on. held: the communicator's started calls."""
    tensors = (call.source.owner, call.target.owner)
    own = core.enqueue_slice_async(index, slices, *call)
    return DeviceWork(own, held, call.target.later_streams(), tensors)


class Borrowed:
    """A leader's buffers in this process, mapped until close()."""

    def __init__(self, places: Sequence[Place], dtype: int) -> None:
        """Raises UsageError where this process does not see the GPU."""
        self._mapped: dict[str, Any] = {}  # each allocation once, whatever lies in it
        self.buffers = [self._buffer(place, dtype) for place in places]

    def _buffer(self, place: Place, dtype: int) -> DeviceBuffer:
        assert place.gpu is not None
        handle = place.gpu["handle"]
        if handle not in self._mapped:
            self._mapped[handle] = _core.SliceMemory(place.gpu["bus_id"], bytes.fromhex(handle), 0)
        memory = self._mapped[handle]
        address, size = memory.address + place.gpu["offset"], place.bytes // itemsize(_core.DTYPES[dtype])
        return DeviceBuffer(address, dtype, size, memory.device, memory, self._stream)

    def _stream(self) -> int:
        """One for both buffers, and nobody else's."""
        return int(next(iter(self._mapped.values())).stream)

    def close(self) -> None:
        self.buffers.clear()
        self._mapped.clear()
