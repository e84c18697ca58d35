# SPDX-License-Identifier: Apache-2.0
"""A described machine as the simulator takes it, and as the cost model does."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lanecast import _core
from lanecast.bench.options import distinct
from lanecast.machines import Machine, topology_in
from lanecast.machines.description import ASSUMED, Level
from lanecast.scale import software

NEEDED = ("node.nics", "node.nic_GBps", "node.memory_GBps", "network.latency_us", "network.nodes_per_group",
          "network.taper")  # fmt: skip
_MOST_RANKS = 1 << 16
_LATENCY_LEFT = 0.25  # of each chunk's: the four that are under way hide the rest of each other's
_FIGURES = ("node.gpus", "node.nic", "node.memory", "levels.", "network.")  # what simulated times hang on


def check(machine: Machine, ranks: int) -> None:
    """Raise UsageError for what cannot be simulated."""
    figures = machine.figures()
    needed = [*NEEDED, *(f"levels.{level.name}.link_GBps" for level in machine.levels)]
    missing = [path for path in needed if path not in figures]
    if missing:
        raise _core.UsageError(
            f"machine {machine.name} cannot be simulated: its file lacks {', '.join(missing)}; "
            "copy the file, add them with their sources, and give its path"
        )
    if not 2 <= ranks <= _MOST_RANKS:
        raise _core.UsageError(f"ranks: {ranks} is not from 2 to {_MOST_RANKS}")
    topology_in(machine, ranks)


def rank_counts(machine: Machine, text: str, most_checked: int | None = None) -> list[int]:
    """Numbers of ranks that the machine can have, at least one; most_checked: of those that hold real data."""
    counts = []
    for item in distinct(text):
        if not item.isascii() or not item.isdigit() or len(item) > 9:
            raise _core.UsageError(f"ranks {item!r}: expected whole numbers such as 32,128")
        check(machine, int(item))
        if most_checked is not None and int(item) > most_checked:
            raise _core.UsageError(f"ranks {item}: --check holds real data, for at most {most_checked} ranks")
        counts.append(int(item))
    if not counts:
        raise _core.UsageError("ranks: none given")
    return counts


def words(machine: Machine) -> list[str]:
    """The machine as arguments of the simulator, in bytes and seconds."""
    node, network = machine.node, machine.network
    levels = [
        f"level={level.size},{level.link_GBps * 1e9:.9g},{level.latency_us * 1e-6:.9g},{int(level.switched)}"
        for level in machine.levels
    ]
    group_rate = network.nodes_per_group * node.nics * node.nic_GBps * 1e9 * network.taper
    return [
        *(levels or [f"level={machine.ranks_per_node},1,0,0"]),
        f"nic_of_rank={','.join(str(nic) for nic in machine.nic_of_rank)}",
        f"nic_rate={node.nic_GBps * 1e9:.9g}",
        f"latency={network.latency_us * 1e-6:.9g}",
        f"group_nodes={network.nodes_per_group}",
        f"group_rate={group_rate:.9g}",
        f"group_latency={network.global_latency_us * 1e-6:.9g}",
        f"memory_rate={node.memory_GBps * 1e9:.9g}",
    ]


def figures(machine: Machine) -> dict[str, dict[str, str]]:
    """What all results repeat, by path: value and source."""
    return {
        path: {"value": value, "source": machine.sources[path]}
        for path, value in machine.figures().items()
        if path.startswith(_FIGURES)
    }


def text(known: dict[str, dict[str, str]]) -> str:
    """These on one line, those that nobody has looked up marked."""
    marks = {path: " (assumed)" if each["source"].startswith(ASSUMED) else "" for path, each in known.items()}
    return ", ".join(f"{path} {each['value']}{marks[path]}" for path, each in known.items())


def merged(machine: Machine) -> Machine:
    """Its nodes with one NIC as fast as all of them, and links inside that many times as fast.

    A ring on it takes the time of one ring for each NIC, each with wires of its own, as vendors' libraries run them.
    """
    nics = machine.node.nics
    node = replace(machine.node, nics=1, nic_map="packed", nic_GBps=nics * machine.node.nic_GBps)
    levels = [replace(level, link_GBps=nics * level.link_GBps) for level in machine.levels]
    return replace(machine, node=node, levels=levels)


def _together(level: Level) -> float:
    """Gigabytes per second that a GPU sends to all others of its group: each pair has a link, or each GPU a port."""
    return level.link_GBps * (1 if level.switched else max(1, level.size - 1))


def models(machine: Machine, topology: _core.Topology) -> _core.Models:
    """What the machine's figures tell the cost model; a rank's share of a NIC is its link to other nodes.

    Between nodes messages follow each other no faster than processors at both ends work on them, which no wire shows,
    and chunks hide each other's latency. Of an all-to-all they hide no more than they cost: on 128 ranks of Frontier
    16 MiB take 1.56 ms by levels in one chunk, 1.34 in 4 and 1.58 in 16.
    """
    busiest = max(Counter(machine.nic_of_rank).values())
    inside = [(level.latency_us * 1e-6, 1 / (_together(level) * 1e9)) for level in machine.levels]
    across = (machine.network.latency_us * 1e-6, busiest / (machine.node.nic_GBps * 1e9))
    links = [across, *(inside or [across])]
    known = _core.Models(links[-(len(topology.levels) + 1) :], 3 / (machine.node.memory_GBps * 1e9))
    ours = software.cost_of(machine, "lanecast", "")
    if ours is None or len(topology.levels) + 1 < len(links):  # one node
        return known
    for kind in _core.KINDS:
        known = known.with_overlap(kind, 0 if kind == "all_to_all" else 1, _LATENCY_LEFT, 1)
    return known.with_gap(2 * ours.message_us * 1e-6)
