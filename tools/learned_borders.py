# SPDX-License-Identifier: Apache-2.0
"""Prints the table of a kind of GPU's learned borders, src/select/gpu_kinds/hopper_learned.h, from models that ship.

.venv/bin/python tools/learned_borders.py > src/select/gpu_kinds/hopper_learned.h
"""

from __future__ import annotations

from pathlib import Path

from lanecast import _core
from lanecast.profiles import model

FOLDER = Path(__file__).parent.parent / "python" / "lanecast" / "learn" / "shipped" / "gpus"
_HEAD = """// SPDX-License-Identifier: Apache-2.0
// What machines that were trained on times of whole calls take, as `lanecast learn train` has left them: written by
// tools/learned_borders.py from python/lanecast/learn/shipped/gpus, whose files say where and how they were measured.
#pragma once

// clang-format off: a row each
#include "select/gpu_kinds/gpu_kind.h"

namespace lanecast::gpu_kinds {

"""


def header() -> str:
    """The whole file."""
    arrays, tables = [], []
    for path in sorted(FOLDER.glob("*.json")):
        found = model.load(path)
        name = "k" + "".join(part.capitalize() for part in path.stem.split("-"))
        arrays.append(f"inline constexpr LearnedBorder {name}[] = {{\n{_rows(path, found)}}};\n\n")
        tables.append(f'    {{"{found.scope.gpu}", {max(each.bytes[1] for each in found.collectives)}, {name}}},\n')
    return (
        f"{_HEAD}{''.join(arrays)}inline constexpr LearnedTable kHopperLearned[] = {{\n{''.join(tables)}}};\n\n"
        "}  // namespace lanecast::gpu_kinds\n"
    )


def _rows(path: Path, found: model.Model) -> str:
    """In C++, of each number of ranks that it was trained on."""
    rows = []
    for ranks in sorted({count for each in found.collectives for count in each.ranks}):
        borders: dict[tuple[str, tuple[str, ...]], list[tuple[int, str]]] = {}
        for collective, calls, from_bytes, engine in _core.borders_of_gpu_model(path.read_bytes(), ranks):
            borders.setdefault((collective, calls), []).append((from_bytes, engine))
        for (collective, calls), steps in borders.items():
            without = tuple(word for word in calls if word != "copy_engine")
            if without != calls and borders.get((collective, without)) == steps:
                continue  # where engines win nowhere, calls that could take them go as those that cannot
            words = ", ".join(f".{word} = true" for word in calls)
            rows += [
                f"    {{Kind::{collective}, {ranks}, {{{words}}}, {from_bytes}, "
                f"PeerEngine::{engine.removeprefix('peer_')}}},\n"
                for from_bytes, engine in steps
            ]
    return "".join(rows)


if __name__ == "__main__":
    print(header(), end="")
