# SPDX-License-Identifier: Apache-2.0
"""The buffers of one call, as their leader tells the helpers where they lie."""

from __future__ import annotations

from typing import Any

from lanecast import _core
from lanecast._core import DeviceBuffer
from lanecast.bound import Bound
from lanecast.dtypes import itemsize
from lanecast.helpers.memory import OwnedMemory, Place


class Buffers:
    """Input and output; a GPU's stay mapped by helpers during the call alone, so that none is freed while it is."""

    def __init__(self, call: Bound, memory: OwnedMemory, rank: int) -> None:
        """Waits for the stream that fills them. Raises UsageError (rank) in a capture, and for what nobody can map."""
        self.element = itemsize(_core.DTYPES[call.dtype])
        self.on_gpu = isinstance(call.source, DeviceBuffer)
        self.gpu_memory: list[Any] = []
        if not self.on_gpu:
            self.places = [memory.place_of(buffer) for buffer in (call.source, call.target)]
            return
        self.places = []
        for buffer in (call.source, call.target):
            size = buffer.size * self.element
            if buffer.device < 0:
                raise _core.UsageError(
                    f"rank {rank}: helpers: a buffer does not say on which GPU it lies; pass a tensor that does, as "
                    "torch's and cupy's do"
                )
            try:
                mapped = _core.SliceMemory(buffer, size)
            except _core.UsageError as error:
                raise _core.UsageError(f"rank {rank}: helpers: {error}") from None
            self.gpu_memory.append(mapped)
            gpu = {"bus_id": mapped.bus_id, "handle": mapped.handle.hex(), "offset": mapped.offset}
            self.places.append(Place(-1, buffer.address, size, gpu))

    @property
    def addresses(self) -> list[tuple[int, int]]:
        """With the bytes at each."""
        return [(place.offset, place.bytes) for place in self.places]

    @property
    def all_shared(self) -> bool:
        """Need nobody read this process's own memory?"""
        return self.on_gpu or all(place.segment >= 0 for place in self.places)
