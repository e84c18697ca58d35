# SPDX-License-Identifier: Apache-2.0
"""A described machine as text: what its nodes hold, and which of its settings are made here."""

from __future__ import annotations

import os

from lanecast.machines import Machine
from lanecast.machines.description import ASSUMED


def _sourced(machine: Machine, path: str) -> str:
    source = machine.sources.get(path, "")
    return f"  [{source}]" if source else ""


def node_lines(machine: Machine) -> list[str]:
    """Processor, GPUs, NICs and how they meet."""
    node = machine.node
    lines = [f"{machine.name}: {machine.summary}", f"{node.cores} cores, {node.cpu}{_sourced(machine, 'node.cores')}"]
    if node.gpus:
        lines.append(f"{node.gpus} x {node.gpu}{_sourced(machine, 'node.gpus')}")
    if node.nics:
        lines.append(f"{node.nics} x {node.nic}, {node.nic_GBps:g} GB/s each{_sourced(machine, 'node.nic_GBps')}")
    if machine.nic_efficiency is not None:
        users = ", ".join(str(nic) for nic in machine.nic_of_rank)
        lines.append(f"ranks use NICs {users} ({node.nic_map}){_sourced(machine, 'node.nic_map')}")
        lines.append(
            f"predicted: {machine.nic_efficiency:.0%} of the NICs' bandwidth where all ranks send equally much"
        )
    if node.cores_per_rank:
        lines.append(f"bind each rank to {node.cores_per_rank} cores{_sourced(machine, 'node.cores_per_rank')}")
    return lines


def level_lines(machine: Machine) -> list[str]:
    """The hierarchy, outermost first."""
    lines = ["node: as many as the job has"]
    for level in machine.levels:
        rate = f", {level.link_GBps:g} GB/s each way" if level.link_GBps else ""
        lines.append(
            f"{level.name}: {level.size}, {level.link}{rate}{_sourced(machine, f'levels.{level.name}.link_GBps')}"
        )
    return lines


def environment_lines(machine: Machine) -> list[str]:
    """For each setting of the machine whether it is made here, is made otherwise, or is missing."""
    lines = []
    for name, value in machine.environment.items():
        here = os.environ.get(name)
        state = "missing" if here is None else "set" if here == value else f"set to {here!r} here, expected"
        lines.append(f"{state}: {name}={value}{_sourced(machine, f'environment.{name}')}")
    return lines or ["none known"]


def assumed_lines(machine: Machine) -> list[str]:
    """What nobody has looked up."""
    return [path for path, source in machine.sources.items() if source.startswith(ASSUMED)]
