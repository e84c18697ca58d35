# SPDX-License-Identifier: Apache-2.0
"""Plans for people: JSON that comes back whole, rounds and amounts that are true, pictures that are legible."""

import json
from fractions import Fraction
from math import ceil, log2
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade_plans import add, by_hand, output, own, send
from lanecast._core import Topology, UsageError, algorithms_for, make_plan, make_plans
from lanecast.plans import draw, from_json, show, to_json
from lanecast.plans.draw_lanes import LaneDiagram, Mark, side_by_side
from lanecast.plans.draw_matrices import stages
from lanecast.plans.flow import Flow, GroupCall, level_names, trace
from lanecast.plans.labels import PieceLabels
from topologies import topologies

HIERARCHY = Topology.parse("2x4", 8)
collectives = st.sampled_from(["all_gather", "reduce_scatter", "all_reduce"])


def flow_of(collective: str, topology: Topology, algorithm: str) -> Flow:
    return trace(make_plans(collective, topology, algorithm), topology)


@given(topologies(12), collectives, st.booleans(), st.data())
def test_json_round_trip(topology: Topology, collective: str, in_place: bool, data: st.DataObject) -> None:
    algorithm = data.draw(st.sampled_from(algorithms_for(collective, topology)))
    plans = make_plans(collective, topology, algorithm, in_place)
    again, where = from_json(to_json(plans, topology))
    assert [plan.to_dict() for plan in again] == [plan.to_dict() for plan in plans]
    assert (where.size, where.levels) == (topology.size, topology.levels)


def test_json_has_a_line_per_step() -> None:
    text = to_json([make_plan("all_gather", 0, HIERARCHY, "ring")], HIERARCHY)
    assert sum('"kind"' in line for line in text.splitlines()) == 15
    assert max(map(len, text.splitlines())) < 200


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("[]", "not a plan file"),
        ("{}", "not a plan file"),
        ('{"format": "lanecast-plans", "version": 99}', "version 99"),
        ('{"format": "lanecast-plans", "version": 2}', "missing or of the wrong form: 'topology'"),
        ('{"format": "lanecast-plans", "version": 2, "topology": 3}', "wrong form"),
    ],
)
def test_other_json_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"^plans: .*{said}"):
        from_json(text)


def test_damaged_plan_in_json_is_refused() -> None:
    content = json.loads(to_json([make_plan("all_gather", 0, HIERARCHY, "ring")], HIERARCHY))
    del content["plans"][0]["steps"][3]["peer"]
    with pytest.raises(UsageError, match="peer"):
        from_json(json.dumps(content))


@pytest.mark.parametrize("size", [2, 7, 8, 13])
def test_rounds_are_those_of_the_file_headers(size: int) -> None:
    expected = {"ring": size - 1, "bruck": ceil(log2(size)), "direct": 1, "mpi": 1}
    if size == 8:
        expected["recursive_doubling"] = 3
    for algorithm, rounds in expected.items():
        assert flow_of("all_gather", Topology(size), algorithm).rounds == rounds
    assert flow_of("all_reduce", Topology(size), "one_shot").rounds == 1
    assert flow_of("all_reduce", Topology(size), "folding").rounds == int(log2(size)) + (0 if size in (2, 8) else 2)
    for algorithm in ("ring", "bruck"):
        assert flow_of("all_reduce", Topology(size), algorithm).rounds == 2 * expected[algorithm]


@given(topologies(16), st.data())
def test_every_rank_receives_what_it_lacks(topology: Topology, data: st.DataObject) -> None:
    """Also inside group calls, which are drawn as if every member sent to every other."""
    flow = flow_of("all_gather", topology, data.draw(st.sampled_from(algorithms_for("all_gather", topology))))
    for rank in range(topology.size):
        received = sum((flow.share(t.pieces) for t in flow.transfers if t.receiver == rank), start=Fraction(0))
        assert received == Fraction(topology.size - 1, topology.size)


def test_levels() -> None:
    assert level_names(Topology(4)) == ["between ranks"]
    assert level_names(Topology.parse("2x2x2", 8)) == ["across nodes", "across devices", "within a device"]
    flow = flow_of("all_reduce", Topology.parse("2x2x2", 8), "hierarchical(ring,direct,mpi)")
    assert {(t.level, t.sender ^ t.receiver) for t in flow.transfers} == {(0, 4), (1, 2), (2, 1)}
    assert {call.level for call in flow.calls} == {2}


def test_a_librarys_all_reduce_moves_what_the_best_of_libraries_would() -> None:
    flow = flow_of("all_reduce", Topology(4), "mpi")
    assert flow.calls == [GroupCall("all_reduce", (0, 1, 2, 3), 1, 0)]
    assert sum(flow.share(t.pieces) for t in flow.transfers if t.sender == 2) == 2 * Fraction(3, 4)


def test_labels() -> None:
    def labels(collective: str, topology: Topology, algorithm: str) -> tuple[str, set[str]]:
        flow = flow_of(collective, topology, algorithm)
        names = PieceLabels(flow)
        return names.meaning, {names.of(t.pieces) for t in flow.transfers}

    assert labels("all_gather", Topology(4), "bruck") == ("parts", {*"0123", "0-1", "1-2", "2-3", "0,3"})
    meaning, texts = labels("all_reduce", Topology(3), "ring")
    assert meaning == "slices of the vector, cut in 3"
    assert texts == {"0", "1", "2"}
    meaning, texts = labels("all_gather", Topology.parse("3+2", 5), "hierarchical(ring,direct)")
    assert meaning == "parts; 5.1 is slice 1 of 2 of part 5"
    assert {"3", "0,2.0", "1,2.1"} <= texts
    assert labels("all_reduce", Topology(2), "folding") == ("the vector", {"0"})


def test_text() -> None:
    text = show(make_plans("all_reduce", HIERARCHY, "hierarchical(ring,direct)", True), HIERARCHY)
    assert text.startswith("all_reduce by hierarchical(ring,direct) on 2x4, in-place\n8 ranks, ")
    assert "across nodes: 2 times the buffer is sent, by one rank at most 1/4 of it" in text
    assert "  0 → 4     adds 4  (across nodes)" in text
    text = show(make_plans("all_gather", HIERARCHY, "hierarchical(bruck,mpi)"), HIERARCHY)
    assert "  group all_gather among 0,1,2,3  (within a node)" in text
    assert "before round 1\n  copy on rank 0\n" in show(make_plans("all_gather", Topology(1), "ring"), Topology(1))


@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), max_size=40))
def test_marks_side_by_side_never_touch(ends: list[tuple[int, int]]) -> None:
    marks = [Mark(min(e), max(e), GroupCall("all_gather", (0, 1), 1, 0), "") for e in ends]
    columns = side_by_side(marks)
    assert sum(len(column.marks) for column in columns) == len(marks)
    for column in columns:
        covered = [lane for mark in column.marks for lane in range(mark.top, mark.bottom + 1)]
        assert len(covered) == len(set(covered))


def test_stages_are_told_apart_by_level_direction_and_time() -> None:
    flow = flow_of("all_reduce", HIERARCHY, "hierarchical(ring,direct)")
    assert [(stage.level, stage.adds) for stage in stages(flow)][:3] == [(1, True), (0, True), (1, False)]
    assert sum(len(stage.transfers) for stage in stages(flow)) == len(flow.transfers)
    wide = LaneDiagram(flow_of("all_gather", Topology(16), "direct"), Topology(16)).columns
    assert wide > LaneDiagram(flow_of("all_gather", Topology(4), "direct"), Topology(4)).columns > 1


@pytest.mark.parametrize(
    ("shape", "collective", "algorithm"),
    [
        ("2x4", "all_reduce", "hierarchical(ring,direct)"),
        ("3+2+4:cyclic", "all_gather", "hierarchical(ring,mpi)"),
        ("1", "all_gather", "ring"),
        ("6x4", "reduce_scatter", "hierarchical(bruck,ring)"),
    ],
)
def test_pictures(tmp_path: Path, shape: str, collective: str, algorithm: str) -> None:
    size = {"2x4": 8, "3+2+4:cyclic": 9, "1": 1, "6x4": 24}[shape]
    topology = Topology.parse(shape, size)
    plans = make_plans(collective, topology, algorithm)
    draw(plans, topology, tmp_path / "plan.png")
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    draw(plans, topology, tmp_path / "plan.svg")
    assert ElementTree.parse(tmp_path / "plan.svg").getroot().tag.endswith("svg")


def test_plans_that_cannot_be_followed() -> None:
    with pytest.raises(UsageError, match="needs those of all 8 ranks"):
        show(make_plans("all_gather", HIERARCHY, "ring")[:3], HIERARCHY)
    waiting = by_hand(
        "all_reduce",
        [send(1, own(0)), add(1, own(0), output(0), after=[0])],
        [add(0, own(0), output(0)), send(0, own(0), after=[0])],
    )
    assert trace(waiting, Topology(2)).rounds == 2
    circle = by_hand(
        "all_reduce",
        [add(1, own(0), output(0)), send(1, own(0), after=[0])],
        [add(0, own(0), output(0)), send(0, own(0), after=[0])],
    )
    with pytest.raises(UsageError, match="wait for each other in a circle"):
        show(circle, Topology(2))
