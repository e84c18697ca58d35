# SPDX-License-Identifier: Apache-2.0
"""Topologies for property tests: any shape, even or not, nested or not, ranks placed in any order; and what a
collective on one may be asked for."""

from dataclasses import dataclass

from hypothesis import strategies as st

from lanecast import _core
from lanecast._core import Topology


@dataclass(frozen=True)
class Question:
    """A collective, one of its algorithms and what else a plan depends on."""

    collective: str
    topology: Topology
    algorithm: str
    in_place: bool
    root: int

    @property
    def arguments(self) -> tuple[str, Topology, str, bool, int]:
        """Of make_plans and verify_all_ranks."""
        return self.collective, self.topology, self.algorithm, self.in_place, self.root


def question(data: st.DataObject, topology: Topology, collectives: tuple[str, ...] = _core.KINDS) -> Question:
    """Any of the questions there are on this topology."""
    collective = data.draw(st.sampled_from(collectives))
    algorithm = data.draw(st.sampled_from(_core.algorithms_for(collective, topology)))
    in_place = _core.may_be_in_place(collective) and data.draw(st.booleans())
    root = data.draw(st.integers(0, topology.size - 1)) if _core.has_root(collective) else 0
    return Question(collective, topology, algorithm, in_place, root)


@st.composite
def grids(draw: st.DrawFn, max_size: int) -> Topology:
    """Even levels, two or three of them, as "2x4" or "2x3x2"."""
    shape: list[int] = []
    for _ in range(draw(st.integers(2, 3))):
        room = max_size
        for n in shape:
            room //= n
        shape.append(draw(st.integers(1, max(1, min(8, room)))))
    size = 1
    for n in shape:
        size *= n
    layout = draw(st.sampled_from(["", ":block", ":cyclic"]))
    return Topology.parse("x".join(map(str, shape)) + layout, size)


@st.composite
def uneven(draw: st.DrawFn, max_size: int) -> Topology:
    sizes = draw(st.lists(st.integers(1, max_size // 4), min_size=2, max_size=4))
    layout = draw(st.sampled_from(["", ":cyclic"]))
    return Topology.parse("+".join(map(str, sizes)) + layout, sum(sizes))


@st.composite
def scattered(draw: st.DrawFn, max_size: int) -> Topology:
    """Ranks anywhere, on nodes of devices, so that lanes, nodes and devices are all uneven."""
    places = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=max_size))
    levels = [("node", [node for node, _ in places]), ("device", [3 * node + device for node, device in places])]
    return Topology(len(places), levels)


def flat(max_size: int) -> st.SearchStrategy[Topology]:
    return st.builds(Topology, st.integers(1, max_size))


def topologies(max_size: int) -> st.SearchStrategy[Topology]:
    return st.one_of(flat(max_size), grids(max_size), uneven(max_size), scattered(min(max_size, 24)))
