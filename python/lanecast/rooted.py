# SPDX-License-Identifier: Apache-2.0
"""Collectives with a root, under the names of torch.distributed."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from lanecast.bound import KIND, NONE, SUM, Calls
from lanecast.dtypes import op_code
from lanecast.work import Work


class Rooted(Calls):
    """Collectives in which one rank alone brings the data, or ends with them."""

    def broadcast(
        self, tensor: Any, src: int, async_op: bool = False, *, algorithm: str = "", chunks: int = 0
    ) -> Work | None:
        """Copy `tensor` of rank `src` to `tensor` of every rank.

        tensor: [count]; equal count and dtype on every rank. Raises as all_reduce does.
        """
        asked = (KIND["broadcast"], tensor, tensor, SUM, algorithm, chunks, self._root("src", src), None)
        return self._make(asked, async_op)

    def reduce(  # noqa: PLR0913
        self,
        tensor: Any,
        dst: int,
        op: str = "sum",
        async_op: bool = False,
        *,
        algorithm: str = "",
        chunks: int = 0,
        reproducible: bool | None = None,
    ) -> Work | None:
        """Reduce `tensor` over all ranks into `tensor` of rank `dst`; the others' keep their values.

        tensor: [count]; equal count and dtype on every rank. op and reproducible as in all_reduce. Raises as
        all_reduce does.
        """
        root = self._root("dst", dst)
        asked = (KIND["reduce"], tensor, tensor, op_code(op, self.rank), algorithm, chunks, root, reproducible)
        return self._make(asked, async_op)

    def gather(  # noqa: PLR0913
        self,
        output: Any,
        input: Any,
        dst: int = 0,
        async_op: bool = False,
        *,
        counts: Sequence[int] = NONE,
        algorithm: str = "",
        chunks: int = 0,
    ) -> Work | None:
        """Gather every rank's `input` into `output` of rank `dst`, in rank order.

        output: [count * size] on `dst`, None elsewhere; input: [count]. With counts=[c0, c1, …], one per rank and equal
        on all: output [sum(counts)], input [counts[rank]]. In-place: `input` is the slice of `dst` in `output`.
        Raises as all_reduce does.
        """
        asked = (KIND["gather"], input, output, SUM, algorithm, chunks, self._root("dst", dst), None)
        return self._make(asked, async_op, counts)

    def scatter(  # noqa: PLR0913
        self,
        output: Any,
        input: Any,
        src: int = 0,
        async_op: bool = False,
        *,
        counts: Sequence[int] = NONE,
        algorithm: str = "",
        chunks: int = 0,
    ) -> Work | None:
        """Send the r-th share of `input` of rank `src` to `output` of rank r.

        output: [count]; input: [count * size] on `src`, None elsewhere. With counts=[c0, c1, …], one per rank and equal
        on all: output [counts[rank]], input [sum(counts)]. In-place: `output` is the slice of `src` in `input`.
        Raises as all_reduce does.
        """
        asked = (KIND["scatter"], input, output, SUM, algorithm, chunks, self._root("src", src), None)
        return self._make(asked, async_op, counts)

    def _root(self, name: str, rank: int) -> int:
        try:
            root = index(rank)
        except TypeError:
            raise self._refuse(f"{name}={rank!r}: expected a rank") from None
        if not 0 <= root < self.size:
            raise self._refuse(f"{name}: rank {root} is outside 0 to {self.size - 1}")
        return root
