# SPDX-License-Identifier: Apache-2.0
"""Memory of a process's own in which slices of a buffer are moved that the process cannot use where it lies."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lanecast.helpers.memory import Bytes, address_of, read_from, write_to
from lanecast.helpers.slices import Range


class Original(Protocol):
    """The buffer itself. Copies are of bytes [at, at + size), from or to an address of this process."""

    def read(self, into: int, at: int, size: int) -> None:
        """From the buffer."""

    def write(self, source: int, at: int, size: int) -> None:
        """To it."""


@dataclass(frozen=True)
class OfProcess:
    """One in another process's memory. Raises OSError."""

    pid: int
    address: int

    def read(self, into: int, at: int, size: int) -> None:
        read_from(self.pid, into, self.address + at, size)

    def write(self, source: int, at: int, size: int) -> None:
        write_to(self.pid, source, self.address + at, size)


class Images:
    """Room for both buffers of a call, kept from call to call; what no slice touches never gets a page."""

    def __init__(self) -> None:
        self._rooms = {name: np.empty(0, np.uint8) for name in ("both", "input", "output")}

    def of(self, places: Sequence[tuple[int, int]]) -> list[Bytes]:
        """Images of buffers at these addresses, of so many bytes; where the buffers overlap, their images do."""
        (first, length), (second, other) = places
        begin, end = min(first, second), max(first + length, second + other)
        if end - begin < length + other:
            whole = self._room("both", end - begin)
            return [whole[address - begin : address - begin + size] for address, size in places]
        return [self._room(name, size) for name, (_, size) in zip(("input", "output"), places, strict=True)]

    def _room(self, name: str, size: int) -> Bytes:
        if self._rooms[name].size < size:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
            self._rooms[name] = np.frombuffer(mmap.mmap(-1, size, flags=flags), np.uint8)
        return self._rooms[name][:size]


def fetch(image: Bytes, original: Original, pieces: Sequence[Range], element: int) -> None:
    """Fill the image of these pieces, in elements of so many bytes."""
    for first, count in pieces:
        original.read(address_of(image) + first * element, first * element, count * element)


def put_back(image: Bytes, original: Original, pieces: Sequence[Range], element: int) -> None:
    """The other way."""
    for first, count in pieces:
        original.write(address_of(image) + first * element, first * element, count * element)
