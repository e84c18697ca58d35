# SPDX-License-Identifier: Apache-2.0
"""DLPack's table of functions, by which packages show their tensors without a call of Python's, for our own tensors."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any, NamedTuple

CUDA, ROCM = 2, 10


class DLTensor(ctypes.Structure):
    """In the order of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_DESCRIBE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
_STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class _Api(ctypes.Structure):
    """DLPackExchangeAPI."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("older", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("to_managed", ctypes.c_void_p),
        ("from_managed", ctypes.c_void_p),
        ("describe", _DESCRIBE),
        ("current_stream", _STREAM),
    )


class Described(NamedTuple):
    """What a tensor says of itself. dtype: torch's name of it, with or without "torch."."""

    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None  # in elements; None: contiguous
    ordinal: int = 0
    device: int = CUDA


def _dlpack_type(dtype: str) -> tuple[int, int]:
    """Code and bits."""
    found = re.fullmatch(r"(?:torch\.)?([a-z]+)(\d*)(_\w+)?", dtype)
    assert found is not None
    kind, bits, suffix = found.groups()
    codes = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5, "bool": 6}
    return {"_e4m3fn": 10, "_e5m2": 12}.get(suffix or "", codes[kind]), int(bits or 8)


def exchange_api(
    described: Callable[[Any], Described], stream: Callable[[int], int] = lambda _: 0, major: int = 1
) -> Any:
    """For the attribute __dlpack_c_exchange_api__ of a class. stream: the current one of a device's ordinal."""

    def describe(value: Any, out: Any) -> int:
        what = described(value)
        code, bits = _dlpack_type(what.dtype)
        numbers = ctypes.c_int64 * len(what.shape)
        shape = numbers(*what.shape)
        strides = numbers(*what.strides) if what.strides else ctypes.POINTER(ctypes.c_int64)()
        value.kept = shape, strides
        out[0] = DLTensor(what.address, what.device, what.ordinal, len(what.shape), code, bits, 1, shape, strides, 0)
        return 0

    def current_stream(_: int, ordinal: int, out: Any) -> int:
        out[0] = stream(ordinal)
        return 0

    api = _Api(major, 0, None, None, None, None, _DESCRIBE(describe), _STREAM(current_stream))
    _kept.append(api)
    return capsule(api, b"dlpack_exchange_api")


def capsule(of: ctypes.Structure, name: bytes) -> Any:
    """name: literal, since it has to stay as `of` does."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(ctypes.addressof(of), name, None)


_kept: list[_Api] = []
