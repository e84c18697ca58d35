# SPDX-License-Identifier: Apache-2.0
"""A collective with all that the core wants to know, and the checks that its arguments share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple

from lanecast import _core
from lanecast._core import DeviceBuffer
from lanecast.buffers import Buffer, as_buffer, require_together, rows
from lanecast.device_buffers import device_buffer
from lanecast.work import Work

KIND = {name: number for number, name in enumerate(_core.KINDS)}
SUM = _core.OPS.index("sum")
NONE: tuple[int, ...] = ()  # counts where none are given
_GATHERING = (KIND["all_gather"], KIND["gather"])  # first that of all ranks, then that of the root
_SCATTERING = (KIND["reduce_scatter"], KIND["scatter"])
_ALL_TO_ALL = KIND["all_to_all"]
_INT64 = _core.DTYPES.index("int64")
# Collectives on one tensor: is it written where a rank is not the root, and where it is?
_ONE_TENSOR = {KIND["all_reduce"]: (True, True), KIND["broadcast"]: (True, False), KIND["reduce"]: (False, True)}


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


class CountsOnDevice(NamedTuple):
    """Of an all-to-all: tensors of split sizes, which the host does not look at, and how many rows each may be."""

    input_split_sizes: Any
    output_split_sizes: Any
    bound: int


# What a method was asked for, its buffers still unseen: kind, input, output, op, algorithm, chunks, root, reproducible.
# A plain tuple, which the core takes as it is: a named one takes a tenth of a small call to make.
Asked = tuple[int, Any, Any, int, str, int, int, bool | None]


class Calls(ABC):
    """What the methods of collectives share; what becomes of a call is up to the class that has them."""

    rank: int
    size: int

    @abstractmethod
    def _make(self, asked: Asked, async_op: bool, counts: Any = NONE) -> Work | None:
        """The one way from all methods on. counts: as the caller gave them; of all_to_all the two lists of sizes."""

    def _bound(self, asked: Asked, counts: Any) -> Bound:
        """The call with its buffers looked at. Raises UsageError, naming the argument, for those that do not fit."""
        kind, input, output, op, algorithm, chunks, root, reproducible = asked
        source: Buffer | DeviceBuffer
        target: Buffer | DeviceBuffer
        if kind in _ONE_TENSOR:
            source = target = as_buffer(output, "tensor", self.rank, written=_ONE_TENSOR[kind][self.rank == root])
            count, counts = source.size, ()
        elif kind == _ALL_TO_ALL:
            source, target = self._pair(input, output)
            own = [] if isinstance(counts, CountsOnDevice) else self._shares(input, output, source, target, counts)
            count = 0 if own else source.size // self.size
            sends, receives = own or ((), ())
            return Bound(
                kind, source.view, target.view, source.dtype, op, count, (), algorithm, chunks, 0, sends, receives
            )
        elif kind in _GATHERING:
            if kind == _GATHERING[0] or self.rank == root:
                source, target = self._pair(input, output)
                self._check_sizes("output", target.size, "input", source.size, counts)
            else:
                source = target = as_buffer(input, "input", self.rank, written=False)
                self._check_sizes("output", None, "input", source.size, counts)
            count = source.size
        else:
            if kind == _SCATTERING[0] or self.rank == root:
                source, target = self._pair(input, output)
                self._check_sizes("input", source.size, "output", target.size, counts)
            else:
                source = target = as_buffer(output, "output", self.rank, written=True)
                self._check_sizes("input", None, "output", target.size, counts)
            count = target.size
        return Bound(
            kind, source.view, target.view, source.dtype, op, count, counts, algorithm, chunks, root, (), (),
            reproducible,
        )  # fmt: skip

    def _shares(
        self, input: Any, output: Any, source: Buffer | DeviceBuffer, target: Buffer | DeviceBuffer, given: Any
    ) -> list[list[int]]:
        """Elements to and from each rank; empty where all shares are equal. given: rows of input and of output."""
        sizes: list[list[int]] = []
        for name, value, buffer, wanted in zip(
            ("input", "output"), (input, output), (source, target), given or (None, None), strict=True
        ):
            length = rows(value, buffer)
            if wanted is None and length % self.size:
                raise self._refuse(f"{name} has {length} rows, which {self.size} ranks cannot share evenly")
            if wanted is None:
                shares = [length // self.size] * self.size
            else:
                shares = self._numbers(f"{name}_split_sizes", wanted)
            if len(shares) != self.size or min(shares) < 0 or sum(shares) != length:
                raise self._refuse(f"{name}_split_sizes needs {self.size} numbers that add up to {length}: {wanted}")
            unit = buffer.size // length if length else 0
            sizes.append([share * unit for share in shares])
        if given:
            return sizes
        if source.size != target.size:
            raise self._refuse(f"output has {target.size} elements and input {source.size}; they must be equal")
        return []

    def _on_device(self, asked: Asked, call: Bound, given: CountsOnDevice) -> tuple[Any, ...]:
        """As the core takes them. Raises UsageError, naming the argument, for what it cannot."""
        if not isinstance(call.source, DeviceBuffer):
            raise self._refuse("bound: is for tensors of a GPU, whose split sizes lie there; give none")
        found: list[DeviceBuffer] = []
        for name in ("input_split_sizes", "output_split_sizes"):
            sizes = device_buffer(getattr(given, name), name, self.rank, written=False)
            if sizes is None or sizes.dtype != _INT64 or sizes.size != self.size:
                raise self._refuse(f"{name}: with bound it is an int64 tensor of {self.size} numbers on the GPU")
            found.append(sizes)
        lengths = [rows(value, buffer) for value, buffer in zip(asked[1:3], (call.source, call.target), strict=True)]
        units = {
            buffer.size // length for buffer, length in zip((call.source, call.target), lengths, strict=True) if length
        }
        if len(units) > 1:
            raise self._refuse(f"rows of input and output have different lengths: {sorted(units)} elements")
        try:
            bound = index(given.bound)
        except TypeError:
            bound = -1
        if bound < 0:
            raise self._refuse(f"bound={given.bound!r}: expected the most rows that any split size may be")
        return (*found, bound, units.pop() if units else 1, *lengths)

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
