# SPDX-License-Identifier: Apache-2.0
"""Programs as people see them: text, JSON and pictures of what plans become for GPUs, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import lanecast
from composed_cases import form
from lanecast import _core, plans
from lanecast._core import Plan, Program, Topology, UsageError
from lanecast.cli import app
from lanecast.compose import Block, Composition, Knobs, forms, lower, programs
from lanecast.plans import draw_programs, programs_from_json, programs_to_json, show_program
from lanecast.plans.program_flow import Place, follow
from lanecast.plans.programs import side_by_side

WIDE = 400
FORMS = sorted({**forms.SINGLE_STEP, **forms.MULTI_STEP})
Made = list[tuple[Plan, Program]]


def shown(*arguments: str, columns: int = 80) -> str:
    done = CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(columns)})
    assert done.exit_code == 0, done.exception
    return done.stdout


@st.composite
def made_ones(draw: st.DrawFn) -> Made:
    size = draw(st.sampled_from([1, 2, 3, 4, 7]))
    chunks, ring = draw(st.sampled_from([0, 1, 3])), draw(st.sampled_from([1, size]))
    counts = draw(st.sampled_from([0, 1, 60, 2003]))
    knobs = Knobs([size], ring=ring, chunks=chunks)
    return programs(form(draw(st.sampled_from(FORMS)), size), counts, knobs=knobs, lanes=draw(st.sampled_from([1, 5])))


@given(made_ones())
@settings(max_examples=30, deadline=None)
def test_what_an_instruction_needs_stands_before_it(made: Made) -> None:
    """Above it in text, left of it in pictures; and each stands there once."""
    flow = follow([program for _, program in made])
    for rank, program in enumerate(flow.programs):
        rows = side_by_side(program)
        row = {("puts", put): k for k, (put, _) in enumerate(rows) if put is not None}
        row |= {("takes", take): k for k, (_, take) in enumerate(rows) if take is not None}
        assert len(row) == len(program["puts"]) + len(program["takes"])
        for queue, other in (("puts", "takes"), ("takes", "puts")):
            numbers = [row[queue, number] for number in range(len(program[queue]))]
            assert numbers == sorted(set(numbers))
            for number, what in enumerate(program[queue]):
                if what["needs"] and not what["needs_back"]:
                    assert row[other, what["needs"] - 1] < row[queue, number]
                    assert flow.column[Place(rank, other, what["needs"] - 1)] < flow.column[Place(rank, queue, number)]
    assert all(flow.column[put] < flow.column[take] for put, take in flow.messages)
    assert len(flow.messages) == sum(what["ends"] for program in flow.programs for what in program["puts"])


@given(made_ones())
@settings(max_examples=20, deadline=None)
def test_json_round_trip(made: Made) -> None:
    text = programs_to_json([program for _, program in made])
    content = json.loads(text)
    assert (content["format"], content["version"]) == ("lanecast-programs", 4)
    assert content["programs"] == [program.to_dict() for _, program in made]
    instructions = sum(len(program[queue]) for program in content["programs"] for queue in ("puts", "takes"))
    assert sum('"operation"' in line for line in text.splitlines()) == instructions
    again = programs_from_json(text)
    assert programs_to_json(again) == text
    described = [(program.describe(plan), program.scratch_bytes) for plan, program in made]
    assert [
        (program.describe(plan), program.scratch_bytes) for program, (plan, _) in zip(again, made, strict=True)
    ] == (described)
    _core.check_queues(again, max(program.longest_message for program in again))


def with_entry(name: str, value: Any) -> dict[str, Any]:
    """A program of which one entry differs; "takes.0.peer" is the peer of its first take."""
    program = programs(forms.all_reduce_by_all_gather(2), 64, knobs=Knobs(chunks=2))[0][1].to_dict()
    *way, last = [int(part) if part.isdigit() else part for part in name.split(".")]
    entry: Any = program
    for part in way:
        entry = entry[part]
    entry[last] = value
    return program


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("lanes", 65, "lanes: 65 is not from 1 to 64"),
        ("chunks", 0, "chunks: 0 is not from 1 to"),
        ("generations", 0, "generations: 0 is not from 1 to"),
        ("delays", 1 << 20, "delays: 1048576 is not from 0 to 65536"),
        ("puts.0.operation", "post", "operation: 'post' is unknown"),
        ("puts.0.operation", "take", "operation: a take stands among the puts"),
        ("puts.0.peer", None, "of the wrong"),
        ("puts.0.needs", 3, "needs: 3, but the other queue has 2"),
        ("puts.0.needs_back", 1, "needs_back: 1 is not from 0 to 0"),
        ("takes.1.delay", 9, "delay: 9 is not from 0 to 1"),
        ("takes.0.op", "total", "op: 'total' is unknown"),
        ("takes.0.divisor", 0.5, "divisor: 0.500000 is less than 1"),
        ("takes.0.runs.0", [], "runs: one of 0 operands, where a take_reduce has 2"),
        ("takes.0.runs.0.0.space", "attic", "space: 'attic' is none of in, out and scratch"),
        ("takes.0.runs.0.0.den", 0, "den: 0 is not from 1 to"),
        ("takes.0.runs.0.0.from", 5, "from: 5 is not from 0 to"),
        ("takes", None, "of the wrong"),
    ],
)
def test_what_is_no_program_is_refused(name: str, value: Any, said: str) -> None:
    with pytest.raises(lanecast.UsageError, match=re.escape(said)):
        _core.Program.from_dict(with_entry(name, value))


def test_queues_stand_beside_each_other_where_there_is_room() -> None:
    plan, program = programs(forms.all_reduce_by_all_gather(3), 300, knobs=Knobs([3], ring=3, chunks=2))[1]
    below, beside = show_program(plan, program), show_program(plan, program, WIDE)
    assert below == show_program(plan, program, 80) == program.describe(plan)
    lines = {line.strip() for line in below.splitlines()}
    assert lines == {part.strip() for line in beside.splitlines() for part in line.split("   ")} - {""}
    assert len(beside.splitlines()) < len(below.splitlines())
    assert beside.splitlines()[1].split() == ["puts:", "takes:"]


def test_commands_show_programs() -> None:
    options = ("--topology", "2", "--program", "--size", "4K", "--lanes", "2", "--chunks", "2")
    one = shown("compose", "show", "all_reduce_by_all_gather", *options, "--rank", "1")
    assert one.startswith("rank 1 of 2 ranks\n2 lanes of 2 chunks, 3 ticks, messages of up to 528 bytes, ")
    assert "\nputs:\n  p0: put to rank 0, 512 bytes  [step 1 of " in one
    both = shown("compose", "show", "all_reduce_by_all_gather", *options)
    assert both.endswith(one)
    assert both.startswith("rank 0 of 2 ranks\n")
    wide = shown("plan", "show", "all_reduce", "--algorithm", "ring", "--program", "--rank", "0", columns=WIDE)
    assert "puts:" in wide
    assert wide.splitlines()[2].endswith("takes:")


def test_commands_export_what_the_core_says() -> None:
    options = ("--topology", "3", "--program", "--size", "1200", "--json")
    content = json.loads(shown("compose", "show", "all_reduce_by_all_gather", *options))
    expected = programs(forms.all_reduce_by_all_gather(3), 300)
    assert content["programs"] == [program.to_dict() for _, program in expected]
    content = json.loads(shown("plan", "show", "all_gather", "--algorithm", "ring", *options, "--rank", "2"))
    made = _core.programs_of(_core.make_plans("all_gather", Topology(3), "ring"), [100])
    assert content["programs"] == [made[2].to_dict()]
    told, where = plans.from_json(shown("compose", "show", "broadcast", "--topology", "2x2", "--json"))
    assert (len(told), where.size) == (4, 4)


def test_a_message_that_fits_no_ring_is_cut() -> None:
    def chunks(size: str) -> int:
        text = shown("compose", "show", "broadcast", "--topology", "2", "--program", "--json", "--size", size)
        return int(json.loads(text)["programs"][0]["chunks"])

    assert chunks("64K") == 1
    assert chunks("16M") * (256 << 10) >= 16 << 20


@pytest.mark.parametrize(
    ("name", "knobs", "delays"),
    [
        ("all_reduce_by_all_gather", Knobs(chunks=3), {0, 1}),  # of stages 0 and 3; in 1 and 2 nobody sends
        ("all_reduce_by_all_gather", Knobs(chunks=1), {0}),
        ("all_gather", Knobs(chunks=3), {0}),
        ("all_gather", Knobs([2, 2], chunks=3), {0, 1}),
        ("all_gather", Knobs([4], ring=4, chunks=3), {0, 1, 2}),
        ("broadcast", Knobs([4], ring=4, chunks=3), {0}),  # each rank takes in one stage, and puts in one
    ],
)
def test_stages_work_a_chunk_behind_each_other(name: str, knobs: Knobs, delays: set[int]) -> None:
    made = [program.to_dict() for _, program in programs(form(name, 4), 1000, knobs=knobs)]
    found = {what["delay"] for program in made for queue in ("puts", "takes") for what in program[queue]}
    assert found == delays
    assert {program["delays"] for program in made} == {max(delays)}


@pytest.mark.parametrize("name", ["all_gather", "all_to_all"])
def test_a_copy_that_needs_nothing_comes_first(name: str) -> None:
    for _, program in programs(forms.SINGLE_STEP[name](3), 1000):
        assert [what["operation"] for what in program.to_dict()["takes"]] == ["copy", "take", "take"]


@pytest.mark.parametrize(
    ("name", "size", "knobs", "joined"),
    [
        ("all_reduce_by_all_gather", 2, Knobs(chunks=1), {(1, 0)}),  # numbers of the put and of its sum
        ("all_reduce_by_all_gather", 2, Knobs(chunks=2), set()),  # the sum has a tick's time until it is put
        ("all_reduce_by_all_gather", 4, Knobs(chunks=1), set()),  # it goes to three
        ("all_gather", 2, Knobs(chunks=1), set()),
    ],
)
def test_a_put_is_joined_to_the_sum_that_goes_nowhere_else(
    name: str, size: int, knobs: Knobs, joined: set[tuple[int, int]]
) -> None:
    for plan, program in programs(form(name, size), 1000, knobs=knobs):
        content = program.to_dict()
        puts = [(number, what["needs"] - 1) for number, what in enumerate(content["puts"]) if what["joined"]]
        assert set(puts) == joined
        sums = {number for number, what in enumerate(content["takes"]) if what["joined"]}
        assert sums == {number for _, number in joined}
        assert program.describe(plan).count("and joined to it") == len(joined)


def test_who_sends_an_average_finds_it_in_the_tick_before() -> None:
    _, program = programs(forms.all_reduce_by_all_gather(2, op="avg"), 1000, knobs=Knobs(chunks=3))[0]
    content = program.to_dict()
    assert [(what["operation"], what["delay"]) for what in content["takes"]] == [
        ("take_reduce", 0), ("reduce", 0), ("take", 1),
    ]  # fmt: skip
    assert [(what["delay"], what["needs_back"]) for what in content["puts"]] == [(0, 0), (1, 1)]


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter", "all_reduce", "gather", "scatter"])
def test_messages_are_as_long_in_place(kind: str) -> None:
    made = [
        _core.programs_of(_core.make_plans(kind, Topology(2), "direct", in_place=in_place), [16 << 20], lanes=64)
        for in_place in (False, True)
    ]
    assert len({program.chunks for programs_made in made for program in programs_made}) == 1


@pytest.mark.parametrize(
    ("name", "ranks", "chunks"),  # of 64 MiB in all, in 64 lanes
    [
        ("all_reduce_by_all_gather", 2, 11),
        ("all_reduce_by_all_gather", 4, 4),
        ("reduce_scatter", 2, 8),
        ("reduce_scatter", 4, 6),
        ("reduce", 2, 8),
        ("broadcast", 2, 8),
        ("broadcast", 4, 22),
        ("all_gather", 2, 3),
        ("all_gather", 4, 2),
        ("scatter", 2, 4),
    ],
)
def test_messages_are_as_long_as_serves_speed(name: str, ranks: int, chunks: int) -> None:
    of_whole = name.startswith("all_reduce") or name in {"reduce", "broadcast"}
    count = (16 << 20) // (1 if of_whole else ranks)
    assert {program.chunks for _, program in programs(form(name, ranks), count, lanes=64)} == {chunks}


def test_a_chain_is_taken_where_one_root_sends_much() -> None:
    def ring_of(name: str, ranks: int, count: int, knobs: Knobs | None = None, topology: str = "") -> str:
        where = Topology.parse(topology, ranks) if topology else None
        plan, _ = programs(form(name, ranks), count, "float32", knobs, where, lanes=64)[0]
        return plan.algorithm

    for name in ("broadcast", "reduce"):
        assert [ring_of(name, 4, count) for count in (1 << 18, 1 << 20)] == ["4", "4, ring 4"]
        assert ring_of(name, 3, 1 << 20) == "3, ring 3"
        assert ring_of(name, 2, 1 << 24) == "2"
        assert ring_of(name, 4, 1 << 20, Knobs(ring=1)) == "4"
        assert ring_of(name, 4, 1 << 20, Knobs([2, 2])) == "2x2"
        assert ring_of(name, 4, 1 << 20, topology="2x2") == "2x2, stripe 2"
    for name in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter", "all_reduce_by_all_gather"):
        assert ring_of(name, 4, 1 << 24) == "4"


def test_pieces_that_end_differently_are_cut_as_in_a_call() -> None:
    c = Composition([[0], [0]], [[0], [0]])
    c.multicast(0, [0, 1], Block(0).cut(0, 2))
    c.multicast(1, [0, 1], Block(0).cut(1, 2))
    taken = programs(c, 7)[0][1].to_dict()["takes"]
    assert {operand["bytes"] for what in taken for run in what["runs"] for operand in run} == {12, 16}


@pytest.mark.parametrize(("size", "chunks"), [(1, 1), (3, 2), (7, 3)])
def test_pictures(size: int, chunks: int, tmp_path: Path) -> None:
    topology = Topology(size)
    knobs = Knobs([size], ring=size, chunks=chunks)
    made = programs(forms.all_reduce_by_all_gather(size), 100, knobs=knobs)
    draw_programs(made, topology, tmp_path / "program.svg")
    assert ElementTree.parse(tmp_path / "program.svg").getroot().tag.endswith("svg")


def test_commands_draw_programs(tmp_path: Path) -> None:
    for command in (("compose", "draw", "all_gather"), ("plan", "draw", "all_gather", "--algorithm", "ring")):
        file = tmp_path / f"{command[0]}.png"
        shown(*command, "--topology", "2x2", "--program", "--chunks", "40", "-o", str(file))
        assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan", "show", "all_reduce", "--algorithm", "peers", "--program"], "no program has group steps, as step"),
        (["plan", "show", "all_gather", "--size", "4K"], "size 4K: is of programs; give --program as well"),
        (["plan", "draw", "all_gather", "--lanes", "0"], "lanes 0: is of programs"),
        (["compose", "show", "broadcast", "--chunks", "2"], "chunks 2: is of programs"),
        (["compose", "draw", "broadcast", "--dtype", "int8"], "dtype int8: is of programs"),
        (["plan", "show", "all_gather", "--program", "--lanes", "0"], "lanes: 0 is not from 1 to 64"),
        (["plan", "show", "all_gather", "--program", "--lanes", "65"], "lanes: 65 is not from 1 to 64"),
        (["compose", "show", "broadcast", "--program", "--chunks", "-1"], "chunks: -1 is not from 0 to 65536"),
        (["compose", "show", "broadcast", "--program", "--chunks", "65537"], "chunks: 65537 is not from 0"),
        (["compose", "show", "broadcast", "--program", "--chunks", "99999999999"], "expected whole numbers"),
        (["plan", "show", "all_gather", "--program", "--chunks", "99999999999"], "larger than any memory"),
        (["plan", "show", "all_gather", "--program", "--size", "4X"], "size '4X': expected a whole number of bytes"),
        (["plan", "show", "all_reduce", "--program", "--size", "99999999999G"], "larger than any memory"),
        (["plan", "show", "all_reduce", "--program", "--size", "99999G"], "more than programs take"),
        (["plan", "show", "all_reduce", "--program", "--dtype", "float"], "dtype 'float' is unknown; known: "),
        (["plan", "show", "all_gather", "--program", "--rank", "4"], "rank 4: there are 4"),
        (["plan", "show", "all_gather", "--program", "--rank", "-1"], "rank -1: there are 4"),
        (["compose", "draw", "broadcast", "--program", "--topology", "17"], "17 ranks, but programs of up to 16"),
    ],
)  # fmt: skip
def test_refusals(arguments: list[str], said: str) -> None:
    refused = CliRunner().invoke(app, arguments).exception
    assert isinstance(refused, UsageError), refused
    assert said in str(refused)


def test_what_does_not_belong_together_is_refused() -> None:
    made = programs(forms.all_reduce_by_all_gather(3), 10)
    others = programs(forms.broadcast(3), 10)
    with pytest.raises(UsageError, match="made from another plan, which has more steps"):
        made[0][1].describe(others[2][0])
    three = lower(forms.broadcast(3))
    for some in ([], three[:2], three[::-1]):
        with pytest.raises(UsageError, match="needs those of all ranks, in rank order"):
            _core.programs_of(some, [10])
    with pytest.raises(UsageError, match="counts: needs one number, or one per part"):
        _core.programs_of(three, [1, 2, 3])
    with pytest.raises(UsageError, match="counts: needs one number, or one per part"):
        programs(forms.broadcast(3), [1, 2, 3])
    with pytest.raises(UsageError, match="expected whole numbers"):
        programs(forms.broadcast(3), 1.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="lanes: 0 is not"):
        _core.program_of(three[0], [10], lanes=0)


def test_no_program_on_the_cpu() -> None:
    def rank_main(comm: lanecast.Communicator) -> bool:
        x = np.ones(4)
        return comm.compile(form("all_reduce", comm.size), x, x).program is None

    assert lanecast.run_threads(2, rank_main) == [True, True]


@pytest.mark.parametrize("count", [0, 1])
def test_queues_come_to_their_ends_where_there_is_nothing_to_move(count: int) -> None:
    """Of several chunks, in whose scratch memory there are no bytes."""
    ring = lower(forms.all_reduce_by_all_gather(3), Knobs([3], ring=3))
    _core.check_queues([_core.program_of(plan, [count], chunks=3) for plan in ring], 65536)
