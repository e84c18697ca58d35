# SPDX-License-Identifier: Apache-2.0
"""Payloads in a GPU's memory: the numbers of lanecast.bench.payload, made and compared there."""

from __future__ import annotations

from functools import reduce
from typing import Any

from lanecast import _core
from lanecast.bench.payload import ELEMENT_STEP, POISON, SIGN_BIT, Case, drawn_from_bit, offset, value_range
from lanecast.dtypes import itemsize, torch_dtype

_ALIGNMENT_BYTES = 512  # as torch's allocator aligns


class TorchLibrary:
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
