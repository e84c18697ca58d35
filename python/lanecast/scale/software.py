# SPDX-License-Identifier: Apache-2.0
"""What libraries' software adds to each message; the data, with a source for each, are in software.toml."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path

from lanecast.fields import read_fields
from lanecast.machines import Machine

_FILE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class Cost:
    """Of one library's messages, at their sender."""

    name: str
    gpus: str  # how the names of the machine's GPUs begin; empty: any
    backends: list[str]
    algorithms: list[str]  # empty: any
    message_us: float  # between nodes
    within_us: float  # a node
    source: str


@dataclass(frozen=True)
class _Software:
    costs: list[Cost]


@functools.cache
def load() -> tuple[Cost, ...]:
    """All, in the order of the file."""
    read: _Software = read_fields(_Software, tomllib.loads(_FILE.read_text()))
    return tuple(read.costs)


def cost_of(machine: Machine, backend: str, algorithm: str) -> Cost | None:
    """What is known of a contender's messages on this machine; nothing is known of MPIs'."""
    base = "lanecast" if backend.startswith("lanecast:") else backend
    for cost in load():
        fits = not cost.algorithms or algorithm in cost.algorithms
        if fits and base in cost.backends and machine.node.gpu.startswith(cost.gpus):
            return cost
    return None


def words(cost: Cost | None, further_us: float = 0) -> list[str]:
    """As arguments of the simulator; further_us: on top, of each message."""
    between = further_us + (cost.message_us if cost else 0)
    within = further_us + (cost.within_us if cost else 0)
    return [f"message_s={between * 1e-6:.9g}", f"message_within_s={within * 1e-6:.9g}"] if between or within else []
