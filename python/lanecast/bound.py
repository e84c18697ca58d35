# SPDX-License-Identifier: Apache-2.0
"""A collective with all that the core wants to know, and the checks that its arguments share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple

from lanecast import _core
from lanecast._core import DeviceBuffer
from lanecast.buffers import Buffer, as_buffer, require_together
from lanecast.work import Work

KIND = {name: number for number, name in enumerate(_core.KINDS)}
SUM = _core.OPS.index("sum")
NONE: tuple[int, ...] = ()  # counts where none are given


class Bound(NamedTuple):
    """In the order of the core's arguments."""

    kind: int
    source: Any  # an Array or a DeviceBuffer, and so is the target
    target: Any
    dtype: int
    op: int
    part_count: int  # elements of each part, unless counts say
    counts: Sequence[int]
    algorithm: str
    chunks: int
    root: int = 0
    send_counts: Sequence[int] = ()
    recv_counts: Sequence[int] = ()
    reproducible: bool | None = None


class Calls(ABC):
    """What the methods of collectives share; what becomes of a call is up to the class that has them."""

    rank: int
    size: int

    def _made_at_once(self, *call: Any) -> bool:
        """Make a blocking call on a GPU's tensors that leave nothing to ask; False, with nothing done, for all else.

        call: kind, source, target, op, algorithm, chunks, root, reproducible. Others leave all to _make().
        """
        return False

    @abstractmethod
    def _make(self, call: Bound, async_op: bool) -> Work | None: ...

    def _refuse(self, what: str) -> _core.UsageError:
        return _core.UsageError(f"rank {self.rank}: {what}")

    def _numbers(self, name: str, given: Sequence[int]) -> list[int]:
        try:
            return [index(number) for number in given]
        except TypeError:
            raise self._refuse(f"{name}={given!r}: expected {self.size} whole numbers") from None

    def _pair(self, input: Any, output: Any) -> tuple[Buffer | DeviceBuffer, Buffer | DeviceBuffer]:
        source = as_buffer(input, "input", self.rank, written=False)
        target = as_buffer(output, "output", self.rank, written=True)
        if source.dtype != target.dtype:
            names = _core.DTYPES
            raise self._refuse(
                f"output has dtype {names[target.dtype]}, input {names[source.dtype]}; they must be equal"
            )
        require_together(source, target, self.rank)
        return source, target

    def _check_sizes(
        self, whole: str, whole_size: int | None, share: str, share_size: int, counts: Sequence[int]
    ) -> None:
        """The share of this rank and the whole, None where this rank has none of it."""
        numbers = self._numbers("counts", counts)
        if numbers:
            if len(numbers) != self.size or min(numbers) < 0:
                raise self._refuse(f"counts needs {self.size} numbers, none negative: {counts}")
            expected = (sum(numbers), numbers[self.rank])
        else:
            expected = (share_size * self.size, share_size)
        if whole_size is None:
            if share_size != expected[1]:
                raise self._refuse(f"{share} has {share_size} elements, and counts say {expected[1]}")
        elif (whole_size, share_size) != expected:
            raise self._refuse(
                f"{whole} has {whole_size} elements and {share} {share_size}; with {self.size} ranks "
                f"{whole} needs {expected[0]}" + (f" and {share} {expected[1]}" if numbers else "")
            )
