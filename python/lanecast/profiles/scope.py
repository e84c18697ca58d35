# SPDX-License-Identifier: Apache-2.0
"""What times, and what is learned from them, hold for."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from lanecast import _core
from lanecast.fields import FieldError
from lanecast.profiles.profile import Shape

MEASURED, SIMULATED, MODELLED = "measured", "simulated", "modelled"
ORIGINS = (MEASURED, SIMULATED, MODELLED)
_EVEN = re.compile(r"[0-9]+(x[0-9]+)*")  # a topology whose nodes are equal
_NODE = re.compile(r"[1-9][0-9]{0,3}(x[1-9][0-9]{0,3}){0,3}")


@dataclass(frozen=True)
class Scope:
    """A machine, any number of nodes of it; whether its times were measured at all, and with what."""

    machine: str  # the processor's name, or that of a described machine
    origin: str  # measured, simulated, or modelled: by closed forms
    node: str  # how ranks sit on a node, "4" or "4x2"; empty: jobs have one level only
    cores: int  # of a host; 0 unless measured
    transports: str  # "mpi,shm": per level, outermost first; empty unless measured
    lanecast: str  # its version
    one_host: bool = False  # measured with all ranks on one
    digest: str = ""  # of the core and of the machine's figures, on which it hangs what is simulated; empty if measured
    gpu: str = ""  # the kind of GPU that buffers lay on, as its driver calls it; empty: on the CPU
    calls: str = ""  # of times on GPUs: "float32 graph", the type and how calls were made; empty: of all such calls

    def __str__(self) -> str:
        text = f"{f'{self.gpu}, host with ' if self.gpu else ''}{self.machine}, {self.origin}"
        if self.node:
            text += f", nodes of {self.node}"
        if self.gpu:
            text += ", GPUs of one host" if self.one_host else f", {self.transports} between hosts"
        elif self.transports:
            text += f", {self.cores} cores{' of one host' * self.one_host}, {self.transports}"
        if self.calls:
            text += f", {self.calls}"
        return f"{text}, Lanecast {self.lanecast}{f', code and machine {self.digest}' * bool(self.digest)}"

    def check(self) -> None:
        """Raise FieldError for what no job can be."""
        if self.origin not in ORIGINS:
            raise FieldError("scope.origin", f"{self.origin!r}; known: {', '.join(ORIGINS)}")
        if self.node and not _NODE.fullmatch(self.node):
            raise FieldError("scope.node", f"{self.node!r}; expected sizes such as 4x2")

    def nodes_of(self, ranks: int) -> int:
        """Groups at the outermost level of a job of so many ranks, as its topology has them."""
        sizes = [int(size) for size in self.node.split("x")] if self.node else []
        per_node = math.prod(sizes)
        return ranks // per_node if ranks > per_node or not sizes else sizes[0]


def node_of(topology: str) -> str:
    """ "4x2" of "16x4x2"; empty where there is one level, or nodes differ."""
    return topology.partition("x")[2] if "+" not in topology else ""


def scope_of(shape: Shape) -> Scope:
    """What is measured on ranks of this shape. Raises UsageError where nodes differ, which no scope describes."""
    if not _EVEN.fullmatch(shape.topology):
        raise _core.UsageError(f"topology {shape.topology}: its nodes differ; times are kept for equal ones")
    carried = ",".join(shape.transports)
    return Scope(
        shape.cpu, MEASURED, node_of(shape.topology), shape.cores, carried, shape.lanecast, shape.hosts == 1
    )  # fmt: skip
