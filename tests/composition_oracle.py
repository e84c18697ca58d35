# SPDX-License-Identifier: Apache-2.0
"""What a composition means, computed with numbers: primitive by primitive, on all ranks at once.

Shares no code with the library, and knows nothing of hierarchies, stripes, chains or chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collective_cases import UFUNCS

Array = NDArray[Any]
Values = dict[int, Array]  # of each part that a rank has


def _cut(piece: Any, elements: int) -> slice:
    _, (lo, lo_of), (hi, hi_of) = piece
    return slice(lo * elements // lo_of, hi * elements // hi_of)


def outcome(composition: dict[str, Any], brought: Sequence[Values]) -> list[Values]:
    """The newest values of each rank. composition: as to_dict() gives it; brought: parts of equal numbers have equal
    lengths on all ranks."""
    lengths = {part: array.size for values in brought for part, array in values.items()}
    now = [{part: array.copy() for part, array in values.items()} for values in brought]
    steps = {primitive["step"] for primitive in composition["primitives"]}
    for step in sorted(steps):
        before = [{part: array.copy() for part, array in values.items()} for values in now]
        for primitive in composition["primitives"]:
            if primitive["step"] != step:
                continue
            for piece in primitive["pieces"]:
                part, where = piece[0], _cut(piece, lengths[piece[0]])
                for rank, value in _results(primitive, before, part, where).items():
                    now[rank].setdefault(part, np.zeros(lengths[part], value.dtype))[where] = value
    return now


def _results(primitive: dict[str, Any], before: list[Values], part: int, where: slice) -> dict[int, Array]:
    if primitive["op"] is None:
        return dict.fromkeys(primitive["leaves"], before[primitive["root"]][part][where])
    found = [before[leaf][part][where] for leaf in primitive["leaves"]]
    value = found[0]
    with np.errstate(over="ignore"):
        for other in found[1:]:
            value = UFUNCS[primitive["op"]](value, other)
    if primitive["op"] == "avg":
        value = value // len(found) if value.dtype.kind == "i" else value / len(found)
    return {primitive["root"]: value}
