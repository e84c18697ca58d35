# SPDX-License-Identifier: Apache-2.0
"""What the programs of all ranks do together: who takes what was put, and the order of a tick's instructions."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from lanecast._core import Program, UsageError

QUEUES = ("puts", "takes")


class Place(NamedTuple):
    """An instruction in a queue of a rank."""

    rank: int
    queue: str  # of QUEUES
    number: int


@dataclass(frozen=True)
class ProgramFlow:
    """A tick's instructions in columns: whatever an instruction needs within its tick stands left of it."""

    programs: list[dict[str, Any]]  # by rank
    messages: list[tuple[Place, Place]]  # the put that ends each, and the first that takes from it
    column: dict[Place, int]

    @property
    def columns(self) -> int:
        return max(self.column.values(), default=-1) + 1

    @property
    def ticks(self) -> int:
        return max((p["chunks"] + p["delays"] for p in self.programs), default=0)

    def instruction(self, place: Place) -> dict[str, Any]:
        """As Program.to_dict() has it."""
        what: dict[str, Any] = self.programs[place.rank][place.queue][place.number]
        return what

    def chunk(self, place: Place, tick: int) -> int | None:
        """The chunk on which an instruction works in a tick, if any."""
        chunk = tick - int(self.instruction(place)["delay"])
        return chunk if 0 <= chunk < self.programs[place.rank]["chunks"] else None


def follow(programs: Sequence[Program]) -> ProgramFlow:
    """Follows the programs of all ranks, in rank order. Raises UsageError where they wait in a circle."""
    described = [program.to_dict() for program in programs]
    messages = _messages(described)
    before: dict[Place, set[Place]] = {}
    for rank, program in enumerate(described):
        for queue, other in (QUEUES, QUEUES[::-1]):
            for number, what in enumerate(program[queue]):
                needed = {Place(rank, queue, number - 1)} if number else set()
                if what["needs"] and not what["needs_back"]:
                    needed.add(Place(rank, other, what["needs"] - 1))
                before[Place(rank, queue, number)] = needed
    for put, take in messages:
        before[take].add(put)
    column: dict[Place, int] = {}
    try:
        for place in TopologicalSorter(before).static_order():
            column[place] = max((column[each] + 1 for each in before[place]), default=0)
    except CycleError as error:
        raise UsageError("programs: instructions of a tick wait for each other in a circle") from error
    return ProgramFlow(described, messages, column)


def _messages(programs: list[dict[str, Any]]) -> list[tuple[Place, Place]]:
    """The k-th that a rank puts for another is the k-th that the other takes from it, in the same tick."""
    put: dict[tuple[int, int], list[Place]] = defaultdict(list)
    taken: dict[tuple[int, int], list[Place]] = defaultdict(list)
    begun: dict[tuple[int, int], Place] = {}
    for rank, program in enumerate(programs):
        for number, what in enumerate(program["puts"]):
            if what["ends"]:
                put[rank, what["peer"]].append(Place(rank, "puts", number))
        for number, what in enumerate(program["takes"]):
            if what["peer"] is None:
                continue
            ends = what["peer"], rank
            first = begun.setdefault(ends, Place(rank, "takes", number))
            if what["ends"]:
                taken[ends].append(begun.pop(ends, first))
    return [pair for ends in put for pair in zip(put[ends], taken[ends], strict=True)]
