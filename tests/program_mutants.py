# SPDX-License-Identifier: Apache-2.0
"""Small faults put into right programs. A mutator changes the set in its place; False where nothing fits."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from program_interpreter import ProgramDict

Programs = list[ProgramDict]
Mutator = Callable[[random.Random, Programs], bool]


def some_place(rng: random.Random, programs: Programs, fits: Callable[[ProgramDict, str, int], bool]) -> Any:
    """A program, one of its queues and the number of an instruction that fits."""
    found = [
        (program, name, k)
        for program in programs
        for name in ("puts", "takes")
        for k in range(len(program[name]))
        if fits(program, name, k)
    ]
    return rng.choice(found) if found else None


def _need_of(what: ProgramDict) -> tuple[int, int]:
    return what["delay"] - what["needs_back"], what["needs"]


def need_one_less(rng: random.Random, programs: Programs) -> bool:
    """Of one that is the first in its queue to need so much: it would be waited for anyway."""

    def fits(program: ProgramDict, name: str, k: int) -> bool:
        what = program[name][k]
        earlier = (_need_of(other) for other in program[name][:k] if other["needs"] and other["delay"] <= what["delay"])
        return what["needs"] > 0 and all(need < _need_of(what) for need in earlier)

    if (at := some_place(rng, programs, fits)) is None:
        return False
    program, name, k = at
    program[name][k]["needs"] -= 1
    return True


def move_end(rng: random.Random, programs: Programs) -> bool:
    """Of a message of several instructions."""
    at = some_place(
        rng, programs, lambda program, name, k: program[name][k]["ends"] is False and _talks(program, name, k)
    )
    if at is None:
        return False
    program, name, k = at
    program[name][k]["ends"], program[name][k + 1]["ends"] = True, False
    return True


def _talks(program: ProgramDict, name: str, k: int) -> bool:
    return program[name][k]["peer"] is not None


def drop_end(rng: random.Random, programs: Programs) -> bool:
    at = some_place(rng, programs, lambda program, name, k: _talks(program, name, k) and program[name][k]["ends"])
    if at is None:
        return False
    program, name, k = at
    program[name][k]["ends"] = False
    return True


def _with_scratch(programs: Programs) -> Programs:
    """Those whose chunks use scratch memory again."""
    return [p for p in programs if p["scratch_bytes"] and 2 <= p["generations"] <= p["chunks"]]


def one_generation_fewer(rng: random.Random, programs: Programs) -> bool:
    if not (rich := _with_scratch(programs)):
        return False
    rng.choice(rich)["generations"] -= 1
    return True


def swap_neighbours(rng: random.Random, programs: Programs) -> bool:
    """Two that talk to one peer, or that meet in memory; where the others come does not matter."""

    def meet(one: ProgramDict, other: ProgramDict) -> bool:
        return any(
            a["space"] == b["space"]
            and a["base"] == b["base"]
            and a["from"] * b["den"] < b["to"] * a["den"]
            and b["from"] * a["den"] < a["to"] * b["den"]
            for a in (run[0] for run in one["runs"])
            for run in other["runs"]
            for b in run
        )

    def fits(program: ProgramDict, name: str, k: int) -> bool:
        if k == 0:
            return False
        one, other = program[name][k - 1], program[name][k]
        if one["delay"] != other["delay"] or one["runs"] == other["runs"]:
            return False
        same_peer = one["peer"] is not None and one["peer"] == other["peer"]
        return same_peer or (name == "takes" and (meet(one, other) or meet(other, one)))

    if (at := some_place(rng, programs, fits)) is None:
        return False
    program, name, k = at
    program[name][k - 1], program[name][k] = program[name][k], program[name][k - 1]
    return True


def change_peer(rng: random.Random, programs: Programs) -> bool:
    if (at := some_place(rng, programs, _talks)) is None:
        return False
    program, name, k = at
    what = program[name][k]
    what["peer"] = rng.choice([rank for rank in range(len(programs)) if rank != what["peer"]])
    return True


def drop_message(rng: random.Random, programs: Programs) -> bool:
    """One rank's put or take is missing, wherever others count instructions."""

    def fits(program: ProgramDict, name: str, k: int) -> bool:
        return _talks(program, name, k) and program[name][k]["ends"] and bool(program[name][k]["runs"])

    if (at := some_place(rng, programs, fits)) is None:
        return False
    program, name, k = at
    del program[name][k]
    for what in program["takes" if name == "puts" else "puts"]:
        what["needs"] -= what["needs"] > k
    return True


def wait_in_a_circle(rng: random.Random, programs: Programs) -> bool:
    """What an instruction needs in its own tick needs that instruction, too."""

    def fits(program: ProgramDict, name: str, k: int) -> bool:
        what = program[name][k]
        if not what["needs"] or what["needs_back"]:
            return False
        needed = program["takes" if name == "puts" else "puts"][what["needs"] - 1]
        return bool(needed["delay"] == what["delay"] and what["runs"] and needed["runs"])

    if (at := some_place(rng, programs, fits)) is None:
        return False
    program, name, k = at
    needed = program["takes" if name == "puts" else "puts"][program[name][k]["needs"] - 1]
    needed["needs"], needed["needs_back"] = k + 1, 0
    return True


def change_operand(rng: random.Random, programs: Programs) -> bool:
    """Its piece is cut short, or another one of that length."""
    if (at := some_place(rng, programs, lambda program, name, k: bool(program[name][k]["runs"]))) is None:
        return False
    program, name, k = at
    o = rng.choice(rng.choice(program[name][k]["runs"]))
    if o["to"] < o["den"] and rng.random() < 0.5:
        o["from"], o["to"] = o["from"] + 1, o["to"] + 1
    elif rng.random() < 0.5:
        o["from"], o["to"], o["den"], o["slot_from"] = 2 * o["from"], 2 * o["to"] - 1, 2 * o["den"], 2 * o["slot_from"]
    else:
        o["from"], o["to"], o["den"], o["slot_from"] = 2 * o["from"] + 1, 2 * o["to"], 2 * o["den"], 2 * o["slot_from"]
    return True


def change_delay(rng: random.Random, programs: Programs) -> bool:
    """Of one that others of its rank need, or that needs something itself."""

    def fits(program: ProgramDict, name: str, k: int) -> bool:
        others = program["takes" if name == "puts" else "puts"]
        return program["chunks"] > 1 and (program[name][k]["needs"] > 0 or any(o["needs"] == k + 1 for o in others))

    if (at := some_place(rng, programs, fits)) is None:
        return False
    program, name, k = at
    what = program[name][k]
    what["delay"] += 1 if what["delay"] == 0 else rng.choice([-1, 1])
    return True


def join_to_another(rng: random.Random, programs: Programs) -> bool:
    """A put and what it needs, which writes something else than that moves, or adds nothing up."""

    def fits(program: ProgramDict, name: str, k: int) -> bool:
        what = program[name][k]
        if name != "puts" or not what["needs"] or what["needs_back"]:
            return False
        written = program["takes"][what["needs"] - 1]
        targets = [run[0] for run in written["runs"]]
        adds = written["operation"] in ("take_reduce", "reduce")
        return bool(targets and (not adds or targets != [run[0] for run in what["runs"]]))

    if (at := some_place(rng, programs, fits)) is None:
        return False
    program, name, k = at
    what = program[name][k]
    what["joined"] = program["takes"][what["needs"] - 1]["joined"] = True
    return True


MUTATORS: list[Mutator] = [
    need_one_less,
    move_end,
    drop_end,
    one_generation_fewer,
    swap_neighbours,
    change_peer,
    drop_message,
    wait_in_a_circle,
    change_operand,
    change_delay,
    join_to_another,
]
