# SPDX-License-Identifier: Apache-2.0
"""Slices, their pieces and rings as the second interpreter has them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

ProgramDict = dict[str, Any]
Bytes = NDArray[np.uint8]

GRANULE = 16  # bytes: pieces of slices begin at multiples of it
GRAIN = 128  # bytes: messages begin at multiples of it


class WrongProgram(AssertionError):
    """The programs hang, move different amounts on the two sides of a message, or leave their memory."""


def place(operand: ProgramDict, numerator: int, length: int) -> int:
    """Bytes in front of a fraction of a slice."""
    den: int = operand["den"]
    return length if numerator == den else -(-length // GRANULE) * numerator // den * GRANULE


def slice_of(operand: ProgramDict, number: int) -> int:
    """Bytes of the slice of that number."""
    rest: int = operand["bytes"] - number * operand["stride"]
    return max(0, min(rest, int(operand["stride"])))


def length_of(operand: ProgramDict, number: int) -> int:
    length = slice_of(operand, number)
    return place(operand, operand["to"], length) - place(operand, operand["from"], length)


def longest_message(programs: Sequence[ProgramDict]) -> int:
    """Bytes of the longest one that is put: no shorter ring can do."""
    longest = 0
    for program in programs:
        for number in range(program["lanes"] * program["chunks"]):
            message = 0
            for what in program["puts"]:
                if what["carried"] is not None:
                    continue
                message += sum(length_of(run[0], number) for run in what["runs"])
                longest = max(longest, message)
                message = 0 if what["ends"] else message
    return longest


class Ring:
    """What one lane of a rank keeps for what comes from one peer. Positions count all bytes so far."""

    def __init__(self, memory: Bytes) -> None:
        self.memory = memory
        self.put = self.arrived = 0  # arrived: up to the end of the last whole message
        self.taken = self.emptied = 0
        self.ends: deque[int] = deque()  # of messages that have not been taken

    def view(self, at: int, length: int) -> Iterator[tuple[slice, slice]]:
        """Where so many bytes lie, beside where they lie in the ring."""
        first = at % len(self.memory)
        fits = min(length, len(self.memory) - first)
        yield slice(0, fits), slice(first, first + fits)
        if fits < length:
            yield slice(fits, length), slice(0, length - fits)

    def write(self, at: int, data: Bytes) -> None:
        for here, there in self.view(at, len(data)):
            self.memory[there] = data[here]

    def read(self, at: int, length: int) -> Bytes:
        return np.concatenate([self.memory[there] for _, there in self.view(at, length)])


def grains(position: int) -> int:
    return -(-position // GRAIN) * GRAIN
