# SPDX-License-Identifier: Apache-2.0
"""The ranks that call collectives together, under the names of torch.distributed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lanecast import _core
from lanecast.buffers import Array, as_array, as_bytes_view, dtype_code, op_code
from lanecast.explanation import Candidate, Explanation

_ALL_GATHER, _REDUCE_SCATTER, _ALL_REDUCE = range(3)
_SUM = _core.OPS.index("sum")


def _call_codes(collective: str, count: int, dtype: str) -> tuple[int, int, int]:
    if collective not in _core.KINDS:
        raise _core.UsageError(f"collective {collective!r} is unknown; known: {', '.join(_core.KINDS)}")
    if dtype not in _core.DTYPES:
        raise _core.UsageError(f"dtype {dtype!r} is unknown; known: {', '.join(_core.DTYPES)}")
    return _core.KINDS.index(collective), count, _core.DTYPES.index(dtype)


class Work:
    """A call under way, made with async_op=True."""

    def __init__(self, core: _core.Work) -> None:
        self._core = core

    def wait(self) -> None:
        """Block until this rank's buffers may be used again; never a barrier.

        Raises TimeoutError (peer, step, seconds) or TransportError; Ctrl-C ends the wait.
        """
        self._core.wait()

    def is_completed(self) -> bool:
        """True when the call is done, also after an error, which wait() then raises."""
        return self._core.is_completed()


class Communicator:
    """Ranks that call collectives together, in the same order on each.

    Made by lanecast.init(), lanecast.from_mpi(), lanecast.run_threads() or split(). Arrays are numpy arrays or anything
    with the buffer protocol, contiguous, with the same dtype on every rank. In-place means what it means to NCCL: the
    input lies where the output holds this rank's share. After an error other than UsageError a communicator has failed;
    each further call says so, and a new one works.
    """

    def __init__(self, core: _core.Communicator) -> None:
        self._core = core  # first, so that it goes before the arrays that its calls still use
        self._under_way: list[Work] = []  # with their arrays, which a caller may drop without waiting
        self.rank: int = core.rank
        self.size: int = core.size

    @property
    def topology(self) -> _core.Topology:
        """Which rank sits where."""
        return self._core.topology

    @property
    def transports(self) -> str:
        """What messages of this rank go over, such as "shm+mpi"."""
        return self._core.transports

    def all_reduce(
        self, tensor: Any, op: str = "sum", async_op: bool = False, *, algorithm: str = "", chunks: int = 0
    ) -> Work | None:
        """Reduce `tensor` over all ranks, in place, so that every rank ends with the result.

        tensor: [count]; equal count and dtype on every rank. op: sum, prod, min, max, avg (floats), band, bor, bxor
        (integers). algorithm, chunks: override the choice; see `lanecast plan algorithms`.
        Source: PCCL, section IV-A; the hierarchical form is the multi-lane all-reduce.
        Raises UsageError (argument, rank) at once; TimeoutError (peer, step, seconds) when a peer does not come.
        """
        array = as_array(tensor, "tensor", self.rank, written=True)
        code = dtype_code(array, "tensor", self.rank)
        view = as_bytes_view(array)
        operator = op_code(op, self.rank)
        return self._call(_ALL_REDUCE, view, view, code, operator, array.size, (), algorithm, chunks, async_op)

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
        source = as_array(input, "input", self.rank, written=False)
        target = as_array(output, "output", self.rank, written=True)
        code = self._same_dtype(source, target)
        self._check_sizes("output", target.size, "input", source.size, counts)
        return self._call(
            _ALL_GATHER, as_bytes_view(source), as_bytes_view(target), code, _SUM, source.size, counts, algorithm,
            chunks, async_op,
        )  # fmt: skip

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
        source = as_array(input, "input", self.rank, written=False)
        target = as_array(output, "output", self.rank, written=True)
        code = self._same_dtype(source, target)
        self._check_sizes("input", source.size, "output", target.size, counts)
        return self._call(
            _REDUCE_SCATTER, as_bytes_view(source), as_bytes_view(target), code, op_code(op, self.rank), target.size,
            counts, algorithm, chunks, async_op,
        )  # fmt: skip

    def split(self, color: int, key: int = 0) -> Communicator | None:
        """Make one communicator of all ranks with the same color, ordered by key, then by rank.

        Collective over this communicator; a negative color takes no part and gets None. The child keeps what remains of
        the topology and may outlive its parent.
        """
        core = self._core.split(color, key)
        return None if core is None else Communicator(core)

    def chosen(self, collective: str, count: int, dtype: str = "float32") -> tuple[str, int]:
        """Algorithm and number of chunks that a call would take; count as in the call, elements per part."""
        algorithm, chunks = self._core.chosen(*_call_codes(collective, count, dtype))
        return algorithm, chunks

    def explain(self, collective: str, count: int, dtype: str = "float32") -> Explanation:
        """Why a call takes what chosen() says: all candidates with predicted times, and a sentence; print it.

        Predictions come from the profile that `lanecast tune` has measured here, else from assumed speeds of links.
        """
        codes = _call_codes(collective, count, dtype)
        algorithm, chunks = self._core.chosen(*codes)
        candidates = tuple(Candidate(**each) for each in self._core.candidates(*codes))
        return Explanation(collective, self._core.full_bytes(*codes), algorithm, chunks, candidates)

    def __repr__(self) -> str:
        return f"<lanecast.Communicator rank {self.rank} of {self.size}, {self.topology}, {self.transports}>"

    def _same_dtype(self, source: Array, target: Array) -> int:
        code = dtype_code(source, "input", self.rank)
        if source.dtype != target.dtype:
            raise _core.UsageError(
                f"rank {self.rank}: output has dtype {target.dtype}, input {source.dtype}; they must be equal"
            )
        return code

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

    def _call(  # noqa: PLR0913, PLR0917  one line to the binding
        self,
        kind: int,
        source: Array,
        target: Array,
        dtype: int,
        op: int,
        count: int,
        counts: Sequence[int],
        algorithm: str,
        chunks: int,
        async_op: bool,
    ) -> Work | None:
        try:
            if not async_op:
                self._core.run(kind, source, target, dtype, op, count, counts, algorithm, chunks)
                return None
            work = Work(self._core.start(kind, source, target, dtype, op, count, counts, algorithm, chunks))
        except TypeError:
            raise _core.UsageError(
                f"rank {self.rank}: counts={counts!r}, algorithm={algorithm!r}, chunks={chunks!r}: "
                "expected whole numbers, a name and a number"
            ) from None
        self._under_way = [other for other in self._under_way if not other.is_completed()] + [work]
        return work
