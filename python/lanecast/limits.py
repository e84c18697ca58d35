# SPDX-License-Identifier: Apache-2.0
"""What works where, as `lanecast info --limits` prints it and docs/reference/limits.md shows it.

Of a collective the core says what it takes. What differs from place to place stands in ROWS, and tests/test_limits.py
makes every call in every place: what this says works has to work, and all else has to be refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lanecast import _core

CPU, GPUS, HOSTS = "CPU", "GPU", "hosts"
PLACES = (CPU, GPUS, HOSTS)
WITH_COUNTS = ("all_gather", "reduce_scatter", "gather", "scatter", "all_to_all")
REDUCING = ("all_reduce", "reduce_scatter", "reduce")
MEANINGS = {
    "runs": "where the call can be made",
    "CUDA graph": "where a graph can capture it",
    "counts": "where shares may differ from rank to rank",
    "in place": "where input and output may share memory",
    "types": "see [below](#types)",
    "reproducible": "where `reproducible=True` is taken; what only moves data always has the same bits",
    "C": "where it can be made from C",
    "torch": "where a group of torch.distributed makes it; elsewhere the group hands it on, or has no such call",
}


@dataclass(frozen=True)
class Row:
    """Of a call: the places in which each property holds."""

    call: str
    runs: Sequence[str] = PLACES
    graph: Sequence[str] = (GPUS, HOSTS)
    counts: Sequence[str] = ()
    in_place: Sequence[str] = ()
    reproducible: Sequence[str] = ()
    c: Sequence[str] = PLACES
    torch: Sequence[str] = PLACES

    def cells(self) -> Iterator[str]:
        types = (
            "by operator"
            if self.reproducible or self.call == "composition"
            else "all"
            if self.call != "barrier"
            else ""
        )
        for cell in (self.runs, self.graph, self.counts, self.in_place, types, self.reproducible, self.c, self.torch):
            yield cell if isinstance(cell, str) else "all" if tuple(cell) == PLACES else ", ".join(cell)


ROWS = (
    Row("barrier", runs=(CPU,), graph=(), c=(CPU,)),
    Row("messages"),
    Row("persistent", (CPU,), (), (CPU,), (CPU,), (CPU,), c=(CPU,), torch=()),
    Row("composition", counts=PLACES, in_place=PLACES, torch=()),
)


def rows() -> Iterator[Row]:
    for kind in _core.KINDS:
        yield Row(
            kind,
            counts=PLACES if kind in WITH_COUNTS else (),
            in_place=PLACES if _core.may_be_in_place(kind) else (),
            reproducible=PLACES if kind in REDUCING else (),
        )
    yield from ROWS


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _types() -> Iterator[str]:
    """Which types each operator takes, those with the same ones together."""
    taken: dict[tuple[str, ...], list[str]] = {}
    for o, op in enumerate(_core.OPS):
        types = tuple(dtype for d, dtype in enumerate(_core.DTYPES) if _core.supports(o, d))
        taken.setdefault(types, []).append(f"`{op}`")
    for types, ops in taken.items():
        yield _line((", ".join(ops), ", ".join(types) if len(types) < len(_core.DTYPES) else "all"))


def markdown() -> str:
    """The page."""
    matrix = "".join(_line((f"`{row.call}`", *row.cells())) for row in rows())
    return f"""# Limits

What works where, as `lanecast info --limits` prints it. A test makes every call in every place.

- **{CPU}**: memory of the CPU, among any ranks, on one host and between hosts.
- **{GPUS}**: memory of GPUs, among the ranks of one host.
- **{HOSTS}**: memory of GPUs, among the ranks of several hosts.
- **all**: all three. An empty cell: nowhere.

{_line(("call", *MEANINGS))}{_line(("---",) * (len(MEANINGS) + 1))}{matrix}
`messages` are `send`, `recv` and lists of them. `composition` is what `comm.compile()` makes, and `persistent` what
`comm.persistent()` makes. The barrier of a group of torch also orders streams. NCCL's call
([`algorithm="nccl"`](gpu.md#nccl-beside-our-own-kernels)) is captured within a host only. It takes no uneven counts
and no `reproducible=True`. Split sizes of an all-to-all may lie in the GPU's memory
[between hosts](gpu-between-hosts.md#split-sizes-on-the-gpu) only.

{_line(("column", "what it says"))}{_line(("---",) * 2)}{"".join(_line(item) for item in MEANINGS.items())}
## Types

Calls that only move data take all types: {", ".join(_core.DTYPES)}. Reductions take, in every place:

{_line(("operator", "types"))}{_line(("---",) * 2)}{"".join(_types())}
## Numbers

| what | limit |
| --- | --- |
| ranks with GPUs on one host that reach each other's memory | 16 |
| sources of a step on a GPU, so ranks of a reproducible sum between hosts of GPUs | 16 |
| windows of a rank in a communicator on GPUs; allocations side by side in one | 256; 253 |
| messages in a list on GPUs, beyond which it takes several kernels | 128 |
| tags of messages | 0 to 16,383 on every MPI; on GPUs 0 |

Averages of 8-bit floats are added in rank order, so compositions of them are refused.
"""
