# SPDX-License-Identifier: Apache-2.0
"""Programs whose counts come with the launch: for any counts up to their bound, each is the program of those counts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from lanecast import _core
from lanecast._core import Plan, Program, Topology, UsageError
from plan_memory import parts
from program_cases import Call, Shape, check_shares
from program_counts import launched
from program_interpreter import ProgramDict
from program_rings import WrongProgram, longest_message

SIZE = 8  # bytes of an int64
LAYOUTS = [("2", "ab"), ("2", "aa"), ("3", "aab"), ("2x2", "aabb"), ("7", "abcabca")]
KINDS = ("all_gather", "reduce_scatter", "gather", "scatter")
NEVER = (1 << 64) - 1


def rows(program: ProgramDict, counts: Sequence[int]) -> list[int]:
    """Elements of each row, of those of each part."""
    return [counts[part] for part in program["counted"]["rows"]]


def slots_overlap(program: ProgramDict, bound: ProgramDict) -> str:
    """A share that does not fit into its place, or slots of two messages that overlap; or nothing."""
    ends: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
    for message in program["carried"]:
        length = message["lane_bytes"] * program["lanes"] * message["slots"]
        ends[bool(message["on_host"])].append((message["place"], message["place"] + length))
    for on_host, places in ends.items():
        taken = sorted(place for message in bound["carried"] for place in [message["places"][on_host]])
        for begin, end in places:
            beyond = [place for place in taken if place > begin]
            if beyond and end > beyond[0]:
                return f"slots from {begin} to {end} reach into those at {beyond[0]}"
    return ""


def check(
    plans: Sequence[Plan], bound: Shape, counts: Sequence[int], options: Sequence[dict[str, Any]], seed: int
) -> None:
    """options: of each rank's program."""
    programs: list[Program] = []
    exported: list[ProgramDict] = []
    longest = 0
    for plan, own in zip(plans, options, strict=True):
        made = _core.program_of(
            plan, own.pop("bound", list(bound.counts)), bound.dtype, bound.op, bound.lanes, bound.chunks,
            list(bound.hosts), bound.channels, bound.slots, **own,
        )  # fmt: skip
        template = made.to_dict()
        elements = rows(template, counts)
        program = made.with_counts(elements, bound.dtype)
        again = launched(template, [count * SIZE for count in elements])
        described = program.to_dict()
        for name in ("puts", "takes", "chunks"):
            assert described[name] == again[name], name
        for message, other in zip(described["carried"], again["carried"], strict=True):
            assert message == other
        assert slots_overlap(again, template) == ""
        longest = max(longest, made.longest_message)
        programs.append(program)
        exported.append(again)
    assert longest_message(exported) <= longest
    check_shares(programs, exported)
    _core.check_queues(programs, longest)
    call = Call([plan.to_dict() for plan in plans], Shape(counts, dtype=bound.dtype, op=bound.op), seed)
    call.run(exported, longest, seed)


def counts_up_to(rng: random.Random, number: int, bound: int) -> list[int]:
    some = rng.choice([[0], [0, bound], [0, 1, 7, bound // 3, bound], [bound]])
    return [rng.choice(some) if rng.random() < 0.7 else rng.randint(0, bound) for _ in range(number)]


@pytest.mark.parametrize(("text", "hosts"), LAYOUTS)
def test_counts_that_pairs_know(text: str, hosts: str) -> None:
    """Each rank is bound to what it knows itself: its bound is no other's."""
    rng, size = random.Random(f"pairs {text} {hosts}"), len(hosts)
    plans = _core.make_plans("all_to_all", Topology.parse(text, size), "pairwise")
    for turn in range(3):
        bound = rng.choice([5, 2000, 40_000] if turn else [160_000 if size > 2 else 700_000])
        lanes = rng.choice([1, 2, 4])
        counts = counts_up_to(rng, size * size, bound)
        options = []
        for rank in range(size):
            own = [counts[rank * size + to] for to in range(size)] + [counts[by * size + rank] for by in range(size)]
            bound_of_rank = rng.choice([max(own), bound])
            options.append(
                {"counted": "by_pairs", "least_on_gpu": rng.choice([NEVER, 16385]), "bound": [bound_of_rank]}
            )
        where = options[0]["least_on_gpu"]
        for own_options in options:
            own_options["least_on_gpu"] = where
        check(plans, Shape([bound], lanes, 4, hosts=hosts, slots=rng.choice([0, 0, 2])), counts, options, turn)


@pytest.mark.parametrize("collective", KINDS)
def test_counts_that_all_know(collective: str) -> None:
    for text, hosts in LAYOUTS:
        rng, size = random.Random(f"{collective} {text} {hosts}"), len(hosts)
        topology = Topology.parse(text, size)
        known = sorted(name for name in _core.algorithms_for(collective, topology) if not _core.has_library(name))
        for name in rng.sample(known, min(2, len(known))):
            try:
                plans = _core.make_plans(collective, topology, name, root=rng.randrange(size))
            except UsageError:  # a collective without a root
                plans = _core.make_plans(collective, topology, name)
            bound = rng.choice([53, 700, 5000])
            number = parts(plans[0].to_dict())
            lanes, channels = rng.choice([(1, 1), (2, 2), (4, 2)])
            shape = Shape([bound], lanes, rng.randint(1, 4), rng.choice(["sum", "max"]), hosts=hosts, channels=channels)
            where = rng.choice([NEVER, 4097])
            options = [{"counted": "to_all", "least_on_gpu": where} for _ in hosts]
            try:
                check(plans, shape, counts_up_to(rng, number, bound), options, rng.getrandbits(16))
            except (WrongProgram, AssertionError) as error:
                raise AssertionError(f"{name} on {text} {hosts}: {shape}: {error}") from None


def test_refusals() -> None:
    plan = _core.make_plans("all_to_all", Topology(2), "pairwise")[0]
    with pytest.raises(UsageError, match="counted: 'sometimes' is none of before, to_all and by_pairs"):
        _core.program_of(plan, [4], counted="sometimes")
    counted = _core.program_of(plan, [4], counted="by_pairs")
    with pytest.raises(UsageError, match="with_counts: needs a program whose counts come with the launch, a count for"):
        counted.with_counts([1, 2, 3])
    with pytest.raises(UsageError, match="with_counts: needs a program whose counts come with the launch"):
        _core.program_of(plan, [4]).with_counts([1, 2, 3, 4])
    with pytest.raises(UsageError, match="counted: its counts come with the launch; give what with_counts"):
        Program.from_dict(counted.to_dict())
    assert Program.from_dict(counted.with_counts([1, 2, 1, 5]).to_dict()).chunks == 1
