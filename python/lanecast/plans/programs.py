# SPDX-License-Identifier: Apache-2.0
"""Programs as text and JSON, one instruction a line: what a plan becomes for a GPU (docs/explanation/programs.md)."""

import json
import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from lanecast._core import Plan, Program, UsageError
from lanecast.plans.json import content_of, in_lines

FORMAT = "lanecast-programs"
VERSION = 4
_GAP = "   "

Rows = list[tuple[int | None, int | None]]  # numbers of a put and of a take that stand beside each other


def show_program(plan: Plan, program: Program, columns: int = 0) -> str:
    """The program of one rank as text, which was made from this plan.

    columns: of the terminal; where the two queues have room beside each other, what an instruction needs of the other
    queue stands above it. Otherwise one queue follows the other. Raises UsageError for the plan of another program.
    """
    text = program.describe(plan)
    head, puts, takes = (part.splitlines() for part in re.split(r"^(?:puts|takes):\n", text, flags=re.MULTILINE))
    width = max(map(len, ["puts:", *puts]))
    if width + len(_GAP) + max(map(len, ["takes:", *takes])) > columns:
        return text
    lines = [
        (puts[put] if put is not None else "", takes[take] if take is not None else "")
        for put, take in side_by_side(program.to_dict())
    ]
    return "".join(f"{f'{left:<{width}}{_GAP}{right}'.rstrip()}\n" for left, right in [*_heads(head), *lines])


def _heads(head: list[str]) -> list[tuple[str, str]]:
    return [*((line, "") for line in head), ("puts:", "takes:")]


def side_by_side(program: dict[str, Any]) -> Rows:
    """The instructions of one tick, in either queue's order: whatever one needs of the other queue stands above it."""
    puts, takes = ([_needed(what) for what in program[name]] for name in ("puts", "takes"))
    rows: Rows = []
    put = take = 0
    while put < len(puts) and take < len(takes):
        first, second = puts[put] <= take, takes[take] <= put
        if first == second:  # never both False in a program that comes to its end
            rows.append((put, take))
        else:
            rows.append((put, None) if first else (None, take))
        put, take = put + (first or not second), take + (second or not first)
    return rows + list(zip_longest(range(put, len(puts)), range(take, len(takes))))


def _needed(what: dict[str, Any]) -> int:
    """How many of the other queue's instructions it needs in its own tick."""
    return 0 if what["needs_back"] else int(what["needs"])


def programs_to_json(programs: Sequence[Program]) -> str:
    """Programs, usually of all ranks in their order, as text that programs_from_json() reads again: what
    Program.to_dict() says, an instruction a line.

    docs/explanation/programs.md says what the entries mean.
    """
    each = [in_lines(program.to_dict(), ("puts", "takes")) for program in programs]
    head = f' "format": {json.dumps(FORMAT)},\n "version": {VERSION},\n'
    return "{\n" + head + ' "programs": [\n' + ",\n".join(each) + "\n ]\n}\n"


def programs_from_json(text: str) -> list[Program]:
    """What programs_to_json() wrote. Raises UsageError where the text is none of its kind.

    They can be shown and checked; no call runs them.
    """
    content = content_of(text, "programs", "no file of programs", FORMAT, VERSION)
    try:
        return [Program.from_dict(program) for program in content["programs"]]
    except (KeyError, TypeError) as error:
        raise UsageError(f"programs: an entry is missing or of the wrong form: {error}") from error
