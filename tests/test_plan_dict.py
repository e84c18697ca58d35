# SPDX-License-Identifier: Apache-2.0
"""Plans as text and as dictionaries: nothing is lost on the way, and damaged ones are refused, never a crash."""

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade_plans import block, output
from lanecast._core import Plan, PlanError, Topology, UsageError, make_plan, make_plans, verify
from plan_memory import IN, PlanDict
from topologies import question, topologies

THREE = Topology(3)


@given(topologies(12), st.data())
def test_round_trip(topology: Topology, data: st.DataObject) -> None:
    asked = question(data, topology)
    for plan in make_plans(*asked.arguments):
        described = plan.to_dict()
        again = Plan.from_dict(described)
        assert again.to_dict() == described
        assert str(again) == str(plan)
        assert (again.rank, again.size, again.slots, len(again)) == (plan.rank, plan.size, plan.slots, len(plan))
        assert (again.collective, again.algorithm, again.root) == (asked.collective, asked.algorithm, asked.root)
        through_json = Plan.from_dict(json.loads(json.dumps(described)))
        assert through_json.to_dict() == described


def test_text_of_a_plan() -> None:
    assert str(make_plan("reduce_scatter", 0, THREE, "ring")) == (
        "reduce_scatter by ring, rank 0 of 3, 4 steps, 1 scratch slots\n"
        "  0  recv_reduce from rank 1 + in/part 2 -> scratch0/part 2\n"
        "  1  send to rank 2 in/part 1\n"
        "  2  recv_reduce from rank 1 + in/part 0 -> out/part 0 (complete)\n"
        "  3  send to rank 2 scratch0/part 2  after 0\n"
    )
    assert "rank 1 of 3, in-place, 4 steps" in str(make_plan("reduce_scatter", 1, THREE, "ring", in_place=True))
    assert "group all_reduce among ranks 0,1,2 in/part 0" in str(make_plan("all_reduce", 0, THREE, "mpi"))
    assert "reduce of 3 sources in/part 0, scratch1/part 0, scratch0/part 0 -> out/part 0 (complete)  after 0,2" in str(
        make_plan("all_reduce", 0, THREE, "one_shot")
    )


def test_long_lists_of_blocks_are_cut_short() -> None:
    plan = make_plan("all_gather", 0, Topology(16), "bruck")
    last = max(range(len(plan)), key=lambda i: len(plan.describe(i)))
    assert re.search(r"… \d more$", plan.describe(last))


def test_one_step_as_text() -> None:
    plan = make_plan("all_reduce", 2, THREE, "ring")
    assert plan.describe(0) == "step 0 of 8: " + str(plan).splitlines()[1].split("  ")[2]
    with pytest.raises(IndexError):
        plan.describe(8)


def test_fractions_are_reduced() -> None:
    described = make_plan("all_reduce", 0, Topology(2), "ring").to_dict()
    coarse = copy.deepcopy(described)
    for step in coarse["steps"]:
        step["src"] = [(space, part, (3 * lo[0], 3 * lo[1]), hi) for space, part, lo, hi in step["src"]]
    assert Plan.from_dict(coarse).to_dict() == described


@pytest.mark.parametrize(
    ("entry", "value", "said"),
    [
        ("collective", "all_together", "collective 'all_together'"),
        ("steps", 5, "wrong form"),
        ("steps", [{}], "kind"),
        ("regions", [(0, (0, 0), (1, 1), 0)], "denominator is 0"),
        ("regions", [(0, (0, 1), (1, -2), 0)], "denominator is -2"),
        ("regions", [(0, 0, 1, 0)], "entry"),
        ("groups", [{"kind": "barrier", "ranks": [0, 1], "own": []}], "unknown group kind 'barrier'"),
        ("rank", "first", "wrong type"),
        ("size", 1 << 40, "wrong type"),
    ],
)
def test_what_is_no_plan_is_a_usage_error(entry: str, value: Any, said: str) -> None:
    described = make_plan("all_gather", 0, THREE, "ring").to_dict()
    with pytest.raises(UsageError, match=f"^plan: .*{said}|^{said}"):
        Plan.from_dict({**described, entry: value})
    del described[entry]
    with pytest.raises(UsageError, match=f"missing .*{entry}"):
        Plan.from_dict(described)


DAMAGE: list[tuple[dict[str, Any], str]] = [
    ({"peer": 9}, "no such peer: 9"),
    ({"peer": 0}, "no such peer: 0"),
    ({"kind": "group", "group": 5}, "no such group: 5"),
    ({"deps": [0, 99]}, "depends on a later step"),
    ({"deps": [1, 0]}, "not in ascending order"),
    ({"ordinal": 7}, "carries ordinal 7, in list order it is number"),
    ({"src": [block(IN, 4)]}, "no such piece: in/part 4"),
    ({"src": [block(IN, 0, lo=(-1, 2))]}, "no such piece"),
    ({"src": [block(IN, 0, hi=(3, 2))]}, "no such piece"),
    ({"src": [block(IN, 0, hi=(0, 1))]}, "no such piece"),
    ({"src": [block(7, 0)]}, "no such scratch region: scratch5"),
    ({"src": [block(-1, 0)]}, "no such scratch region"),
    ({"kind": "copy", "dst": [output(0), output(0)]}, "writes a piece twice: out/part 0"),
    ({"kind": "reduce", "dst": [], "sources": 4_000_000_000}, "not that many sources"),
    ({"kind": "send", "src": []}, "a send reads and does not write"),
    ({"kind": "recv", "dst": []}, "a receive writes and does not read"),
]


def damaged(number: int, entries: dict[str, Any]) -> list[PlanDict]:
    plans = [plan.to_dict() for plan in make_plans("all_reduce", Topology(2), "ring")]
    plans[0]["steps"][number].update(entries)
    return plans


@pytest.mark.parametrize(("entries", "said"), DAMAGE)
@pytest.mark.parametrize("number", range(4))
def test_damaged_steps_are_refused(number: int, entries: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError, match=f"^rank 0 step {number} of 4.*{re.escape(said)}"):
        verify([Plan.from_dict(plan) for plan in damaged(number, entries)])


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"slots": -1}, "-1 scratch slots for 0 regions"),
        ({"slots": 1 << 30}, "scratch slots for 0 regions"),
        ({"regions": [(0, (1, 2), (1, 4), 0)]}, "scratch region 0 is no piece"),
        ({"size": 3}, "in rank order"),
    ],
)
def test_damaged_plans_are_refused(entries: dict[str, Any], said: str) -> None:
    plans = damaged(0, {})
    plans[1].update(entries)
    with pytest.raises(PlanError, match=said):
        verify([Plan.from_dict(plan) for plan in plans])
