# SPDX-License-Identifier: Apache-2.0
"""What a benchmark on GPUs is asked to do."""

from __future__ import annotations

from dataclasses import dataclass, fields

from lanecast import _core
from lanecast.bench.options import Backend, Settings

KNOWN = (
    "lanecast, lanecast:ALGORITHM, lanecast+symm, lanecast+host, lanecast+composed, nccl, nccl+windows, "
    "torch_one_shot, torch_two_shot"
)
SIZES = "64K,1M,4M,16M,64M,256M,1G"
ROUND_S = 20e-3

HOST = "host"  # the library where Lanecast's call is between copies from and to a GPU
COMPOSED = "composed"  # where it is the collective as HiCCL composes it
PLAIN, SYMMETRIC, WINDOWS, TORCH_SYMMETRIC = "plain", "symmetric", "windows", "torch_symmetric"

_LIBRARIES = {
    "lanecast": ("lanecast", PLAIN),
    "lanecast+symm": ("lanecast", SYMMETRIC),
    "lanecast+host": (HOST, PLAIN),
    "lanecast+composed": (COMPOSED, PLAIN),
    "nccl": ("nccl", PLAIN),
    "nccl+windows": ("nccl", WINDOWS),
    "torch_one_shot": ("one_shot", TORCH_SYMMETRIC),
    "torch_two_shot": ("two_shot", TORCH_SYMMETRIC),
}


@dataclass(frozen=True)
class DeviceBackend(Backend):
    """Who runs a collective, and in which memory its buffers lie."""

    library: str = "lanecast"
    memory: str = PLAIN

    @property
    def needs_mpi(self) -> bool:
        return self.library == HOST and super().needs_mpi  # elsewhere native is NCCL's own, which reduces all floats

    @property
    def needs_nccl(self) -> bool:
        return not self.is_ours

    @property
    def is_ours(self) -> bool:
        return self.library in {"lanecast", HOST, COMPOSED}

    @property
    def can_be_captured(self) -> bool:
        """Can a CUDA graph have its calls? The host's part of one is in no graph."""
        return self.library not in {HOST, COMPOSED} and self.algorithm != "native"

    def takes(self, collective: str, dtype: str, op: str) -> bool:
        """torch's kernels on symmetric memory are sums of two types."""
        if self.memory != TORCH_SYMMETRIC:
            return True
        return collective == "all_reduce" and op == "sum" and dtype in {"float32", "bfloat16"}


@dataclass(frozen=True)
class DeviceSettings(Settings):
    """One benchmark on GPUs.

    graph: also replay the calls from a CUDA graph, measured by itself; shared_gpus: ranks may share a GPU, which shows
    that results are right and says nothing of speed.
    """

    graph: bool = False
    shared_gpus: bool = False


def of(settings: Settings, graph: bool, shared_gpus: bool = False) -> DeviceSettings:
    """The settings of any benchmark, with the repeats that suit a GPU."""
    shared = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return DeviceSettings(**{**shared, "round_s": ROUND_S, "graph": graph, "shared_gpus": shared_gpus})


def parse_backend(text: str) -> DeviceBackend:
    """One of those in KNOWN; an algorithm is checked by the communicator."""
    name, colon, algorithm = text.partition(":")
    library, memory = _LIBRARIES.get(name, ("", ""))
    if not library or bool(colon) != bool(algorithm) or (algorithm and library not in {"lanecast", HOST}):
        raise _core.UsageError(f"backend {text!r} is unknown on GPUs; known: {KNOWN}")
    return DeviceBackend(text, algorithm, library=library, memory=memory)
