# SPDX-License-Identifier: Apache-2.0
"""One call of each library, bound to the buffers of a payload."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from lanecast import _core
from lanecast.bench.cases import ROOT
from lanecast.bench.composed import compiled
from lanecast.bench.device import Call
from lanecast.bench.gpu_ranks import GpuRanks
from lanecast.bench.memory import TorchMemory
from lanecast.bench.payload import Payload
from lanecast.bench.ranks import Ranks
from lanecast.bench.settings import COMPOSED, CPU, HOST, LANECAST, MPI, NCCL, Backend
from lanecast.buffers import view_for_core
from lanecast.communicator import Communicator
from lanecast.dtypes import DTYPE_CODES, OP_CODES

_TORCH_OPS = {
    "sum": "SUM", "avg": "AVG", "prod": "PRODUCT", "min": "MIN", "max": "MAX", "band": "BAND", "bor": "BOR",
    "bxor": "BXOR",
}  # fmt: skip


class Bound(NamedTuple):
    """A call on the buffers of a payload."""

    call: Call
    result: Any  # where it leaves that
    algorithm: str
    chunks: int | None = None  # known where the choice is automatic


def bind(backend: Backend, ranks: Ranks, payload: Payload) -> Bound:
    """The call of a backend, as few steps of Python away from its library as there can be."""
    library = backend.library
    if library == MPI:
        return _mpi_call(ranks, payload)
    if backend.memory == CPU:
        return _core_call(backend, ranks, payload)
    chosen = backend.algorithm or "auto"
    if library == LANECAST:
        return Bound(lanecast_call(ranks.comm, payload, backend.algorithm), payload.output, chosen)
    if library == COMPOSED:
        return Bound(compiled(ranks.comm, payload).run, payload.output, library)
    assert isinstance(ranks, GpuRanks), "its memory is a GPU's"
    if library == HOST:
        return Bound(_through_host(ranks, payload, backend.algorithm), payload.output, chosen)
    by_torch = (_distributed(ranks, payload), payload.output) if library == NCCL else _symmetric_kernel(
        library, ranks, payload)  # fmt: skip
    return Bound(*by_torch, library)


def _mpi_call(ranks: Ranks, payload: Payload) -> Bound:
    case = payload.case
    # MPI's in-place reduce-scatter leaves its result at the front of the input.
    front = case.in_place and case.collective == "reduce_scatter"
    result = payload.whole[: len(payload.output)] if front else payload.output
    output = payload.whole if front else payload.output
    codes = DTYPE_CODES[case.dtype], OP_CODES[case.op]
    kind = _core.KINDS.index(case.collective)
    if isinstance(ranks, GpuRanks):
        addresses = payload.input.data_ptr(), output.data_ptr()
        call = partial(ranks.mpi_on_gpus().run_at, kind, addresses, *codes, case.count, case.in_place)
        return Bound(call, result, "MPI's own")
    assert ranks.mpi is not None, "checked before any rank was started"
    buffers = view_for_core(payload.input), view_for_core(output)
    return Bound(partial(ranks.mpi.run, kind, *buffers, *codes, case.count, case.in_place), result, "MPI's own")


def _core_call(backend: Backend, ranks: Ranks, payload: Payload) -> Bound:
    case, core = payload.case, ranks.comm._core
    kind, dtype, op = _core.KINDS.index(case.collective), DTYPE_CODES[case.dtype], OP_CODES[case.op]
    algorithm, chunks = backend.algorithm, None
    if not algorithm:
        algorithm, chunks, _ = core.chosen(kind, case.count, dtype, backend.reproducible)
    # All by position, as the package calls it: a partial with keywords takes 0.3 us more, and MPI's has none.
    call = partial(
        core.run, kind, view_for_core(payload.input), view_for_core(payload.output), dtype, op, case.count, (),
        backend.algorithm, 0, 0, (), (), backend.reproducible,
    )  # fmt: skip
    return Bound(call, payload.output, algorithm, chunks)


def lanecast_call(comm: Communicator, payload: Payload, algorithm: str) -> Call:
    """Ours; an empty algorithm is chosen by the call."""
    case, source, target, whole = payload.case, payload.input, payload.output, payload.whole
    at_root = comm.rank == ROOT
    calls = {
        "all_reduce": partial(comm.all_reduce, target, case.op),
        "all_gather": partial(comm.all_gather_into_tensor, target, source),
        "reduce_scatter": partial(comm.reduce_scatter_tensor, target, source, case.op),
        "all_to_all": partial(comm.all_to_all_single, target, source),
        "broadcast": partial(comm.broadcast, whole, ROOT),
        "reduce": partial(comm.reduce, whole, ROOT, case.op),
        "gather": partial(comm.gather, target if at_root else None, source, ROOT),
        "scatter": partial(comm.scatter, target, source if at_root else None, ROOT),
    }
    call = calls[case.collective]
    return partial(call, algorithm=algorithm) if algorithm else call  # a keyword takes 0.3 us


def _through_host(ranks: GpuRanks, payload: Payload, algorithm: str) -> Call:
    """Ours on the CPU's memory, between copies from and to the GPU: reductions are the CPU's (PCCL, figure 4)."""
    arena = ranks.device.pinned(2 * payload.case.full_bytes + 4096)  # two buffers and what aligns them
    hosted = Payload(payload.case, TorchMemory(arena))
    ours = lanecast_call(ranks.comm, hosted, algorithm)

    def call() -> None:
        hosted.input.copy_(payload.input, non_blocking=True)
        ranks.device.synchronize()
        ours()
        payload.output.copy_(hosted.output, non_blocking=True)

    return call


def _distributed(ranks: GpuRanks, payload: Payload) -> Call:
    """torch.distributed's call; gather and scatter are made of NCCL's messages there."""
    from torch import distributed

    case, source, target, whole = payload.case, payload.input, payload.output, payload.whole
    op = getattr(distributed.ReduceOp, _TORCH_OPS[case.op])
    parts = list(whole.chunk(ranks.size)) if ranks.rank == ROOT else None
    calls = {
        "all_reduce": partial(distributed.all_reduce, target, op),
        "all_gather": partial(distributed.all_gather_into_tensor, target, source),
        "reduce_scatter": partial(distributed.reduce_scatter_tensor, target, source, op),
        "all_to_all": partial(distributed.all_to_all_single, target, source),
        "broadcast": partial(distributed.broadcast, whole, ROOT),
        "reduce": partial(distributed.reduce, whole, ROOT, op),
        "gather": partial(distributed.gather, source, parts, ROOT),
        "scatter": partial(distributed.scatter, target, parts, ROOT),
    }
    return partial(calls[case.collective], group=ranks.group())


def _symmetric_kernel(kernel: str, ranks: GpuRanks, payload: Payload) -> tuple[Call, Any]:
    """torch's kernels on symmetric memory: one-shot into other memory, two-shot in place."""
    import torch

    whole, name = payload.whole, ranks.group().group_name
    if kernel == "two_shot":
        return partial(torch.ops.symm_mem.two_shot_all_reduce_, whole, "sum", name), whole
    result = torch.empty_like(whole)
    return partial(torch.ops.symm_mem.one_shot_all_reduce_out, whole, "sum", name, result), result
