# SPDX-License-Identifier: Apache-2.0
"""Compositions bound to buffers and ready to run, and the knobs that shape them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, TypeVar

import numpy as np

from lanecast import _core, topologies
from lanecast._core import DeviceBuffer
from lanecast.buffers import Buffer, as_buffer, require_together, where
from lanecast.compose.composition import Composition
from lanecast.dtypes import DTYPE_CODES
from lanecast.wording import counted
from lanecast.work import PersistentCall

Result = TypeVar("Result")
Hierarchy = Sequence[int] | str | _core.Topology | None


@dataclass(frozen=True)
class Knobs:
    """How to run a composition. None of it changes a result; all of it has to be equal on every rank.

    hierarchy: integer factors of the number of ranks, outermost level first; or a topology of any shape, also as text
    such as "3+2+4" or as a .toml file; None: the communicator's. stripe: ranks of a node that carry a part each of what
    leaves it; 0: all of them. ring: domains that form an open chain, as many as some level has; 1: trees only; 0: among
    the GPUs of one host a chain of all ranks where that is faster, else trees. chunks: pipeline depth; 0: by size.
    transports: one, or one per level of the hierarchy; (): the communicator's. verify: prove the plans of all ranks
    first; None: where there are at most 32. Source: HiCCL, section IV-A.
    """

    hierarchy: Hierarchy = None
    stripe: int = 0
    ring: int = 0
    chunks: int = 0
    transports: str | Sequence[str] = ()
    verify: bool | None = None

    def machine(self, real: _core.Topology) -> _core.Machine:
        """The shape on ranks that really sit like this. Raises UsageError where it does not fit."""
        return self._checked(lambda: _core.Machine(real, *self._hierarchy(real.size), self.stripe, self.ring))

    def to_core(self, size: int) -> _core.Knobs:
        """For the core's communicator."""
        knobs = _core.Knobs()

        def fill() -> None:
            knobs.factors, knobs.hierarchy = self._hierarchy(size)
            knobs.stripe, knobs.ring, knobs.chunks = self.stripe, self.ring, self.chunks
            names = self.transports if isinstance(self.transports, str) else ",".join(self.transports)
            knobs.transports, knobs.proven = names, self.verify

        self._checked(fill)
        return knobs

    def _hierarchy(self, size: int) -> tuple[list[int], _core.Topology | None]:
        if self.hierarchy is None or isinstance(self.hierarchy, _core.Topology):
            return [], self.hierarchy
        if isinstance(self.hierarchy, str):
            try:
                return [], topologies.parse(self.hierarchy, size)
            except _core.UsageError as error:
                raise _core.UsageError(f"hierarchy: {error}") from None
        factors = [index(factor) for factor in self.hierarchy]
        if not factors:
            raise _core.UsageError("hierarchy: no factors; None is the communicator's own")
        return factors, None

    def _checked(self, action: Callable[[], Result]) -> Result:
        try:
            return action()
        except TypeError:
            raise _core.UsageError(f"{self}: a knob is of the wrong type; see Communicator.compile") from None


class CompiledCall(PersistentCall):
    """A composition bound to its buffers, from Communicator.compile(): no start plans, proves or allocates.

    Each start is a call like any other: all ranks make it, in the same order among their calls. Ranks that have
    compiled different compositions, or the same with different knobs, are told so, both of them.
    """

    def __init__(self, core: _core.PersistentCall, held: _core.HeldCalls, binding: Binding) -> None:
        super().__init__(core, held)
        self._binding = binding

    def start(self, output: Any = None, input: Any = None) -> None:
        """Begin, with what the buffers hold now; they belong to the call until wait() returns, which is no barrier.

        output, input: other buffers of the same shape, from now on. Raises UsageError where they do not fit, and while
        the start before has not been completed.
        """
        self._rebind(output, input)
        super().start()

    def run(self, output: Any = None, input: Any = None) -> None:
        """Do both, in the caller's own thread where no other call is under way: the fastest."""
        self._rebind(output, input)
        super().run()

    @property
    def scratch_bytes(self) -> int:
        """Memory that this rank needs beside the buffers, at its peak; calls of a communicator share it."""
        return self._core.scratch_bytes

    @property
    def plan(self) -> _core.Plan:
        """What this rank does; str() lists the steps."""
        return self._core.plan

    @property
    def program(self) -> _core.Program | None:
        """What this rank's GPU runs, made from the plan; None on the CPU's memory and among several hosts.

        print(call.program.describe(call.plan)) shows it, to_dict() is plain data.
        What it means: docs/explanation/programs.md.
        """
        return None

    def _rebind(self, output: Any, input: Any) -> None:
        if output is not None or input is not None:
            source, target = self._binding.host_buffers(output, input)
            self._core.rebind(source.view, target.view)


@dataclass(frozen=True)
class Binding:
    """What the buffers of one rank have to look like."""

    rank: int
    inputs: list[int]
    outputs: list[int]
    dtype: int
    counts: list[int]
    on_gpu: bool

    def host_buffers(self, output: Any, input: Any) -> tuple[Buffer, Buffer]:
        """Views of both; where the rank has no parts, of nothing."""
        nothing = Buffer(np.empty(0, np.uint8), self.dtype, 0)
        source, target = self._buffers(output, input)
        return source or nothing, target or nothing

    def device_buffers(self, output: Any, input: Any) -> tuple[DeviceBuffer | None, DeviceBuffer | None]:
        """Both, of which one is there."""
        return self._buffers(output, input)

    def _buffers(self, output: Any, input: Any) -> tuple[Any, Any]:
        source = self._buffer("input", input, self.inputs, written=False)
        target = self._buffer("output", output, self.outputs, written=True)
        if source and target:
            require_together(source, target, self.rank)
        for name, buffer in (("input", source), ("output", target)):
            if buffer and isinstance(buffer, DeviceBuffer) != self.on_gpu:
                place = "a GPU" if self.on_gpu else "the CPU"
                raise _core.UsageError(
                    f"rank {self.rank}: {name} lies on {where(buffer)}, and this call was compiled for {place}'s memory"
                )
        return source, target

    def _buffer(self, name: str, value: Any, parts: list[int], *, written: bool) -> Buffer | DeviceBuffer | None:
        elements = sum(self.counts[part] for part in parts)
        if value is None and elements == 0:
            return None
        if value is None:
            raise _core.UsageError(
                f"rank {self.rank}: {name}: None, but this rank has {counted(len(parts), 'part')} there"
            )
        buffer = as_buffer(value, name, self.rank, written=written)
        if (buffer.size, buffer.dtype) != (elements, self.dtype):
            raise _core.UsageError(
                f"rank {self.rank}: {name} has {buffer.size} elements of {_core.DTYPES[buffer.dtype]}, and its "
                f"{counted(len(parts), 'part')} take{'s' * (len(parts) == 1)} {elements} of {_core.DTYPES[self.dtype]}"
            )
        return buffer


def binding_for(
    composition: Composition, rank: int, buffers: tuple[Any, Any], counts: int | Sequence[int] | None, dtype: str
) -> Binding:
    """From what the caller says; buffers: output and input. Raises UsageError where that is not enough."""
    if not isinstance(composition, Composition):
        made = type(composition).__name__
        raise _core.UsageError(f"rank {rank}: composition: is of type {made}; build one with lanecast.compose")
    core = composition._core
    if not 0 <= rank < core.size:
        raise _core.UsageError(f"rank {rank}: composition: is for {counted(core.size, 'rank')}")
    inputs, outputs = core.inputs(rank), core.outputs(rank)
    given = [as_buffer(value, "buffer", rank, written=False) for value in buffers if value is not None]
    if dtype and dtype not in DTYPE_CODES:
        raise _core.UsageError(f"rank {rank}: dtype {dtype!r} is unknown; known: {', '.join(DTYPE_CODES)}")
    if not given and not dtype:
        raise _core.UsageError(f"rank {rank}: dtype: has to be given where a rank has no buffer")
    code = DTYPE_CODES[dtype] if dtype else given[0].dtype
    if counts is None:
        counts = _even_count(rank, buffers, (outputs, inputs))
    try:
        each = [index(count) for count in counts] if isinstance(counts, Sequence) else [index(counts)] * core.parts
    except TypeError:
        raise _core.UsageError(f"rank {rank}: counts={counts!r}: expected a whole number, or one per part") from None
    if len(each) != core.parts or any(count < 0 for count in each):
        raise _core.UsageError(
            f"rank {rank}: counts: needs {counted(core.parts, 'number')}, one per part, none negative"
        )
    return Binding(rank, inputs, outputs, code, each, any(isinstance(buffer, DeviceBuffer) for buffer in given))


def _even_count(rank: int, buffers: tuple[Any, Any], parts: tuple[list[int], list[int]]) -> int:
    for value, own in zip(buffers, parts, strict=True):
        if value is not None and own:
            count, rest = divmod(as_buffer(value, "buffer", rank, written=False).size, len(own))
            if rest:
                raise _core.UsageError(f"rank {rank}: counts: a buffer's {len(own)} parts are not equal; say how large")
            return count
    raise _core.UsageError(f"rank {rank}: counts: have to be given where a rank has no buffer")
