# SPDX-License-Identifier: Apache-2.0
"""A machine's description: read from TOML, checked, and every figure with its source."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path

from lanecast import _core
from lanecast.fields import FieldError, naming_file, read_fields

PREFIX = "machine:"  # of a topology that a machine gives
ASSUMED = "assumed"  # how the source of a figure begins that nobody has looked up or measured
_NIC_MAPS = ("packed", "round_robin", "one_to_one")
_MOST = 2**16  # of anything in a node
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Node:
    """What one node holds. A die that a program sees as a GPU of its own counts as one."""

    cpu: str
    cores: int
    gpu: str = ""
    gpus: int = 0
    nic: str = ""
    nics: int = 0
    nic_GBps: float = 0  # rated, of one, per direction
    nic_map: str = "packed"
    ranks: int = 0  # one per GPU where there are any
    cores_per_rank: int = 0
    memory_GBps: float = 0  # of one rank's device, reading and writing together


@dataclass(frozen=True)
class Level:
    """A level inside the node, outermost first: so many domains in each domain around it."""

    name: str
    size: int
    link: str
    link_GBps: float = 0  # per direction, of each pair of ranks that part here; 0: unknown
    latency_us: float = 0  # one way
    switched: bool = False  # a rank's links lead to a switch: link_GBps is for all its peers together


@dataclass(frozen=True)
class Network:
    """What joins the nodes: groups that a rank leaves by links which all ranks of the group share."""

    latency_us: float = 0  # one way, between nodes of one group
    nodes_per_group: int = 0
    taper: float = 0  # rate out of a group over that of all its NICs
    global_latency_us: float = 0  # on top, between groups


@dataclass(frozen=True)
class Machine:
    """One file. sources: of each figure ("node.gpus", "levels.die.link_GBps", "environment.X") where it comes from."""

    name: str
    summary: str
    node: Node
    levels: list[Level] = field(default_factory=list)
    network: Network = field(default_factory=Network)
    environment: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    @property
    def shape_in_node(self) -> list[int]:
        """Sizes of the levels inside a node; [8], [4, 2]."""
        return [level.size for level in self.levels] or [self.node.ranks]

    @property
    def ranks_per_node(self) -> int:
        return math.prod(self.shape_in_node)

    @property
    def nic_of_rank(self) -> list[int]:
        """Which NIC each rank of a node uses; empty without NICs or ranks."""
        if not self.node.nics or not self.ranks_per_node:
            return []
        return _core.assign_nics(self.ranks_per_node, self.node.nics, self.node.nic_map)

    @property
    def nic_efficiency(self) -> float | None:
        """Share of the node's NIC bandwidth that ranks can use that all send equally much (HiCCL, section II-C)."""
        return _core.nic_balance(self.nic_of_rank, self.node.nics) if self.nic_of_rank else None

    def figures(self) -> dict[str, str]:
        """Every figure by its path, as text: what `sources` has to cover."""
        found = {f"node.{f.name}": getattr(self.node, f.name) for f in fields(Node)}
        if not self.node.nics:
            del found["node.nic_map"]
        for level in self.levels:
            for name in ("size", "link_GBps", "latency_us", "switched"):
                found[f"levels.{level.name}.{name}"] = getattr(level, name)
        found.update({f"network.{f.name}": getattr(self.network, f.name) for f in fields(Network)})
        found.update({f"environment.{name}": value for name, value in self.environment.items()})
        return {path: str(value) for path, value in found.items() if value not in ("", 0)}


def known() -> list[str]:
    """Names of the machines that come with Lanecast."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def load(name_or_file: str) -> Machine:
    """A machine by name, or from a TOML file. Raises UsageError that names file and field."""
    path = Path(name_or_file)
    if path.suffix != ".toml":
        path = _FOLDER / f"{name_or_file}.toml"
        if name_or_file not in known():
            raise _core.UsageError(f"machine {name_or_file!r} is unknown; known: {', '.join(known())}, or a .toml file")
    with naming_file(f"machine {path}"):
        machine: Machine = read_fields(Machine, tomllib.loads(path.read_text()))
        _check(machine)
    return machine


def _check(machine: Machine) -> None:
    node = machine.node
    if node.nic_map not in _NIC_MAPS:
        raise FieldError("node.nic_map", f"{node.nic_map!r}; known: {', '.join(_NIC_MAPS)}")
    numbers = [(f"node.{f.name}", getattr(node, f.name)) for f in fields(Node)]
    for path, number in [*numbers, ("network.nodes_per_group", machine.network.nodes_per_group)]:
        if isinstance(number, int) and not 0 <= number <= _MOST:
            raise FieldError(path, f"{number}, expected 0 to {_MOST}")
    for at, level in enumerate(machine.levels):
        if level.size < 1:
            raise FieldError(f"levels[{at}].size", f"{level.size}, expected at least 1")
    if machine.ranks_per_node > _MOST:
        raise FieldError("levels", f"hold {machine.ranks_per_node} ranks, more than {_MOST}")
    if machine.levels and node.gpus and machine.ranks_per_node != node.gpus:
        raise FieldError("levels", f"hold {machine.ranks_per_node} ranks, node.gpus is {node.gpus}")
    _ = machine.nic_efficiency  # a map that does not fit says so
    figures = machine.figures()
    for path in figures:
        if not machine.sources.get(path, ""):
            raise FieldError(f"sources.{path}", f'missing: say where it comes from, or "{ASSUMED}: why"')
    for path in machine.sources:
        if path not in figures:
            raise FieldError(f"sources.{path}", "names no figure of this file")


def topology_text(text: str, size: int) -> str:
    """ "machine:frontier" as "2x4x2" for 16 ranks; any other text unchanged.

    Raises UsageError where the ranks do not fill the nodes: such a job has to write its topology out.
    """
    return topology_in(load(text.removeprefix(PREFIX)), size) if text.startswith(PREFIX) else text


def topology_in(machine: Machine, size: int) -> str:
    """ "2x4x2" for 16 ranks of a machine. Raises UsageError where they do not fill its nodes."""
    inside = machine.ranks_per_node
    if not inside:
        raise _core.UsageError(f"topology: {machine.name} says neither levels nor node.ranks")
    if size % inside:
        raise _core.UsageError(
            f"topology: {machine.name} has {inside} ranks on each node, which {size} ranks do not fill; "
            f"take a multiple of {inside}, or, where a topology can be given, write it out, as in 3+2+4"
        )
    outer = [size // inside] if size > inside else []
    return "x".join(str(n) for n in [*outer, *machine.shape_in_node])
