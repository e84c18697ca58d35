# SPDX-License-Identifier: Apache-2.0
"""The ranks that make calls together, and what becomes of their calls."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from lanecast import _core
from lanecast._core import DeviceBuffer
from lanecast.bound import NONE, Asked, Bound, CountsOnDevice
from lanecast.collectives import Collectives
from lanecast.compose.compiled import CompiledCall, Hierarchy, Knobs, binding_for
from lanecast.compose.composition import Composition
from lanecast.compose.on_gpu import DeviceCompiledCall, DevicePair
from lanecast.device_calls import enqueue_async, enqueue_messages
from lanecast.explanation import Explanation, explained
from lanecast.point_to_point import Message, PointToPoint
from lanecast.profiles import surprises
from lanecast.rooted import Rooted
from lanecast.symmetric import Registration, symmetric_empty
from lanecast.work import PersistentCall, Work

_LIVE: weakref.WeakSet[Communicator] = weakref.WeakSet()


def live_communicators() -> list[Communicator]:
    """The communicators of this process that have not been destroyed."""
    return list(_LIVE)


_OWN_COUNTS = ("gather", "scatter", "all_to_all")  # what takes send_counts and recv_counts


def _call_codes(collective: str, count: int, dtype: str, own_counts: bool) -> tuple[int, int, int]:
    if collective not in _core.KINDS:
        raise _core.UsageError(f"collective {collective!r} is unknown; known: {', '.join(_core.KINDS)}")
    if dtype not in _core.DTYPES:
        raise _core.UsageError(f"dtype {dtype!r} is unknown; known: {', '.join(_core.DTYPES)}")
    if not isinstance(count, int) or not 0 <= count < 1 << 48:
        raise _core.UsageError(f"count={count!r}: expected a number of elements")
    if own_counts and collective not in _OWN_COUNTS:
        raise _core.UsageError(f"own_counts: only {', '.join(_OWN_COUNTS)} take counts that each rank knows for itself")
    return _core.KINDS.index(collective), count, _core.DTYPES.index(dtype)


class Communicator(Collectives, Rooted, PointToPoint):
    """Ranks that call collectives together, in the same order on each, and send each other messages.

    Made by lanecast.init(), lanecast.from_mpi(), lanecast.run_threads() or split(). Buffers are numpy arrays, tensors
    with __dlpack__ on the CPU, or anything with the buffer protocol, contiguous, with the same dtype on every rank;
    none is copied. Collectives and compositions also take a GPU's tensors, torch's or with __cuda_array_interface__:
    the call returns at once and runs behind the current stream; see docs/reference/gpu.md. In-place means what it
    means to NCCL: the input lies where the output holds this rank's share. After an error other than UsageError a
    communicator has failed; each further call says so, and a new one works.
    """

    def __init__(self, core: _core.Communicator) -> None:
        _LIVE.add(self)
        self._core = core  # first, so that it goes before the arrays that its calls still use
        self._held = _core.HeldCalls()
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

    @property
    def gpu_messages(self) -> str:
        """Where what a GPU sends to other hosts lies meanwhile: "staged", in the host's memory; "direct", on the GPU.

        Empty before the GPU is open, and where all ranks are on one host.
        """
        return self._core.gpu_messages()

    def barrier(self, async_op: bool = False) -> Work | None:
        """Wait until every rank has called it. Collective, in its order among the others; raises as all_reduce does."""
        if not async_op:
            self._core.barrier()
            return None
        return Work(self._core.start_barrier())

    def persistent(self, collective: str, *arguments: Any, **options: Any) -> PersistentCall:
        """Bind a collective to its buffers for many calls, as MPI's MPI_Allreduce_init does; see PersistentCall.

        collective: the name of a method, such as "all_reduce"; the rest: as that method takes it, but async_op.
        Collective, in its order among the calls. Raises UsageError as the method does, and for unknown names.
        """
        methods = [name for name in (*vars(Collectives), *vars(Rooted)) if not name.startswith("_")]
        if collective not in methods:
            raise _core.UsageError(
                f"rank {self.rank}: collective {collective!r} is unknown; known: {', '.join(methods)}"
            )
        call = getattr(_Binding(self), collective)(*arguments, **options)
        assert isinstance(call, PersistentCall)
        return call

    def compile(  # noqa: PLR0913  the composition, its buffers and the paper's knobs
        self,
        composition: Composition,
        output: Any = None,
        input: Any = None,
        *,
        counts: int | Sequence[int] | None = None,
        dtype: str = "",
        hierarchy: Hierarchy = None,
        stripe: int = 0,
        ring: int = 0,
        chunks: int = 0,
        transports: str | Sequence[str] = (),
        verify: bool | None = None,
    ) -> CompiledCall:
        """Shape a composition to the machine and bind it to buffers, for many runs; see CompiledCall.

        output, input: this rank's parts side by side, None where it has none; in place where the parts that are in both
        lie at the same addresses. All on the CPU, or all on the ranks' GPUs, where a rank without parts passes an empty
        tensor of its own: see DeviceCompiledCall. counts: elements of each part, or one number for all; None: as the
        buffer says, all parts alike. dtype: of a rank without buffers. The rest are the knobs, equal on every rank: see
        lanecast.compose.Knobs. Waits for nobody, but for all ranks where it is the first call on a GPU. Source: HiCCL,
        sections III and IV.
        Raises UsageError (argument, rank, reason) for what does not fit, and PlanError where a plan is wrong.
        """
        knobs = Knobs(hierarchy, stripe, ring, chunks, transports, verify).to_core(self.size)
        buffers = (output, input)
        binding = binding_for(composition, self.rank, buffers, counts, dtype)
        try:
            if binding.on_gpu:
                pair = DevicePair(*binding.device_buffers(*buffers))
                plan = self._core.compile_on_gpu(
                    composition._core, *pair.places, binding.dtype, binding.counts, knobs
                )  # fmt: skip
                return DeviceCompiledCall(self._core, self._held, binding, plan, pair)
            source, target = binding.host_buffers(*buffers)
            core = self._core.compile(
                composition._core, source.view, target.view, binding.dtype, binding.counts, knobs
            )  # fmt: skip
        except TypeError:
            raise _core.UsageError(f"rank {self.rank}: compile: counts={counts!r}: larger than any memory") from None
        return CompiledCall(core, self._held, binding)

    def split(self, color: int, key: int = 0) -> Communicator | None:
        """Make one communicator of all ranks with the same color, ordered by key, then by rank.

        Collective over this communicator; a negative color takes no part and gets None. The child keeps what remains of
        the topology and may outlive its parent.
        """
        try:
            child = self._split(color, key)
        except TypeError:
            raise _core.UsageError(
                f"rank {self.rank}: split: color={color!r}, key={key!r}: expected two whole numbers of 32 bits"
            ) from None
        if child is not None:
            surprises.watch(child, child._core)
        return child

    def _split(self, color: int, key: int) -> Communicator | None:
        core = self._core.split(color, key)
        return None if core is None else Communicator(core)

    def symmetric_empty(self, count: int, dtype: Any = "float32") -> Any:
        """A tensor of torch's in symmetric memory, on torch's current device: calls on it move no byte through staging.

        count: elements, equal on every rank as dtype is, a name of ours or a type of torch's. Collective. The memory is
        freed once all ranks have dropped their tensors. Raises UsageError without torch or a GPU, and on all ranks
        where one's GPU has not so much left; TransportError where the GPUs cannot reach each other's memory.
        """
        return symmetric_empty(self._core, self.rank, count, dtype)

    def register(self, tensor: Any) -> Registration:
        """Let the peers' GPUs map a CUDA tensor's memory: calls of 16 MiB a message and more (512 KiB on GPUs
        that are not H100s or H200s) whose buffers lie in such memory on all ranks, wherever each has put them, move no
        byte through staging. All others stay as they are.

        Not collective, and no rank need do as the others do. The tensor's memory is kept until close() of what this
        returns, and until the peers have let go of it, which they do in their next calls. Raises UsageError for memory
        that no other process can map, as that of cudaMallocAsync, and where there is no peer memory; TransportError
        where a peer cannot be handed the files of memory in pieces, such as torch's expandable segments.
        """
        return Registration(self._core, self.rank, tensor)

    def abort(self, reason: str) -> None:
        """Fail the communicator on all ranks: this rank's calls end, and the peers hear `reason` instead of waiting.

        At any time and from any thread, also from a signal handler while a call waits. Calls under way, and all later
        ones, raise TransportError: on the peers in their wait, or in their next call. Never waits for a rank; does
        nothing where the communicator has failed before.
        """
        self._core.abort(reason)

    def synchronize(self) -> None:
        """Block the host until this rank's device work of this communicator is done.

        Raises what has happened on the device since: TimeoutError (peer, seconds) where a peer did not come,
        TransportError where the ranks' calls differ or a peer has gone. Such a communicator has failed. What graphs
        replay does not count: synchronize the device first.
        """
        core: Any = self._core
        core.synchronize()

    def write_trace(self, directory: str | os.PathLike[str]) -> None:
        """Write this rank's last 1,000 calls, and where it stands, to a file in `directory` for `lanecast trace`.

        At any time, also from a signal handler while a call waits; a later one replaces the file. With the option
        trace_steps, its last 65,536 steps too. Raises TransportError (path) where it cannot be written.
        """
        self._core.write_trace(os.fspath(directory))

    def chosen(self, collective: str, count: int, dtype: str = "float32", own_counts: bool = False) -> tuple[str, int]:
        """Algorithm and number of chunks that a call would take; count as in the call, elements per part.

        own_counts: the call would give each rank's own counts only; then count is of no account. No choice depends on a
        root. Raises UsageError for unknown names, negative counts, and own_counts where the collective takes none.
        """
        codes = _call_codes(collective, count, dtype, own_counts)
        algorithm, chunks, _ = self._core.chosen(*codes, own_counts=own_counts)
        return algorithm, chunks

    def explain(self, collective: str, count: int, dtype: str = "float32", own_counts: bool = False) -> Explanation:
        """Why a call takes what chosen() says: all candidates with predicted times, what decided, a sentence; print it.

        Predictions come from the profile that `lanecast tune` has measured here, else from links: those between hosts
        were timed when the communicator was made, and the sentence has the values. Of calls on the CPU's memory.
        Arguments and errors: as for chosen().
        """
        codes = _call_codes(collective, count, dtype, own_counts)
        return explained(self._core.explain(*codes, own_counts=own_counts))

    def explain_on_gpu(
        self, collective: str, count: int, dtype: str = "float32", symmetric: bool = False, captured: bool = False
    ) -> Explanation:
        """The same of a call on GPUs: of one host by what `lanecast tune --device cuda` has measured, if it has.

        Of several hosts by their links and by what a call of the driver takes here. symmetric: do the buffers lie in
        symmetric memory? captured: does a CUDA graph record the call? Raises UsageError where the GPU is not open yet.
        """
        codes = _call_codes(collective, count, dtype, False)
        return explained(self._core.explain_on_gpu(*codes, symmetric, captured))

    def __repr__(self) -> str:
        return f"<lanecast.Communicator rank {self.rank} of {self.size}, {self.topology}, {self.transports}>"

    def _make(self, asked: Asked, async_op: bool, counts: Any = NONE) -> Work | None:
        # Python takes as long to look at two tensors as all the rest of a call takes; the core looks at those that
        # leave nothing to ask.
        if counts is NONE and not async_op:
            on_host = isinstance(asked[1], np.ndarray)
            if self._core.run_at_once(*asked) if on_host else self._core.enqueue_at_once(*asked):
                return None
        call = self._bound(asked, counts)
        on_device = self._on_device(asked, call, counts) if isinstance(counts, CountsOnDevice) else None
        try:
            if isinstance(call.source, DeviceBuffer):
                if async_op:
                    return enqueue_async(self._core, self._held, call, on_device)
                self._core.enqueue(*call, on_device)
                return None
            if not async_op:
                self._core.run(*call)
                return None
            return Work(self._core.start(self._held, *call))
        except TypeError:
            raise _misfit(call, self.rank) from None

    def _exchange(self, messages: list[Message], async_op: bool) -> Work | None:
        try:
            core: Any = self._core
            if any(isinstance(buffer, DeviceBuffer) for _, buffer, _, _ in messages):
                return enqueue_messages(core, self._held, self.rank, messages, async_op)
            if not async_op:
                core.run_messages(messages)
                return None
            return Work(core.start_messages(self._held, messages))
        except TypeError:
            places = ", ".join(f"rank {peer} with tag {tag}" for _, _, peer, tag in messages)
            raise _core.UsageError(f"rank {self.rank}: no rank or no tag is as large: {places}") from None


class _Binding(Collectives, Rooted):
    """The communicator's collectives, bound instead of made: another result, which only persistent() sees."""

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator
        self.rank, self.size = communicator.rank, communicator.size

    def _make(self, asked: Asked, async_op: bool, counts: Any = NONE) -> PersistentCall:  # type: ignore[override]
        if async_op:
            raise _core.UsageError(f"rank {self.rank}: async_op: a persistent call has start() and run() instead")
        call = self._bound(asked, counts)
        if isinstance(call.source, DeviceBuffer):
            raise _core.UsageError(
                f"rank {self.rank}: persistent calls move the CPU's memory; on a GPU capture calls in a CUDA graph"
            )
        try:
            return PersistentCall(self._communicator._core.persistent(*call), self._communicator._held)
        except TypeError:
            raise _misfit(call, self.rank) from None


def _misfit(call: Bound, rank: int) -> _core.UsageError:
    return _core.UsageError(
        f"rank {rank}: counts={call.counts!r}, algorithm={call.algorithm!r}, chunks={call.chunks!r}, "
        f"reproducible={call.reproducible!r}: expected whole numbers, a name, a number of 32 bits, "
        "and True, False or None"
    )
