# SPDX-License-Identifier: Apache-2.0
"""The protocol: rounds from a global synchronisation until all buffers may be used again, every shape of a composition
beside the library's own choice and the MPI library's collective, in turns.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lanecast import _core
from lanecast.bench import tables
from lanecast.bench.cases import Case
from lanecast.bench.composed import compiled
from lanecast.bench.hiccl import bounds, limits
from lanecast.bench.hiccl import tables as own_tables
from lanecast.bench.hiccl.variants import (
    PRESETS,
    RINGED,
    Factorings,
    Variant,
    cumulative,
    depths_of,
    factorings_for,
    ranks_per_node,
    ways_of,
)
from lanecast.bench.measure import Bench, Contender, Row, case_for
from lanecast.bench.options import known_name, parse_depths
from lanecast.bench.payload import Payload
from lanecast.bench.protocol import Protocol, progress
from lanecast.bench.settings import COMPOSED, CPU, PLAIN, Backend
from lanecast.compose import forms


class _Usual(NamedTuple):
    collectives: tuple[str, ...]
    sizes: str
    depths: str


# By sweep; a few minutes each: between hosts of 1 Gbit/s, and among the GPUs of a host.
_USUAL = {
    "bars": _Usual(tuple(forms.SINGLE_STEP), "16M", "32"),
    "ring": _Usual(RINGED, "1M,4M,16M,64M", "32"),
    "depth": _Usual(("gather", "scatter", *RINGED), "1M,4M,16M", "1..128"),
}
_USUAL_ON_GPUS = {
    "bars": _Usual(_USUAL["bars"].collectives, "64M", "16"),
    "ring": _Usual(_USUAL["ring"].collectives, "1M,4M,16M,64M,256M", "16"),
    "depth": _Usual(_USUAL["depth"].collectives, "4M,16M,64M", "1..64"),
}
SWEEPS = tuple(_USUAL)


@dataclass(frozen=True)
class Hiccl(Protocol):
    """bars: four cumulative optimisations; ring: tree against ring; depth: pipelines of each depth."""

    sweep: str
    preset: str
    depths: tuple[int, ...]  # of the pipelines; of bars and ring there is one
    collectives: tuple[str, ...]
    sizes: str
    warmup = 5
    round_s = 0.0

    @classmethod
    def parse(cls, sweep: str, preset: str, depths: str, on_gpus: bool = False) -> Hiccl:
        """As on the command line; what is empty, as usual there. Raises UsageError for what there is not."""
        usual = (_USUAL_ON_GPUS if on_gpus else _USUAL)[known_name("sweep", sweep or "bars", SWEEPS)]
        found = parse_depths(depths or usual.depths)
        if sweep != "depth" and len(found) > 1:
            raise _core.UsageError(f"depths {depths!r}: of bars and ring there is one; several are a sweep of depth")
        return cls(sweep or "bars", known_name("preset", preset, ["", *PRESETS]), found, usual.collectives, usual.sizes)

    def check(self, topology: _core.Topology) -> None:
        factorings_for(self.preset, topology)

    def variants(self, factorings: Factorings, collective: str) -> list[Variant]:
        """What is compared."""
        if self.sweep == "depth":
            return depths_of(factorings, collective, self.depths)
        shapes = cumulative if self.sweep == "bars" else ways_of
        return shapes(factorings, collective, self.depths[0])

    def measure_all(self, bench: Bench, run: dict[str, Any]) -> Iterator[list[Row]]:
        settings, comm = bench.settings, bench.ranks.comm
        factorings = factorings_for(self.preset, comm.topology)
        links = limits.Links(bench)
        carried = links.measure()
        out = tables.console()
        rows: list[Row] = []
        for collective in settings.collectives:
            variants = self.variants(factorings, collective)
            found: list[Row] = []
            total = len(settings.sizes) * (len(variants) + len(settings.backends)) * settings.rounds
            total *= 2 if settings.graph else 1
            with progress(f"{collective} on {comm.topology}", total if comm.rank == 0 else 0) as advance:
                for size in settings.sizes:
                    contenders = beside_backends(bench, case_for(settings, collective, size, bench.ranks), variants)
                    found += bench.rows(contenders, advance)
            carried = bounds.best(carried, links.measure())
            g = ranks_per_node(comm.topology)
            shared = {"sweep": self.sweep, "transports": comm.transports, "run": run}
            found = [row | beside(row, carried, g) | shared for row in found]
            for same in own_tables.by_mode(found) if comm.rank == 0 else ():
                out.print()
                out.print(own_tables.results(same))
            rows += found
            yield found
        for same in own_tables.by_mode(rows) if comm.rank == 0 and self.sweep == "bars" else ():
            out.print()
            out.print(own_tables.peaks(same))

    def footer(self, run: dict[str, Any]) -> str:
        return own_tables.footer(run)

    def draw(self, rows: list[Row], path: Path) -> None:
        from lanecast.bench.hiccl import plots

        plots.draw(own_tables.by_mode(rows)[-1], path)
        print(f"wrote {path}", file=sys.stderr)


def beside_backends(bench: Bench, case: Case, variants: list[Variant]) -> list[Contender]:
    """The compositions, and behind them the backends that take the case."""
    others = bench.running(case)
    memory = PLAIN if bench.ranks.device.queues else CPU
    # A second payload in memory of one kind would lie where the first one lies.
    shared = [each.payload for each in others if each.backend.memory == memory]
    payload = shared[0] if shared else bench.payload(case, memory)
    for each in others:
        each.columns = dict.fromkeys(described(variants[0]))  # which no backend has
    return [contender(bench, variant, payload, memory) for variant in variants] + others


def contender(bench: Bench, variant: Variant, payload: Payload, memory: str) -> Contender:
    """A composition in this shape, bound to the buffers of the case."""
    call = compiled(bench.ranks.comm, payload, **variant.knobs)
    chunks, text = variant.depth, str(variant)
    if call.program is not None and call.program.chunks != chunks:  # more, so that messages fit into the rings
        chunks = call.program.chunks
        text += f" in {chunks}"
    return Contender(
        Backend(variant.name, library=COMPOSED, memory=memory), payload, call.run, payload.output, text, chunks,
        mode=bench.mode, columns=described(variant),
    )  # fmt: skip


def described(variant: Variant) -> dict[str, Any]:
    """The columns of a shape."""
    return {
        "bar": variant.bar,
        "way": variant.way,
        "hierarchy": list(variant.factors),
        "stripe": variant.stripe,
        "ring": variant.ring,
        "depth": variant.depth,
    }


def beside(row: Row, carried: bounds.Limits, g: int) -> dict[str, Any]:
    """The columns of the bounds."""
    between = bounds.between_nodes(row["collective"], carried, row["ranks"], g)
    within = bounds.within_nodes(row["collective"], carried, row["ranks"], g)
    lowest = min((bound for bound in (between, within) if bound), default=None)
    return {
        "limits_GBps": carried.in_gbps(),
        "between_GBps": between and between / 1e9,
        "within_GBps": within and within / 1e9,
        "bound_us": lowest and row["bytes"] / lowest * 1e6,
    }
