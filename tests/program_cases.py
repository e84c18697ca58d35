# SPDX-License-Identifier: Apache-2.0
"""Whole sets of programs with data: what every rank brings, where it lies, and what has to come out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from collective_cases import UFUNCS
from composition_oracle import Array, outcome
from lanecast import _core
from lanecast._core import Plan, Program
from lanecast.compose import Composition
from plan_memory import REDUCING, PlanDict, parts, parts_in, parts_out
from program_interpreter import Buffers, Bytes, ProgramDict, run_programs
from program_rings import WrongProgram, longest_message
from random_compositions import OPS, some_composition


@dataclass(frozen=True)
class Shape:
    """What plans are bound to."""

    counts: Sequence[int]  # of each part
    lanes: int = 1
    chunks: int = 1
    op: str = "sum"
    dtype: str = "int64"
    hosts: str = ""  # a letter of each rank; none: all are on one
    channels: int = 1
    slots: int = 0  # of each carried message, at most; 0: as many as a call has


def programs_of(plans: Sequence[Plan], shape: Shape) -> list[Program]:
    counts, hosts = list(shape.counts), list(shape.hosts)
    bound = partial(_core.program_of, hosts=hosts, channels=shape.channels, slots=shape.slots)
    return [bound(plan, counts, shape.dtype, shape.op, shape.lanes, shape.chunks) for plan in plans]


def _places(own: Sequence[int], shape: Shape) -> dict[int, slice]:
    """Bytes of each part in a buffer that has these."""
    each = [shape.counts[part] * np.dtype(shape.dtype).itemsize for part in own]
    ends = list(accumulate(each, initial=0))
    return {part: slice(ends[k], ends[k + 1]) for k, part in enumerate(own)}


def in_place_offset(plan: PlanDict, shape: Shape) -> int | None:
    """How far behind the output's begin the input has to begin for the parts in both to lie at one address each, and no
    others to overlap; None where that cannot be."""
    ins, outs = _places(parts_in(plan), shape), _places(parts_out(plan), shape)
    offsets = {outs[p].start - ins[p].start for p in ins if p in outs and ins[p].stop > ins[p].start}
    if len(offsets) != 1:
        return None
    offset: int = offsets.pop()
    for part, at in ins.items():
        for other, there in outs.items():
            if part != other and max(at.start + offset, there.start) < min(at.stop + offset, there.stop):
                return None
    return offset


@dataclass
class Call:
    """A call of the plans of all ranks; an input lies in the output where its plan says so."""

    plans: Sequence[PlanDict]
    shape: Shape
    seed: int = 0
    brought: list[dict[int, Array]] = field(default_factory=list)
    promised: list[dict[int, Array]] = field(default_factory=list)

    def __post_init__(self) -> None:
        dtype = np.dtype(self.shape.dtype)
        for plan in self.plans:
            draw = np.random.default_rng([self.seed, plan["rank"]]).integers
            # Wide and odd: hardly two sums are alike, and products do not end as zeros.
            values = {p: draw(0, 1 << 40, self.shape.counts[p]) * 2 + 1 for p in parts_in(plan)}
            self.brought.append({part: value.astype(dtype) for part, value in values.items()})
        if self.plans[0]["collective"] == "composition":
            self.promised = outcome(self.plans[0]["composition"], self.brought)
        else:
            whole = {part: self._finished(part) for part in range(parts(self.plans[0]))}
            self.promised = [whole] * len(self.plans)

    def _finished(self, part: int) -> Array:
        values = [own[part] for own in self.brought if part in own]
        total = values[0].copy()
        if self.plans[0]["collective"] not in REDUCING:
            return total
        for value in values[1:]:
            total = UFUNCS[self.shape.op](total, value)
        return total // len(values) if self.shape.op == "avg" else total

    def buffers(self) -> list[Buffers]:
        """Fresh ones."""
        return [self._buffers_of(plan, own) for plan, own in zip(self.plans, self.brought, strict=True)]

    def _buffers_of(self, plan: PlanDict, own: dict[int, Array]) -> Buffers:
        ins, outs = _places(parts_in(plan), self.shape), _places(parts_out(plan), self.shape)
        sizes = [max((at.stop for at in places.values()), default=0) for places in (ins, outs)]
        garbage = np.random.default_rng(self.seed).integers(0, 256, sum(sizes), np.uint8)
        offset = in_place_offset(plan, self.shape) if plan["in_place"] else None
        first, out = (sizes[1], 0) if offset is None else (max(offset, 0), max(-offset, 0))
        source, target = garbage[first : first + sizes[0]], garbage[out : out + sizes[1]]
        for part, value in own.items():
            source[ins[part]] = value.view(np.uint8)
        return source, target

    def wrong(self, buffers: Sequence[Buffers]) -> str:
        """What is wrong in them after the call, or nothing."""
        for plan, own, promised, (source, target) in zip(self.plans, self.brought, self.promised, buffers, strict=True):
            for part, at in _places(parts_out(plan), self.shape).items():
                if not np.array_equal(target[at].view(self.shape.dtype), promised[part]):
                    return f"rank {plan['rank']}: output part {part} is wrong"
            shared = plan["in_place"] and in_place_offset(plan, self.shape) is not None
            for part, at in _places(parts_in(plan), self.shape).items():
                if (part not in parts_out(plan) or not shared) and not self._holds(source[at], own[part]):
                    return f"rank {plan['rank']}: input part {part} was written"
        return ""

    def _holds(self, memory: Bytes, value: Array) -> bool:
        return np.array_equal(memory.view(self.shape.dtype), value)

    def run(self, programs: Sequence[ProgramDict], ring_bytes: int, seed: int) -> None:
        """Raises WrongProgram."""
        buffers = self.buffers()
        run_programs(programs, buffers, ring_bytes, seed, self.shape.dtype)
        if said := self.wrong(buffers):
            raise WrongProgram(said)


def check_shares(programs: Sequence[Program], exported: Sequence[ProgramDict]) -> None:
    """What proxies send is what they expect: bytes and lanes of each chunk and channel are equal on both ends."""
    ends: dict[tuple[int, int, int], list[Any]] = {}
    for rank, (program, described) in enumerate(zip(programs, exported, strict=True)):
        for message, chunks in zip(described["carried"], program.carried_chunks(), strict=True):
            pair = (rank, message["peer"]) if message["sends"] else (message["peer"], rank)
            ends.setdefault((*pair, message["ordinal"]), []).append((message["lane_bytes"], chunks))
    for which, both in ends.items():
        assert len(both) == 2, which
        assert both[0] == both[1], which


def check_call(plans: Sequence[Plan], shape: Shape, seed: int, schedules: int = 4) -> None:
    """Under random schedules, in rings that hold the longest message and no more, and in larger ones."""
    programs = programs_of(plans, shape)
    exported = [program.to_dict() for program in programs]
    call = Call([plan.to_dict() for plan in plans], shape, seed)
    longest = longest_message(exported)
    assert longest <= max(program.longest_message for program in programs)
    _core.check_queues(programs, longest)
    check_shares(programs, exported)
    rng = random.Random(seed)
    for turn in range(schedules):
        ring_bytes = longest if turn % 2 == 0 else rng.choice([longest + 16, 2 * longest + 48, 4 * longest, 1 << 16])
        call.run(exported, ring_bytes, rng.getrandbits(32))


def treats_elements_alike(composition: Composition) -> bool:
    """Does every rank end with one value all over each part? Fractions of slices are no fractions of the part, so only
    such compositions mean the same in slices; others are refined before they are bound."""
    described = composition._core.to_dict()
    for seed in range(8 + 2 * composition.size):
        draw = np.random.default_rng(seed).integers
        # With other values the least of some is another one's: each rank's are the least once, and the largest.
        outlier, shift = (seed - 8) // 2, (1 << 44) * (-1) ** seed
        brought = [
            {part: np.full(6, draw(0, 1 << 40) * 2 + 1 + (shift if rank == outlier else 0)) for part in own}
            for rank, own in enumerate(described["inputs"])
        ]
        ended = outcome(described, brought)
        for values, own in zip(ended, described["outputs"], strict=True):
            if any(len(np.unique(values[part])) > 1 for part in own):
                return False
    return True


def some_even_composition(rng: random.Random, size: int, ops: tuple[str, ...] = OPS) -> Composition:
    """A random one that treats the elements of each part alike, on its way often by pieces."""
    for _ in range(8):
        composition = some_composition(rng, size, ops)
        if treats_elements_alike(composition):
            return composition
    return some_composition(rng, size, ops, cuts=False)


def some_counts(rng: random.Random, number: int) -> list[int]:
    """Of so many parts: none, one, less than a granule or than the lanes, and what nothing divides."""
    if rng.random() < 0.3:
        return [rng.choice([0, 1, 3, 7, 53])] * number
    return [rng.choice([0, 1, 3, 7, 10, 53, 211]) for _ in range(number)]


def lowered(composition: Composition, knobs: Any, shape: Shape, *, in_place: bool) -> list[Plan]:
    """Plans of all ranks; in place on those ranks whose buffers allow it."""
    machine = knobs.machine(_core.Topology(composition.size))
    plans = _core.lower_all(composition._core, machine, False)
    if in_place:
        for rank, plan in enumerate(_core.lower_all(composition._core, machine, True)):
            if in_place_offset(plan.to_dict(), shape) is not None:
                plans[rank] = plan
    return plans
