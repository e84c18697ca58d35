# SPDX-License-Identifier: Apache-2.0
"""One call of each library, bound to the buffers of a payload."""

from __future__ import annotations

from functools import partial
from typing import Any

from lanecast.bench.composed import compiled
from lanecast.bench.gpu.device import Call
from lanecast.bench.gpu.payload import TorchLibrary
from lanecast.bench.gpu.ranks import Ranks
from lanecast.bench.payload import ROOT, Payload
from lanecast.bench.settings import COMPOSED, HOST, Backend
from lanecast.communicator import Communicator

_TORCH_OPS = {
    "sum": "SUM", "avg": "AVG", "prod": "PRODUCT", "min": "MIN", "max": "MAX", "band": "BAND", "bor": "BOR",
    "bxor": "BXOR",
}  # fmt: skip


def bind(backend: Backend, ranks: Ranks, payload: Payload) -> tuple[Call, Any]:
    """A call, and where it leaves its result."""
    if backend.library == "lanecast":
        return lanecast_call(ranks.comm, payload, backend.algorithm), payload.output
    if backend.library == HOST:
        return _through_host(ranks, payload, backend.algorithm), payload.output
    if backend.library == COMPOSED:
        return compiled(ranks.comm, payload).run, payload.output
    if backend.library == "nccl":
        return _distributed(ranks, payload), payload.output
    return _symmetric_kernel(backend.library, ranks, payload)


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
    return partial(calls[case.collective], algorithm=algorithm)


def _through_host(ranks: Ranks, payload: Payload, algorithm: str) -> Call:
    """Ours on the CPU's memory, between copies from and to the GPU: reductions are the CPU's (PCCL, figure 4)."""
    arena = ranks.device.pinned(2 * payload.case.full_bytes + 4096)  # two buffers and what aligns them
    hosted = Payload(payload.case, TorchLibrary(arena))
    ours = lanecast_call(ranks.comm, hosted, algorithm)

    def call() -> None:
        hosted.input.copy_(payload.input, non_blocking=True)
        ranks.device.synchronize()
        ours()
        payload.output.copy_(hosted.output, non_blocking=True)

    return call


def _distributed(ranks: Ranks, payload: Payload) -> Call:
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


def _symmetric_kernel(kernel: str, ranks: Ranks, payload: Payload) -> tuple[Call, Any]:
    """torch's kernels on symmetric memory: one-shot into other memory, two-shot in place."""
    import torch

    whole, name = payload.whole, ranks.group().group_name
    if kernel == "two_shot":
        return partial(torch.ops.symm_mem.two_shot_all_reduce_, whole, "sum", name), whole
    result = torch.empty_like(whole)
    return partial(torch.ops.symm_mem.one_shot_all_reduce_out, whole, "sum", name, result), result
