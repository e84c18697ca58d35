# SPDX-License-Identifier: Apache-2.0
"""Topologies for property tests: any shape, even or not, nested or not, ranks placed in any order."""

from hypothesis import strategies as st

from lanecast._core import Topology


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
