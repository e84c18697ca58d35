# SPDX-License-Identifier: Apache-2.0
"""What large collectives cost a matrix product that runs beside them, and what a call costs the host: beside NCCL's.

    python bench/gpu_overlap.py --json gpu_overlap.json

Two streams begin together: one with products of bf16 matrices, one with so many collectives that they outlast the
products. Slowdown is the products' time over that of the same products alone, in the same round. Every backend takes
its turn in each round. Starts one process per GPU, or uses those of torchrun.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from lanecast import job, launch
from lanecast.bench import machine, tables
from lanecast.bench.arenas import Arenas
from lanecast.bench.cases import MAIN, Case
from lanecast.bench.figures import busbw_factor
from lanecast.bench.gpu_processes import start_ranks
from lanecast.bench.gpu_ranks import GpuRanks
from lanecast.bench.measure import Bench, Contender, Row, case_for
from lanecast.bench.options import distinct, parse_size, parse_sizes
from lanecast.bench.outputs import write_json
from lanecast.bench.settings import GPU_ROUND_S, Settings, parse_backend

_PRODUCTS_S = 30e-3  # of products alone, in each measurement
_OUTLAST = 2.0  # the collectives, were they alone; beside products they are slower still
_LAUNCHES = 50  # of calls whose cost to the host is taken: few enough that the device's queue never fills


class Overlap:
    """Products and collectives of one rank; every method is collective."""

    def __init__(self, ranks: GpuRanks, bench: Bench, width: int) -> None:
        import torch

        self._torch, self._ranks, self._bench = torch, ranks, bench
        device = ranks.device.device
        self._factors = [torch.randn(width, width, dtype=torch.bfloat16, device=device) for _ in range(2)]
        self._product = torch.empty_like(self._factors[0])
        self._streams = (torch.cuda.Stream(), torch.cuda.Stream())
        self._multiply()
        self._products = 1
        self._products = max(3, math.ceil(_PRODUCTS_S * 1e6 / self.beside(None, 0)[0]))

    def _multiply(self) -> None:
        self._torch.mm(*self._factors, out=self._product)

    def beside(self, call: Callable[[], object] | None, calls: int) -> tuple[float, float, bool]:
        """Microseconds of all products, and of a collective, on the slowest rank; did the collectives last longer?"""
        torch = self._torch
        ranks, (ours, theirs) = self._ranks, self._streams
        ranks.device.synchronize()
        ranks.latest(0)
        if call is not None:
            with torch.cuda.stream(theirs):
                call()  # on the device it ends when all ranks have come
        begin = theirs.record_event(torch.cuda.Event(enable_timing=True))
        ours.wait_event(begin)
        done = 0
        with torch.cuda.stream(theirs):
            # The host enqueues both kinds in turn, so that neither stream runs dry while it works on the other.
            for product in range(self._products):
                while call is not None and done * self._products < calls * (product + 1):
                    call()
                    done += 1
                with torch.cuda.stream(ours):
                    self._multiply()
        multiplied = ours.record_event(torch.cuda.Event(enable_timing=True))
        communicated = theirs.record_event(torch.cuda.Event(enable_timing=True))
        ranks.device.synchronize()
        lasted = multiplied.elapsed_time(communicated) >= 0
        product_us = ranks.latest(begin.elapsed_time(multiplied) * 1e3)
        call_us = ranks.latest(begin.elapsed_time(communicated) * 1e3 / max(1, calls))
        return product_us, call_us, ranks.total(int(not lasted)) == 0

    def rows(self, case: Case, contenders: list[Contender], rounds: int) -> list[Row]:
        """One for each backend."""
        found: dict[str, list[tuple[float, float, float]]] = {each.backend.name: [] for each in contenders}
        lasted = dict.fromkeys(found, True)
        alone_us: dict[str, float] = {}
        calls: dict[str, int] = {}
        products_us = self.beside(None, 0)[0]
        for each in contenders:
            alone_us[each.backend.name] = self._bench.timed(each, 5).device_us
            calls[each.backend.name] = math.ceil(_OUTLAST * products_us / alone_us[each.backend.name])
        for turn in range(rounds):
            for each in contenders[turn % len(contenders) :] + contenders[: turn % len(contenders)]:
                name = each.backend.name
                quiet_us = self.beside(None, 0)[0]
                busy_us, call_us, enough = self.beside(each.call, calls[name])
                found[name].append((busy_us / quiet_us, call_us, quiet_us))
                lasted[name] &= enough
        return [
            {
                "collective": case.collective, "backend": name, "bytes": case.full_bytes, "dtype": case.dtype,
                "ranks": case.ranks, "products": self._products, "products_alone_us": _median(rounds_of, 2),
                "slowdown": _median(rounds_of, 0), "slowdown_rounds": [each[0] for each in rounds_of],
                "call_alone_us": alone_us[name], "call_beside_us": _median(rounds_of, 1),
                "busbw_beside_GBps": _busbw(case, _median(rounds_of, 1)), "outlasted": lasted[name],
            }
            for name, rounds_of in found.items()
        ]  # fmt: skip


def _median(rounds_of: list[tuple[float, float, float]], field: int) -> float:
    return statistics.median(each[field] for each in rounds_of)


def _busbw(case: Case, time_us: float) -> float:
    return case.full_bytes / time_us / 1e3 * busbw_factor(case.collective, case.ranks)


def launch_rows(bench: Bench, collective: str, size: int) -> list[Row]:
    """What a call costs the host: microseconds of the slowest rank, while the device's queue has room."""
    case = case_for(bench.settings, collective, size, bench.ranks)
    contenders = bench.contenders(case)
    found: dict[str, list[float]] = {each.backend.name: [] for each in contenders}
    for _ in range(bench.settings.rounds):
        for each in contenders:
            found[each.backend.name].append(bench.timed(each, _LAUNCHES).host_us)
    return [
        {"collective": collective, "backend": name, "bytes": case.full_bytes, "ranks": case.ranks,
         "host_us": statistics.median(times), "host_us_rounds": times}
        for name, times in found.items()
    ]  # fmt: skip


def _table(title: str, rows: list[Row], columns: dict[str, Callable[[Row], str]]) -> Table:
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for heading in columns:
        table.add_column(heading, justify="left" if heading in {"collective", "backend"} else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(show(row) for show in columns.values()))
    return table


def show(overlap: list[Row], launches: list[Row]) -> None:
    shared: dict[str, Callable[[Row], str]] = {
        "collective": lambda row: row["collective"],
        "size": lambda row: tables.size_text(row["bytes"]),
        "backend": lambda row: row["backend"],
    }
    console = tables.console()
    console.print(_table("Matrix products beside collectives", overlap, {
        **shared,
        "slowdown": lambda row: f"{row['slowdown']:.3f}" + ("" if row["outlasted"] else " (collectives ended before)"),
        "spread": lambda row: f"{min(row['slowdown_rounds']):.3f}-{max(row['slowdown_rounds']):.3f}",
        "call alone (us)": lambda row: tables.number(row["call_alone_us"]),
        "beside (us)": lambda row: tables.number(row["call_beside_us"]),
        "busbw beside (GB/s)": lambda row: tables.number(row["busbw_beside_GBps"]),
    }))  # fmt: skip
    console.print(_table("What a call costs the host", launches, {
        **shared,
        "host (us)": lambda row: tables.number(row["host_us"]),
        "spread": lambda row: "-".join(tables.number(end(row["host_us_rounds"])) for end in (min, max)),
    }))  # fmt: skip


def measure(
    settings: Settings, width: int, launch_sizes: tuple[int, ...], max_ctas: int
) -> tuple[list[Row], list[Row]]:
    """Rows of the products and of the launches, on every rank."""
    ranks = GpuRanks(max_ctas=max_ctas)
    run: dict[str, Any] = machine.describe(ranks) | {"rounds": settings.rounds, "matrix": width, "max_ctas": max_ctas}
    if ranks.rank == 0:
        print("\n".join(machine.lines(run)), flush=True)
    arenas = Arenas(ranks, max(*settings.sizes, *launch_sizes))
    bench = Bench(ranks, settings, arenas.memory)
    overlap = Overlap(ranks, bench, width)
    beside, launches = [], []
    for collective in settings.collectives:
        for size in settings.sizes:
            case = case_for(settings, collective, size, ranks)
            beside += overlap.rows(case, bench.contenders(case), settings.rounds)
        for size in launch_sizes:
            launches += launch_rows(bench, collective, size)
    for row in beside + launches:
        row["run"] = run
    if ranks.rank == 0:
        show(beside, launches)
    arenas.close()
    ranks.close()
    return beside, launches


def main(  # noqa: PLR0913, PLR0917  one per option
    size: Annotated[str, typer.Option(help="Of the collectives: 256M, or several.")] = "256M",
    launch_sizes: Annotated[str, typer.Option(help="At which calls' cost to the host is taken.")] = "64K,16M",
    backends: str = "lanecast,lanecast:peer_kernel,lanecast:copy_engine,nccl",
    rounds: int = 5,
    matrix: Annotated[int, typer.Option(help="Rows and columns of the matrices.")] = 8192,
    max_ctas: Annotated[int, typer.Option(help="Multiprocessors that Lanecast may take; 0: as many as serve it.")] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all rows here.")] = None,
) -> None:
    """Measure on all GPUs of this machine, or on the ranks of torchrun."""
    if job.detect() is None:
        start_ranks(0, [sys.executable, *sys.argv])
    contenders = tuple(parse_backend(name, "cuda") for name in distinct(backends))
    settings = Settings(MAIN, parse_sizes(size), contenders, rounds=rounds, round_s=GPU_ROUND_S)
    beside, launches = measure(settings, matrix, tuple(parse_size(text) for text in distinct(launch_sizes)), max_ctas)
    if launch.rank() == 0 and json_file is not None:
        write_json(json_file, beside + launches)


if __name__ == "__main__":
    try:
        typer.run(main)
    except Exception as error:
        launch.fail(error)
