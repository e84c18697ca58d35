# SPDX-License-Identifier: Apache-2.0
"""What --program adds to `lanecast plan` and `lanecast compose`: plans as the programs of a host's GPUs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from lanecast import _core
from lanecast.bench.options import known_name, parse_size
from lanecast.dtypes import itemsize
from lanecast.plans.flow import parts_of
from lanecast.wording import counted

AsProgram = Annotated[
    bool, typer.Option("--program", help="As programs, which is what plans become for the GPUs of a host.")
]
Size = Annotated[str, typer.Option(help="With --program: bytes of the full buffer; default 64K.")]
Dtype = Annotated[str, typer.Option(help="With --program: type of the elements; default float32.")]
Lanes = Annotated[
    int | None,
    typer.Option(help="With --program: blocks of the kernel, 1 to 64; default 1. A call takes them by its size."),
]
Chunks = Annotated[
    int | None, typer.Option(help="With --program: chunks of a lane, at least; default: as few as its rings hold.")
]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
Made = list[tuple[_core.Plan, _core.Program]]


@dataclass(frozen=True)
class Shape:
    """What the options say; empty and None: nothing."""

    size: str = ""
    dtype: str = ""
    lanes: int | None = None
    chunks: int | None = None

    def refuse(self) -> None:
        """Raise UsageError for the first option that was given, where --program was not."""
        for option, value in asdict(self).items():
            if value not in ("", None):
                raise _core.UsageError(f"{option} {value}: is of programs; give --program as well")

    @property
    def type(self) -> str:
        return known_name("dtype", self.dtype or "float32", _core.DTYPES)

    @property
    def how(self) -> tuple[int, int]:
        """Lanes and chunks; none of these: by the rings."""
        return 1 if self.lanes is None else self.lanes, self.chunks or 0

    def count(self, plan: _core.Plan) -> int:
        """Elements of each part."""
        return parse_size(self.size or "64K") // itemsize(self.type) // parts_of(plan.to_dict())


def of_plans(plans: Sequence[_core.Plan], shape: Shape) -> Made:
    """What the plans of all ranks of a collective become."""
    lanes, chunks = shape.how
    try:
        programs = _core.programs_of(list(plans), [shape.count(plans[0])], shape.type, "sum", lanes, chunks)
    except TypeError:
        raise _core.UsageError(f"size {shape.size}, lanes {lanes}, chunks {chunks}: larger than any memory") from None
    return list(zip(plans, programs, strict=True))


def show(made: Made, rank: int | None, as_json: bool) -> None:
    """Print those of all ranks or of one."""
    from lanecast import plans

    if rank is not None and not 0 <= rank < len(made):
        raise _core.UsageError(f"rank {rank}: there are {len(made)}")
    shown = made if rank is None else [made[rank]]
    if as_json:
        print(plans.programs_to_json([program for _, program in shown]), end="")
        return
    for plan, program in shown:
        print(f"rank {plan.rank} of {counted(len(made), 'rank')}")
        print(plans.show_program(plan, program, shutil.get_terminal_size().columns), end="")


def draw(made: Made, topology: _core.Topology, output: Path) -> None:
    """Write the picture."""
    from lanecast import plans

    plans.draw_programs(made, topology, output)
    print(f"wrote {output}", file=sys.stderr)
