# SPDX-License-Identifier: Apache-2.0
"""Programs between hosts with data, under random schedules: every algorithm and form, however hosts lie."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest

from composed_cases import FORMS, form
from lanecast import _core
from lanecast._core import PlanError, Topology, UsageError
from plan_memory import parts
from program_cases import Call, Shape, check_call, lowered, programs_of
from program_interpreter import ProgramDict
from program_proxies import CarriedEnd, Proxies
from program_rings import WrongProgram
from random_compositions import some_knobs

MOST_SOURCES = 16  # of a step of a program
OPS = ("sum", "max", "avg", "bxor")
# Hosts that are domains of the topology, that are several or parts of some, and that cut across them.
LAYOUTS = [("3", "aab"), ("2x2", "aabb"), ("2x2", "abab")]
LARGE_LAYOUTS = [
    *LAYOUTS, ("2", "ab"), ("3+2+1", "aaabbc"), ("2x3", "aabbcc"),
    ("2x2x2", "aaaabbbb"), ("2x2x2", "aabbccdd"), ("7", "abcabca"), ("3x4", "abcabcabcabc"),
    ("5+4+8", "aaaaabbbbcccccccc"), ("4x4", "aaaabbbbccccdddd"), ("8x4", "aaaabbbbccccddddeeeeffffgggghhhh"),
]  # fmt: skip


def some_shape(rng: random.Random, number: int, hosts: str, chunks: int = 0) -> Shape:
    lanes, channels = rng.choice([(1, 1), (2, 1), (2, 2), (4, 2), (4, 4), (6, 3)])
    counts = [rng.choice([0, 1, 7, 10, 53, 211]) for _ in range(number)]
    return Shape(
        counts if rng.random() < 0.5 else [rng.choice([1, 60, 211])] * number,
        lanes,
        chunks or rng.randint(1, 8),
        rng.choice(OPS),
        hosts=hosts,
        channels=channels,
        slots=rng.choice([0, 0, 2, 2, 3]),
    )


def check_named(collective: str, text: str, hosts: str, most: int, schedules: int) -> None:
    topology, rng = Topology.parse(text, len(hosts)), random.Random(f"{collective} {text} {hosts}")
    known = sorted(name for name in _core.algorithms_for(collective, topology) if not _core.has_library(name))
    for name in rng.sample(known, min(most, len(known))):
        try:
            plans = _core.make_plans(collective, topology, name, root=rng.randrange(len(hosts)))
        except UsageError:  # a collective without a root
            plans = _core.make_plans(collective, topology, name)
        if any(step["sources"] > MOST_SOURCES for step in plans[0].to_dict()["steps"]):
            continue
        shape = some_shape(rng, parts(plans[0].to_dict()), hosts)
        try:
            check_call(plans, shape, rng.getrandbits(32), schedules)
        except (WrongProgram, PlanError) as error:
            raise AssertionError(f"{name} on {text}: {shape}: {error}") from None


def check_forms(name: str, hosts: str, turns: int, schedules: int) -> None:
    size, rng = len(hosts), random.Random(f"{name} {hosts}")
    for _ in range(turns):
        composition = form(name, size, rng.randrange(size), rng.choice(["sum", "max"]))
        shape = some_shape(rng, composition.parts, hosts)
        plans = lowered(composition, some_knobs(rng, size), shape, in_place=rng.random() < 0.5)
        try:
            check_call(plans, shape, rng.getrandbits(32), schedules)
        except (WrongProgram, PlanError) as error:
            raise AssertionError(f"{name}: {shape}: {error}") from None


@pytest.mark.parametrize("collective", _core.KINDS)
def test_named_algorithms(collective: str) -> None:
    for text, hosts in LAYOUTS:
        check_named(collective, text, hosts, most=3, schedules=2)


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    for hosts in ("aab", "abab"):
        check_forms(name, hosts, turns=1, schedules=1)


def share(hosts: str, of_few: int) -> int:
    """How often so many ranks are tried: the interpreter takes seconds for a schedule of 16 of them, in Python."""
    return of_few if len(hosts) <= 8 else max(1, of_few // 8) if len(hosts) < 20 else 1


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("text", "hosts"), LARGE_LAYOUTS)
@pytest.mark.parametrize("collective", _core.KINDS)
def test_named_algorithms_of_many_ranks(collective: str, text: str, hosts: str) -> None:
    check_named(collective, text, hosts, most=share(hosts, 16), schedules=share(hosts, 4))


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("text", "hosts"), LARGE_LAYOUTS)
@pytest.mark.parametrize("name", FORMS)
def test_forms_of_many_ranks(name: str, text: str, hosts: str) -> None:
    del text
    check_forms(name, hosts, turns=share(hosts, 8), schedules=share(hosts, 4))


def direct(seed: int = 0, hosts: str = "abcd") -> tuple[Call, list[ProgramDict]]:
    """Messages of any rank to any other, in more chunks than slots, and four channels."""
    shape = Shape([60] * len(hosts), 4, 8, hosts=hosts, channels=4, slots=2)
    plans = _core.make_plans("all_gather", Topology(len(hosts)), "direct")
    call = Call([plan.to_dict() for plan in plans], shape, seed)
    return call, [program.to_dict() for program in programs_of(plans, shape)]


def hang(seeds: range) -> int:
    """Of so many schedules."""
    count = 0
    for seed in seeds:
        call, programs = direct(seed)
        try:
            call.run(programs, 128, seed)
        except WrongProgram as error:
            count += "nobody goes on" in str(error)
    return count


def test_few_messages_under_way_hold_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that wait for slots would keep one from leaving on which those slots depend, where channels drift apart."""
    assert hang(range(8)) == 0

    def few(proxies: Proxies, end: CarriedEnd) -> bool:
        return sum(other.rank == end.rank for other, _ in proxies._under_way) < Proxies.LEAST

    monkeypatch.setattr(Proxies, "_has_room", few)
    assert hang(range(8)) > 0


def lane_bytes_on_one_side(programs: list[ProgramDict]) -> None:
    programs[1]["carried"][0]["lane_bytes"] += 128


def a_share_too_small(programs: list[ProgramDict]) -> None:
    for message in (message for program in programs for message in program["carried"]):
        message["lane_bytes"] = 8


def nobody_says(queue: str, programs: list[ProgramDict]) -> None:
    next(what for what in programs[0][queue] if what["carried"] is not None)["ends"] = False


def another_message(programs: list[ProgramDict]) -> None:
    first, second = [what for what in programs[0]["takes"] if what["carried"] is not None][:2]
    first["carried"], second["carried"] = second["carried"], first["carried"]
    first["peer"], second["peer"] = second["peer"], first["peer"]


@pytest.mark.parametrize(
    "mutate",
    [lane_bytes_on_one_side, a_share_too_small, partial(nobody_says, "puts"), partial(nobody_says, "takes"),
     another_message],
)  # fmt: skip
def test_mutants_are_caught(mutate: Callable[[list[ProgramDict]], None]) -> None:
    call, programs = direct(hosts="abc")
    call.run(programs, 128, 1)
    mutate(programs)
    with pytest.raises(WrongProgram):
        call.run(programs, 128, 1)


@pytest.mark.parametrize(
    ("hosts", "channels", "slots", "said"),
    [
        ("", 2, 0, "channels and slots: are of programs between hosts"),
        ("ab", 1, 0, "hosts: needs one for each of 3 ranks, got 2"),
        ("aab", 3, 0, "channels: 3 do not divide 4 lanes"),
        ("aab", 0, 0, "channels: 0 do not divide 4 lanes"),
        ("aab", 1, -1, "slots: -1: a carried message has two at least"),
        ("aab", 1, 1, "slots: 1: a carried message has two at least"),
    ],
)
def test_refusals(hosts: str, channels: int, slots: int, said: str) -> None:
    plans = _core.make_plans("all_gather", Topology(3), "ring")
    with pytest.raises(UsageError, match=said):
        programs_of(plans, Shape([8] * 3, 4, hosts=hosts, channels=channels, slots=slots))
    with pytest.raises(UsageError, match=said):
        _core.programs_of(plans, [8], lanes=4, hosts=list(hosts), channels=channels, slots=slots)
