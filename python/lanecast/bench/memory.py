# SPDX-License-Identifier: Apache-2.0
"""The memory that collectives are measured on, the CPU's or a GPU's: it gives buffers, fills them and compares them."""

from __future__ import annotations

from functools import reduce
from typing import Any, Protocol

import numpy as np

from lanecast import _core
from lanecast.bench.cases import ELEMENT_STEP, POISON, SIGN_BIT, Case, drawn_from_bit, offset, value_range
from lanecast.buffers import Array
from lanecast.dtypes import itemsize, numpy_dtype, torch_dtype

_ALIGNMENT_BYTES = 512  # as torch's allocator aligns

_COMBINE = {
    "sum": np.add, "avg": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum,
    "band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor,
}  # fmt: skip


class Memory(Protocol):
    """Where the buffers of a payload lie, and what fills and compares their elements there."""

    block: int  # elements made at a time

    def buffer(self, count: int, dtype: str) -> Any:
        """Memory that the calls are made on."""

    def empty(self, count: int, dtype: str) -> Any:
        """Memory that no call sees."""

    def poison(self, target: Any) -> None:
        """Fill with what no call makes."""

    def values(self, case: Case, rank: int, first: int, last: int) -> Any:
        """Elements first to last of what `rank` brings."""

    def reduced(self, case: Case, first: int, last: int) -> Any:
        """Elements first to last of all ranks' reduction."""

    def differing(self, one: Any, other: Any) -> int:
        """Elements that are not equal."""


class HostMemory:
    """The CPU's."""

    block = 1 << 18  # temporaries stay in the cache

    def buffer(self, count: int, dtype: str) -> Array:
        return np.empty(count, numpy_dtype(dtype))

    empty = buffer

    def poison(self, target: Array) -> None:
        target.view(np.uint8)[:] = POISON

    def values(self, case: Case, rank: int, first: int, last: int) -> Array:
        dtype = numpy_dtype(case.dtype)
        index = np.arange(first, last, dtype=np.uint32)
        mixed = index * np.uint32(ELEMENT_STEP) + np.uint32(offset(case, rank))
        small = (mixed >> np.uint32(drawn_from_bit(case))) & np.uint32(value_range(case) - 1)
        if not case.reduces or case.op not in {"prod", "avg"}:
            return small.astype(dtype)
        if case.op == "avg":  # multiples of the number of ranks, so that the division leaves no rest
            return (small * np.uint32(case.ranks)).astype(dtype)
        one = np.ones((), dtype)
        return np.where(mixed & np.uint32(SIGN_BIT), one, np.negative(one))

    def reduced(self, case: Case, first: int, last: int) -> Array:
        brought = (self.values(case, rank, first, last) for rank in range(case.ranks))
        result: Array = reduce(_COMBINE[case.op], brought)
        return result / case.ranks if case.op == "avg" else result

    def differing(self, one: Array, other: Array) -> int:
        return int(np.count_nonzero(one != other))


class TorchMemory:
    """Buffers cut one after the other from one tensor of bytes; a new one of these begins anew."""

    block = 1 << 24  # large enough for the device, and small beside the buffers

    def __init__(self, arena: Any) -> None:
        import torch

        self._torch, self._arena = torch, arena
        self._used_bytes = 0

    def buffer(self, count: int, dtype: str) -> Any:
        begin, size = self._used_bytes, count * itemsize(dtype)
        if begin + size > len(self._arena):
            raise _core.InternalError(f"{begin + size} bytes of buffers, and room for {len(self._arena)}")
        self._used_bytes += -(-size // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        return self._arena[begin : begin + size].view(torch_dtype(dtype))

    def empty(self, count: int, dtype: str) -> Any:
        return self._torch.empty(count, dtype=torch_dtype(dtype), device=self._arena.device)

    def poison(self, target: Any) -> None:
        target.view(self._torch.uint8).fill_(POISON)

    def values(self, case: Case, rank: int, first: int, last: int) -> Any:
        return self._cast(self._whole(case, rank, first, last), case.dtype)

    def reduced(self, case: Case, first: int, last: int) -> Any:
        combine = {
            "sum": self._torch.add, "avg": self._torch.add, "prod": self._torch.mul, "min": self._torch.minimum,
            "max": self._torch.maximum, "band": self._torch.bitwise_and, "bor": self._torch.bitwise_or,
            "bxor": self._torch.bitwise_xor,
        }[case.op]  # fmt: skip
        whole = reduce(combine, (self._whole(case, rank, first, last) for rank in range(case.ranks)))
        if case.op == "avg":
            whole = whole.div_(case.ranks, rounding_mode="floor")
        return self._cast(whole, case.dtype)

    def differing(self, one: Any, other: Any) -> int:
        # By their bits: not every type can be compared on every device.
        torch = self._torch
        bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[one.element_size()]
        return int(torch.count_nonzero(one.view(bits) != other.view(bits)).item())

    def _whole(self, case: Case, rank: int, first: int, last: int) -> Any:
        """As whole numbers, which all values are, and all that reductions make of them."""
        mixed = self._torch.arange(first, last, dtype=self._torch.int64, device=self._arena.device)
        mixed = mixed.mul_(ELEMENT_STEP).add_(offset(case, rank))  # wraps at 2^64, and the lower 32 bits count
        if case.reduces and case.op == "prod":
            return 1 - 2 * ((mixed & SIGN_BIT) == 0).to(self._torch.int64)
        small = mixed.bitwise_right_shift_(drawn_from_bit(case)).bitwise_and_(value_range(case) - 1)
        return small * case.ranks if case.reduces and case.op == "avg" else small

    def _cast(self, whole: Any, dtype: str) -> Any:
        kind = torch_dtype(dtype)
        through = whole.to(self._torch.float32) if kind.is_floating_point and kind.itemsize < 4 else whole
        return through.to(kind)
