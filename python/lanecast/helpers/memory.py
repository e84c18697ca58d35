# SPDX-License-Identifier: Apache-2.0
"""Memory that a leader owns and its helpers map: nameless files, which go with the last process that maps them."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanecast import _core

Bytes = npt.NDArray[np.uint8]
_MOST_PER_CALL = 1 << 30  # of process_vm_readv, which stops short of 2 GiB


@dataclass(frozen=True)
class Place:
    """Where a leader's buffer lies: in the shared memory of this number, or (segment < 0) at an address of its own."""

    segment: int
    offset: int
    bytes: int
    gpu: dict[str, Any] | None = None  # where a GPU's memory is found: bus_id, handle, offset


def address_of(array: Any) -> int:
    """Of any contiguous array."""
    address: int = np.asarray(array).__array_interface__["data"][0]
    return address


class OwnedMemory:
    """The leader's segments; each goes when no array lies in it any more."""

    def __init__(self, rank: int, announce: Callable[[int, int, int], None], forget: Callable[[int], None]) -> None:
        """announce(segment, file, bytes) tells the helpers of a new one, forget(segment) of one that has gone."""
        self._rank = rank
        self._announce, self._forget = announce, forget
        self._segments: dict[int, tuple[int, int]] = {}  # number → address, bytes
        self._made = 0

    def empty(self, count: int, dtype: Any) -> npt.NDArray[Any]:
        """A new array, zeros. Raises UsageError (rank), and OSError where the host has no memory left."""
        kind = np.dtype(dtype)
        size = max(1, count * kind.itemsize)
        file = os.memfd_create("lanecast-helpers")
        try:
            os.posix_fallocate(file, 0, size)  # here, and not by a signal where a page is first touched
            mapped = mmap.mmap(file, size)
            self._made += 1
            self._announce(self._made, file, size)
        except OSError as error:
            raise _core.TransportError(
                f"rank {self._rank}: shared_empty: {size} bytes of shared memory: {error.strerror}"
            ) from None
        finally:
            os.close(file)
        whole: Bytes = np.frombuffer(mapped, np.uint8)
        self._segments[self._made] = (address_of(whole), size)
        weakref.finalize(mapped, self._gone, self._made)
        return whole[: count * kind.itemsize].view(kind)

    def place_of(self, array: Any) -> Place:
        """Where it lies."""
        address, size = address_of(array), int(array.nbytes)
        for segment, (begin, length) in self._segments.items():
            if begin <= address and address + size <= begin + length:
                return Place(segment, address - begin, size)
        return Place(-1, address, size)

    def _gone(self, segment: int) -> None:
        self._segments.pop(segment, None)
        self._forget(segment)


class MappedMemory:
    """A helper's view of it."""

    def __init__(self) -> None:
        self._segments: dict[int, Bytes] = {}

    def map(self, segment: int, file: int, size: int) -> None:
        try:
            self._segments[segment] = np.frombuffer(mmap.mmap(file, size), np.uint8)
        finally:
            os.close(file)

    def unmap(self, segment: int) -> None:
        self._segments.pop(segment, None)

    def at(self, place: Place) -> Bytes:
        return self._segments[place.segment][place.offset : place.offset + place.bytes]


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t))


def _transfer(name: str, pid: int, local: int, remote: int, size: int) -> None:
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype = ctypes.c_ssize_t
    done = 0
    while done < size:
        part = min(size - done, _MOST_PER_CALL)
        here, there = _IoVec(local + done, part), _IoVec(remote + done, part)
        moved = function(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        if moved <= 0:
            raise OSError(ctypes.get_errno(), f"{name} of process {pid}: {os.strerror(ctypes.get_errno())}")
        done += moved


def read_from(pid: int, local: int, remote: int, size: int) -> None:
    """Copies from another process's memory, addresses as each knows them. Raises OSError."""
    _transfer("process_vm_readv", pid, local, remote, size)


def write_to(pid: int, local: int, remote: int, size: int) -> None:
    """The other way."""
    _transfer("process_vm_writev", pid, local, remote, size)
