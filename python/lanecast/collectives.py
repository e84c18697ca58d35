# SPDX-License-Identifier: Apache-2.0
"""Collectives under the names of torch.distributed: from their arguments to one call of the core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lanecast.bound import KIND, NONE, SUM, Calls, CountsOnDevice
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
        asked = (KIND["all_reduce"], tensor, tensor, operator, algorithm, chunks, 0, reproducible)
        return self._make(asked, async_op)

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
        return self._make((KIND["all_gather"], input, output, SUM, algorithm, chunks, 0, None), async_op, counts)

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
        asked = (KIND["reduce_scatter"], input, output, operator, algorithm, chunks, 0, reproducible)
        return self._make(asked, async_op, counts)

    def all_to_all_single(  # noqa: PLR0913
        self,
        output: Any,
        input: Any,
        output_split_sizes: Any = None,
        input_split_sizes: Any = None,
        async_op: bool = False,
        *,
        bound: int | None = None,
        algorithm: str = "",
        chunks: int = 0,
    ) -> Work | None:
        """Send the r-th share of `input` to rank r, and gather in `output` what the ranks sent here, in rank order.

        output, input: [count * size], cut into equal shares. With split sizes, on every rank or on none: rows (first
        dimension) for each rank, those of `input` equal on it and on the receiver; one left out cuts its tensor evenly.
        Never in-place.
        Split sizes may lie in a GPU's memory, between hosts: two int64 tensors [size], and bound, the most rows of any
        of them. output and input are as long as they may have to be; of output only what has come is written. A CUDA
        graph reads them anew in each replay. A split size that is not from 0 to bound, or sizes that do not fit the
        buffers or each other, end the communicator: synchronize() raises TransportError (argument, rank).
        Source: Bruck et al., and the pairwise exchange. Raises as all_reduce does.
        """
        even = input_split_sizes is None and output_split_sizes is None
        sizes: Any = NONE if even else (input_split_sizes, output_split_sizes)
        if bound is not None:
            sizes = CountsOnDevice(input_split_sizes, output_split_sizes, bound)
        return self._make((KIND["all_to_all"], input, output, SUM, algorithm, chunks, 0, None), async_op, sizes)
