# SPDX-License-Identifier: Apache-2.0
"""Programs whose counts come with the launch, as the second interpreter makes a launch of them: by the rules of
docs/explanation/programs.md, without the library."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from program_rings import GRAIN, GRANULE

ProgramDict = dict[str, Any]
Row = tuple[int, int, int]  # base, bytes, stride

CHUNK, LONG_CHUNK, MIDDLING, LEAST_SLICE = 256 << 10, 1 << 20, 4, 2048


def ceil(a: int, b: int) -> int:
    return -(-a // b)


def chunks_of(length: int) -> int:
    """Of a part that only its two ranks know."""
    short = ceil(length, CHUNK)
    return short if short <= MIDDLING else max(MIDDLING, ceil(length, LONG_CHUNK))


def stride_of(length: int, slices: int) -> int:
    return ceil(ceil(length, GRANULE), slices) * GRANULE


def rows_of(program: ProgramDict, lengths: Sequence[int]) -> list[Row]:
    counted, lanes = program["counted"], program["lanes"]
    rows: list[Row] = []
    base = 0
    for number, length in enumerate(lengths):
        if number in (0, counted["inputs"]) or number >= counted["inputs"] + counted["outputs"]:
            base = 0
        if counted["by_pairs"]:
            stride = max(LEAST_SLICE, stride_of(length, lanes * max(chunks_of(length), 1)))
        else:
            stride = stride_of(length, lanes * program["chunks"])
        rows.append((base, length, stride))
        base += length
    return rows


def most_of(piece: ProgramDict, row: Row) -> int:
    _, length, stride = row
    granules = min(stride, ceil(length, GRANULE) * GRANULE) // GRANULE
    hi, lo = (granules * piece[end] // piece["den"] * GRANULE for end in ("to", "from"))
    return min(hi - lo + GRANULE, granules * GRANULE) if granules else 0


def launched(program: ProgramDict, lengths: Sequence[int]) -> ProgramDict:
    """lengths: bytes of each row. A program that has these counts of its own."""
    made = copy.deepcopy(program)
    counted = made.pop("counted")
    rows = rows_of(program, lengths)
    if counted["by_pairs"]:
        made["chunks"] = max(map(chunks_of, lengths), default=0)
    for what in made["puts"] + made["takes"]:
        for run in what["runs"]:
            for operand in run:
                base, operand["bytes"], operand["stride"] = rows[operand.pop("row")]
                if operand["space"] != "scratch":
                    operand["base"] = base
    of_channel = made["lanes"] // made["channels"]
    for message in made["carried"]:
        own = [(piece, rows[piece["row"]]) for piece in message["pieces"]]
        message["lane_bytes"] = ceil(sum(most_of(piece, row) for piece, row in own), GRAIN) * GRAIN
        with_share = of_channel
        if counted["by_pairs"] and message["lane_bytes"] <= LEAST_SLICE:
            with_share = min(of_channel, max(ceil(length, stride) for _, (_, length, stride) in own))
        message["on_host"] = message["lane_bytes"] * with_share < message["least_on_gpu"]
        message["place"] = message["places"][message["on_host"]]
        if counted["by_pairs"]:
            message["chunks"] = max(chunks_of(row[1]) for _, row in own)
        del message["pieces"], message["places"], message["least_on_gpu"]
    return made
