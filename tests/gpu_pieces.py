# SPDX-License-Identifier: Apache-2.0
"""Memory that a program maps by itself on a GPU without a GPU (cuMemCreate, cuMemMap): pieces side by side, as torch's
expandable segments are, of which other processes map each by a file."""

from __future__ import annotations

import ctypes

import numpy as np

import gpu_host_library
from collective_cases import Array

PIECE = 2 << 20  # bytes, of which each piece has a multiple
BY_FILE = 1


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("device", ctypes.c_int))


class _Kind(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location", _Location),
        ("windows", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8),
    )  # fmt: skip


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class Pieces:
    """Of a rank's GPU; handle_types: of each piece, by which it may be shared."""

    def __init__(self, ordinal: int, handle_types: list[int]) -> None:
        self.ordinal, self.bytes, self._count = ordinal, PIECE * len(handle_types), len(handle_types)
        begin, where = ctypes.c_uint64(), _Location(1, ordinal)
        with gpu_host_library.entered(ordinal) as driver:
            assert driver.cuMemAddressReserve(ctypes.byref(begin), ctypes.c_size_t(self.bytes), 0, 0, 0) == 0
            for k, shared in enumerate(handle_types):
                handle, kind = ctypes.c_ulonglong(), _Kind(1, shared, where)
                at = ctypes.c_uint64(begin.value + k * PIECE)
                assert driver.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(PIECE), ctypes.byref(kind), 0) == 0
                assert driver.cuMemMap(at, ctypes.c_size_t(PIECE), 0, handle, 0) == 0
                assert driver.cuMemRelease(handle) == 0
            access = _Access(where, 3)
            assert driver.cuMemSetAccess(begin, ctypes.c_size_t(self.bytes), ctypes.byref(access), 1) == 0
        self.address = begin.value

    def floats(self) -> Array:
        return np.ctypeslib.as_array((ctypes.c_float * (self.bytes // 4)).from_address(self.address))

    def free(self) -> None:
        begin = ctypes.c_uint64(self.address)
        with gpu_host_library.entered(self.ordinal) as driver:
            for k in range(self._count):
                at = ctypes.c_uint64(self.address + k * PIECE)
                assert driver.cuMemUnmap(at, ctypes.c_size_t(PIECE)) == 0
            assert driver.cuMemAddressFree(begin, ctypes.c_size_t(self.bytes)) == 0
