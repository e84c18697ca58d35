# SPDX-License-Identifier: Apache-2.0
"""Collectives under the names of torch.distributed: from their arguments to one call of the core."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from lanecast import _core
from lanecast.buffers import Array, Buffer, as_buffer, op_code
from lanecast.work import Work

_KIND = {name: number for number, name in enumerate(_core.KINDS)}
_SUM = _core.OPS.index("sum")


class Bound(NamedTuple):
    """A collective with all that the core wants to know, in its order."""

    kind: int
    source: Array
    target: Array
    dtype: int
    op: int
    count: int
    counts: Sequence[int]
    algorithm: str
    chunks: int


class Collectives(ABC):
    """The methods; what becomes of a call is up to the class that has them."""

    rank: int
    size: int

    @abstractmethod
    def _make(self, call: Bound, async_op: bool) -> Any: ...

    def all_reduce(
        self, tensor: Any, op: str = "sum", async_op: bool = False, *, algorithm: str = "", chunks: int = 0
    ) -> Work | None:
        """Reduce `tensor` over all ranks, in place, so that every rank ends with the result.

        tensor: [count]; equal count and dtype on every rank. op: sum, prod, min, max, avg (floats), band, bor, bxor
        (integers). algorithm, chunks: override the choice; see `lanecast plan algorithms`.
        Source: PCCL, section IV-A; the hierarchical form is the multi-lane all-reduce.
        Raises UsageError (argument, rank) at once; TimeoutError (peer, step, seconds) when a peer does not come.
        """
        buffer = as_buffer(tensor, "tensor", self.rank, written=True)
        view, operator = buffer.view, op_code(op, self.rank)
        call = Bound(_KIND["all_reduce"], view, view, buffer.dtype, operator, buffer.size, (), algorithm, chunks)
        return self._make(call, async_op)

    def all_gather_into_tensor(  # noqa: PLR0913  torch's arguments and ours
        self,
        output: Any,
        input: Any,
        async_op: bool = False,
        *,
        counts: Sequence[int] = (),
        algorithm: str = "",
        chunks: int = 0,
    ) -> Work | None:
        """Gather every rank's `input` into `output` on every rank, in rank order.

        output: [count * size]; input: [count]. With counts=[c0, c1, …], one per rank and equal on all: output
        [sum(counts)], input [counts[rank]]. In-place: `input` is this rank's slice of `output`.
        Source: PCCL, section IV-A. Raises as all_reduce does.
        """
        source, target = self._pair(input, output)
        self._check_sizes("output", target.size, "input", source.size, counts)
        call = Bound(
            _KIND["all_gather"], source.view, target.view, source.dtype, _SUM, source.size, counts, algorithm, chunks
        )
        return self._make(call, async_op)

    def reduce_scatter_tensor(  # noqa: PLR0913
        self,
        output: Any,
        input: Any,
        op: str = "sum",
        async_op: bool = False,
        *,
        counts: Sequence[int] = (),
        algorithm: str = "",
        chunks: int = 0,
    ) -> Work | None:
        """Reduce `input` over all ranks and keep this rank's share in `output`.

        output: [count]; input: [count * size]. With counts=[c0, c1, …], one per rank and equal on all: output
        [counts[rank]], input [sum(counts)]. In-place: `output` is this rank's slice of `input`; the rest of `input`
        keeps its values. op as in all_reduce. Source: PCCL, section IV-A. Raises as all_reduce does.
        """
        source, target = self._pair(input, output)
        self._check_sizes("input", source.size, "output", target.size, counts)
        operator = op_code(op, self.rank)
        call = Bound(
            _KIND["reduce_scatter"], source.view, target.view, source.dtype, operator, target.size, counts, algorithm,
            chunks,
        )  # fmt: skip
        return self._make(call, async_op)

    def _pair(self, input: Any, output: Any) -> tuple[Buffer, Buffer]:
        source = as_buffer(input, "input", self.rank, written=False)
        target = as_buffer(output, "output", self.rank, written=True)
        if source.dtype != target.dtype:
            names = _core.DTYPES
            raise _core.UsageError(
                f"rank {self.rank}: output has dtype {names[target.dtype]}, input {names[source.dtype]}; "
                "they must be equal"
            )
        return source, target

    def _check_sizes(self, whole: str, whole_size: int, share: str, share_size: int, counts: Sequence[int]) -> None:
        if len(counts) > 0:
            if len(counts) != self.size or min(counts) < 0:
                raise _core.UsageError(f"rank {self.rank}: counts needs {self.size} numbers, none negative: {counts}")
            expected = (sum(counts), counts[self.rank])
        else:
            expected = (share_size * self.size, share_size)
        if (whole_size, share_size) != expected:
            raise _core.UsageError(
                f"rank {self.rank}: {whole} has {whole_size} elements and {share} {share_size}; with {self.size} ranks "
                f"{whole} needs {expected[0]}" + (f" and {share} {expected[1]}" if len(counts) > 0 else "")
            )
