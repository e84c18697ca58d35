# SPDX-License-Identifier: Apache-2.0
"""What this project aims at on a machine of four GPUs, held against rows of gpu_hosts.py."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lanecast.bench.measure import Row
from lanecast.bench.summary import ratios
from lanecast.bench.tables import size_text
from lanecast.bench.training import CLOSE
from nic_bound_report import Outcome, cases

MIB = 1 << 20
MEANS = {"all_gather": 1.35, "reduce_scatter": 1.25, "all_reduce": 1.15}  # times as fast as NCCL, 1 MiB to 1 GiB
LEAST = 0.97  # at any of these sizes
RANGE = (MIB, 1024 * MIB)
GATHER_GBPS, SMALL_REDUCE_US = 385, 19
OF_BOUND = {"all_gather": 0.90, "reduce_scatter": 0.90, "all_reduce": 0.93}
EVEN = 0.05  # by which a NIC's share of the bytes may differ from an even one
TRAINING = {"fsdp2": 1.2, "zero3": 1.2, "ddp": 1.0}  # NCCL's tokens per second


@dataclass(frozen=True)
class Aim:
    """One figure beside the one aimed at."""

    what: str
    measured: float
    aim: float
    at_least: bool = True  # else at most

    @property
    def missed_by(self) -> float:
        """0: reached."""
        return max(0.0, self.aim - self.measured if self.at_least else self.measured - self.aim)


def part(rows: Sequence[Row], name: str) -> list[Row]:
    return [row for row in rows if row["part"] == name]


def between_hosts(rows: Sequence[Row]) -> list[Row]:
    """Those with a bound: where a host shows no NICs there is none."""
    return [row for row in part(rows, "cluster") if row["bound_us"]]


def judged(rows: Sequence[Row]) -> Iterator[Aim]:
    """All that these rows tell about."""
    yield from _speed(part(rows, "host"))
    yield from _single(part(rows, "in place"))
    yield from _cluster(between_hosts(rows))
    for row in part(rows, "training"):
        if row["backend"] == "lanecast":
            strategy, what = row["strategy"], f"{row['strategy']} of {row['model']}"
            yield Aim(f"{what}: x NCCL's tokens per second", row["times_as_fast"], TRAINING[strategy])
            yield Aim(f"{what}: losses apart", row["loss_apart"], CLOSE, at_least=False)


def _speed(rows: Sequence[Row]) -> Iterator[Aim]:
    """The mean of each way to call, and of all of them the least favourable size."""
    for collective, dtype in dict.fromkeys((row["collective"], row["dtype"]) for row in rows):
        if collective not in MEANS:
            continue
        here = [row for row in rows if (row["collective"], row["dtype"]) == (collective, dtype)]
        ours = {(row["mode"], row["memory"]): row for row in here if row["backend"] != row["run"]["baseline"]}
        times: dict[str, float] = {}
        for (mode, memory), row in ours.items():
            found = ratios(here, row, *RANGE)
            if found:
                what = f"{collective}, {dtype}, {mode}, {memory}: x NCCL"
                yield Aim(what, statistics.geometric_mean(found.values()), MEANS[collective])
            times |= {f"{size_text(size)}, {mode}, {memory}": value for size, value in found.items()}
        if times:
            least = min(times, key=lambda name: times[name])
            yield Aim(f"{collective}, {dtype}: least x NCCL ({least})", times[least], LEAST)


def _single(rows: Sequence[Row]) -> Iterator[Aim]:
    ours = [row for row in rows if row["backend"].startswith("lanecast")]
    gathers = [row for row in ours if row["collective"] == "all_gather" and row["bytes"] > RANGE[1] - MIB]
    small = [row for row in ours if row["collective"] == "all_reduce" and row["bytes"] <= 64 << 10]
    for row in gathers:
        yield Aim(f"all_gather of 1 GiB in place, {row['mode']}, {row['memory']}: GB/s", row["busbw_GBps"], GATHER_GBPS)
    for row in small:
        name = f"all_reduce of 64 KiB, {row['mode']}, {row['memory']}: µs"
        yield Aim(name, row["time_us"], SMALL_REDUCE_US, at_least=False)


def _cluster(rows: Sequence[Row]) -> Iterator[Aim]:
    """Of each shape and type the size that is furthest from the bound, and the call that spreads its bytes worst."""
    for topology, dtype in dict.fromkeys((row["topology"], row["dtype"]) for row in rows):
        here = [row for row in rows if (row["topology"], row["dtype"]) == (topology, dtype)]
        least: dict[str, tuple[float, int]] = {}
        uneven = 0.0
        for first, bound_us, outcome in _ours(here):
            share = (bound_us / outcome.time_us, first["bytes"])
            least[first["collective"]] = min(share, least.get(first["collective"], share))
            uneven = max(uneven, unevenness(outcome.rows[0]))
        for collective, (share_of_bound, size) in least.items():
            what = f"{collective} on {topology}, {dtype}: least of the bound ({size_text(size)})"
            yield Aim(what, share_of_bound, OF_BOUND[collective])
        yield Aim(f"{topology}, {dtype}: most by which bytes are uneven over NICs", uneven, EVEN, at_least=False)


def _ours(rows: Sequence[Row]) -> Iterator[tuple[Row, float, Outcome]]:
    for first, bound_us, outcomes in cases(rows):
        yield from ((first, bound_us, outcome) for outcome in outcomes if outcome.backend == "lanecast")


def unevenness(row: Row) -> float:
    """By how much the NIC and direction with most, or least, of a host's bytes differs from an even share."""
    numbers: list[float] = [number for nic in row["nic_bytes"].values() for number in nic.values()]
    mean = statistics.fmean(numbers)
    return max(abs(number / mean - 1) for number in numbers)
