# SPDX-License-Identifier: Apache-2.0
"""What a benchmark is asked to do: who runs which collectives at which sizes, and in which memory."""

from __future__ import annotations

from dataclasses import dataclass

from lanecast import _core

DEVICES = ("cpu", "cuda")
KNOWN = {
    "cpu": "lanecast, lanecast:ALGORITHM, reproducible, mpi",
    "cuda": "lanecast, lanecast:ALGORITHM, lanecast+symm, lanecast+host, lanecast+composed, nccl, nccl+windows, "
    "mpi, torch_one_shot, torch_two_shot",
}
GPU_SIZES = "64K,1M,4M,16M,64M,256M,1G"
GPU_ROUND_S = 20e-3

LANECAST, MPI, NCCL = "lanecast", "mpi", "nccl"
JUDGED = ("lanecast", "lanecast+symm")  # where Lanecast chooses by itself
HOST = "host"  # the library where Lanecast's call is between copies from and to a GPU
COMPOSED = "composed"  # where it is the collective as HiCCL composes it
# Kinds of memory: the CPU's, and those of a GPU.
CPU, PLAIN, SYMMETRIC, WINDOWS, TORCH_SYMMETRIC = "cpu", "plain", "symmetric", "windows", "torch_symmetric"

_ON_GPUS = {
    "lanecast": (LANECAST, PLAIN),
    "lanecast+symm": (LANECAST, SYMMETRIC),
    "lanecast+host": (HOST, PLAIN),
    "lanecast+composed": (COMPOSED, PLAIN),
    "nccl": (NCCL, PLAIN),
    "nccl+windows": (NCCL, WINDOWS),
    "mpi": (MPI, PLAIN),
    "torch_one_shot": ("one_shot", TORCH_SYMMETRIC),
    "torch_two_shot": ("two_shot", TORCH_SYMMETRIC),
}


@dataclass(frozen=True)
class Backend:
    """Who runs a collective, by which algorithm, and in which memory its buffers lie."""

    name: str
    algorithm: str = ""  # pinned; empty: chosen per call
    library: str = LANECAST
    memory: str = CPU
    reproducible: bool = False  # sums in rank order

    @property
    def needs_mpi(self) -> bool:
        """Is a collective of MPI's its own, or a level of one?"""
        return self.library == MPI or MPI in self.algorithm

    @property
    def is_library(self) -> bool:
        """Is it another library, rather than a way of Lanecast's?"""
        return self.library not in {LANECAST, HOST, COMPOSED}

    @property
    def can_be_captured(self) -> bool:
        """Can a CUDA graph have its calls? The host's part of one is in no graph."""
        return self.library not in {HOST, MPI}

    def takes(self, collective: str, dtype: str, op: str) -> bool:
        """torch's kernels on symmetric memory are sums of two types."""
        if self.memory != TORCH_SYMMETRIC:
            return True
        return collective == "all_reduce" and op == "sum" and dtype in {"float32", "bfloat16"}


@dataclass(frozen=True)
class Settings:
    """One benchmark; sizes are bytes of the full buffer."""

    collectives: tuple[str, ...]
    sizes: tuple[int, ...]
    backends: tuple[Backend, ...]
    topologies: tuple[str, ...] = ("",)  # empty: as the ranks sit
    transports: str = ""
    dtype: str = "float32"
    op: str = "sum"
    rounds: int = 10
    warmup: int = 2
    round_s: float = 5e-3  # calls are repeated until a round lasts so long; 0: one call
    in_place: bool = False
    baseline: str = "mpi"
    graph: bool = False  # on GPUs: also replay the calls from a CUDA graph, measured by itself
    shared_gpus: bool = False  # ranks may share a GPU, which shows that results are right and says nothing of speed


def parse_backend(text: str, device: str = "cpu") -> Backend:
    """One of KNOWN. Algorithms are checked on the CPU by checks.check(), on GPUs by the communicator."""
    name, colon, algorithm = text.partition(":")
    if device == "cuda":
        library, memory = _ON_GPUS.get(name, ("", ""))
        if not library or bool(colon) != bool(algorithm) or (algorithm and library not in {LANECAST, HOST}):
            raise _core.UsageError(f"backend {text!r} is unknown on GPUs; known: {KNOWN['cuda']}")
        return Backend(text, algorithm, library, memory)
    if name == "lanecast" and bool(colon) == bool(algorithm):
        return Backend(text, algorithm)
    others = {
        "reproducible": Backend(text, reproducible=True), "mpi": Backend(text, library=MPI),
    }  # fmt: skip
    if text not in others:
        raise _core.UsageError(
            f"backend {text!r} is unknown; known: {KNOWN['cpu']}; others are there with --device cuda"
        )
    return others[text]
