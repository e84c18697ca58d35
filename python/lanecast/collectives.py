# SPDX-License-Identifier: Apache-2.0
"""Collectives under the names of torch.distributed: from their arguments to one call of the core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lanecast.bound import KIND, NONE, SUM, Bound, Calls
from lanecast.buffers import as_buffer, rows
from lanecast.dtypes import op_code
from lanecast.work import Work


class Collectives(Calls):
    """Collectives in which every rank ends with a result."""

    def all_reduce(  # noqa: PLR0913  torch's arguments and ours
        self,
        tensor: Any,
        op: str = "sum",
        async_op: bool = False,
        *,
        algorithm: str = "",
        chunks: int = 0,
        reproducible: bool | None = None,
    ) -> Work | None:
        """Reduce `tensor` over all ranks, in place, so that every rank ends with the result.

        tensor: [count]; equal count and dtype on every rank. op: sum, prod, min, max, avg (floats), band, bor, bxor
        (integers). algorithm, chunks: override the choice; see `lanecast plan algorithms`. reproducible: the same bits
        whatever is chosen, see init(); default: the communicator's.
        Source: PCCL, section IV-A; the hierarchical form is the multi-lane all-reduce.
        Raises UsageError (argument, rank) at once; TimeoutError (peer, step, seconds) when a peer does not come.
        """
        operator = op_code(op, self.rank)
        if not (async_op or isinstance(tensor, np.ndarray)) and self._made_at_once(
            KIND["all_reduce"], tensor, tensor, operator, algorithm, chunks, 0, reproducible
        ):
            return None
        buffer = as_buffer(tensor, "tensor", self.rank, written=True)
        view = buffer.view
        call = Bound(
            KIND["all_reduce"], view, view, buffer.dtype, operator, buffer.size, (), algorithm, chunks,
            reproducible=reproducible,
        )  # fmt: skip
        return self._make(call, async_op)

    def all_gather_into_tensor(  # noqa: PLR0913  torch's arguments and ours
        self,
        output: Any,
        input: Any,
        async_op: bool = False,
        *,
        counts: Sequence[int] = NONE,
        algorithm: str = "",
        chunks: int = 0,
    ) -> Work | None:
        """Gather every rank's `input` into `output` on every rank, in rank order.

        output: [count * size]; input: [count]. With counts=[c0, c1, …], one per rank and equal on all: output
        [sum(counts)], input [counts[rank]]. In-place: `input` is this rank's slice of `output`.
        Source: PCCL, section IV-A. Raises as all_reduce does.
        """
        if not (async_op or isinstance(input, np.ndarray) or counts is not NONE) and self._made_at_once(
            KIND["all_gather"], input, output, SUM, algorithm, chunks
        ):
            return None
        source, target = self._pair(input, output)
        self._check_sizes("output", target.size, "input", source.size, counts)
        call = Bound(
            KIND["all_gather"], source.view, target.view, source.dtype, SUM, source.size, counts, algorithm, chunks
        )
        return self._make(call, async_op)

    def reduce_scatter_tensor(  # noqa: PLR0913
        self,
        output: Any,
        input: Any,
        op: str = "sum",
        async_op: bool = False,
        *,
        counts: Sequence[int] = NONE,
        algorithm: str = "",
        chunks: int = 0,
        reproducible: bool | None = None,
    ) -> Work | None:
        """Reduce `input` over all ranks and keep this rank's share in `output`.

        output: [count]; input: [count * size]. With counts=[c0, c1, …], one per rank and equal on all: output
        [counts[rank]], input [sum(counts)]. In-place: `output` is this rank's slice of `input`; the rest of `input`
        keeps its values. op and reproducible as in all_reduce. Source: PCCL, section IV-A. Raises as all_reduce does.
        """
        operator = op_code(op, self.rank)
        if not (async_op or isinstance(input, np.ndarray) or counts is not NONE) and self._made_at_once(
            KIND["reduce_scatter"], input, output, operator, algorithm, chunks, 0, reproducible
        ):
            return None
        source, target = self._pair(input, output)
        self._check_sizes("input", source.size, "output", target.size, counts)
        call = Bound(
            KIND["reduce_scatter"], source.view, target.view, source.dtype, operator, target.size, counts, algorithm,
            chunks, reproducible=reproducible,
        )  # fmt: skip
        return self._make(call, async_op)

    def all_to_all_single(  # noqa: PLR0913
        self,
        output: Any,
        input: Any,
        output_split_sizes: Sequence[int] | None = None,
        input_split_sizes: Sequence[int] | None = None,
        async_op: bool = False,
        *,
        algorithm: str = "",
        chunks: int = 0,
    ) -> Work | None:
        """Send the r-th share of `input` to rank r, and gather in `output` what the ranks sent here, in rank order.

        output, input: [count * size], cut into equal shares. With split sizes, on every rank or on none: rows (first
        dimension) for each rank, those of `input` equal on it and on the receiver; one left out cuts its tensor evenly.
        Never in-place. Source: Bruck et al., and the pairwise exchange. Raises as all_reduce does.
        """
        source, target = self._pair(input, output)
        sizes: list[list[int]] = []
        for name, value, buffer, given in (
            ("input", input, source, input_split_sizes), ("output", output, target, output_split_sizes)
        ):  # fmt: skip
            length = rows(value, buffer)
            if given is None and length % self.size:
                raise self._refuse(f"{name} has {length} rows, which {self.size} ranks cannot share evenly")
            shares = [length // self.size] * self.size if given is None else self._numbers(f"{name}_split_sizes", given)
            if len(shares) != self.size or min(shares) < 0 or sum(shares) != length:
                raise self._refuse(f"{name}_split_sizes needs {self.size} numbers that add up to {length}: {given}")
            unit = buffer.size // length if length else 0
            sizes.append([share * unit for share in shares])
        even = input_split_sizes is None and output_split_sizes is None
        if even and source.size != target.size:
            raise self._refuse(f"output has {target.size} elements and input {source.size}; they must be equal")
        count, own = (source.size // self.size, ((), ())) if even else (0, sizes)
        call = Bound(
            KIND["all_to_all"], source.view, target.view, source.dtype, SUM, count, (), algorithm, chunks, 0, *own
        )
        return self._make(call, async_op)
