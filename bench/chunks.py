# SPDX-License-Identifier: Apache-2.0
"""Is the way that calls take by default a good one? The default beside pinned ones, in turns.

    lanecast cluster run --hosts 2 --ranks-per-host 2 --rate 10gbit -- python bench/chunks.py
    LANECAST_GPU_NICS=50GBps,12us mpiexec -n 2 python bench/chunks.py --device cuda --lanes 8,16,32,64

Pinned are numbers of chunks, with the default's algorithm; the other algorithms, in the chunks that each gets by
itself (--algorithms); and on GPUs multiprocessors (--lanes). The best pinned way is chosen by half of the rounds and
judged by the others, in which it has no luck of its own; beside it stand the default's time in these and the ratio of
the two. Before it is timed, the default's result is compared with what it has to be, element by element. Rank 0
prints; with --json FILE it writes rows.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import lanecast
from lanecast.bench.options import parse_size
from lanecast.communicator import Communicator
from lanecast.explanation import Explanation
from lanecast.job import detect

PINNED = (1, 2, 4, 8, 16, 32, 64)
LIMIT = 1.3  # times as long as the best
_ROUND_S, _MOST_CALLS = 5e-3, 20
_FLOAT = 4
_SHAPES = {  # of buffers, in shares: what is brought and what is kept
    "all_gather": (False, True),
    "reduce_scatter": (True, False),
    "all_reduce": (True, True),
    "broadcast": (True, True),
    "all_to_all": (True, True),
}


@dataclass(frozen=True)
class Way:
    """How a call is made; zeros and no name stand for the default."""

    chunks: int = 0
    algorithm: str = ""
    lanes: int = 0

    def __str__(self) -> str:
        if self.lanes:
            return f"{self.lanes} lanes"
        return self.algorithm or str(self.chunks or "default")


DEFAULT = Way()
Call = Callable[[Way], object]


class Cpu:
    """Buffers of the host."""

    def __init__(self, lanes: Sequence[int]) -> None:
        if lanes:
            raise SystemExit("--lanes: of GPUs only")
        self.comm = lanecast.init()
        self.numbers: Any = np

    def of(self, way: Way) -> Communicator:
        return self.comm

    def counted(self, rank: int, count: int) -> Any:
        """Of each rank and each element another value, of which sums are exact."""
        return ((np.arange(count, dtype=np.int64) * 7 + rank * 13) % 1021).astype(np.float32)

    def finish(self) -> None:
        """Calls have ended when they return."""

    def explained(self, collective: str, count: int) -> Explanation:
        return self.comm.explain(collective, count)


class Cuda:
    """Those of this rank's GPU."""

    def __init__(self, lanes: Sequence[int]) -> None:
        import torch

        found = detect()
        self.device = (found.local_rank or 0) if found else 0
        torch.cuda.set_device(self.device)
        self.comm = lanecast.init(device=self.device)
        self.by_lanes = {each: lanecast.init(device=self.device, max_ctas=each) for each in lanes}
        self.numbers: Any = torch

    def of(self, way: Way) -> Communicator:
        return self.by_lanes.get(way.lanes, self.comm)

    def counted(self, rank: int, count: int) -> Any:
        torch = self.numbers
        numbers = (torch.arange(count, device="cuda") * 7 + rank * 13) % 1021
        return numbers.to(torch.float32)

    def finish(self) -> None:
        """Of all communicators: they use streams of their own."""
        self.numbers.cuda.synchronize()

    def explained(self, collective: str, count: int) -> Explanation:
        return self.comm.explain_on_gpu(collective, count)


Side = Cpu | Cuda


def call_of(side: Side, collective: str, brought: Any, kept: Any) -> Call:
    """On these buffers; an all-reduce and a broadcast are in place."""
    names = {"all_gather": "all_gather_into_tensor", "reduce_scatter": "reduce_scatter_tensor"}
    name = names.get(collective, "all_to_all_single" if collective == "all_to_all" else collective)
    buffers = {"all_reduce": (brought, "sum"), "broadcast": (brought, 0)}.get(collective, (kept, brought))

    def call(way: Way) -> object:
        pinned = {name: value for name, value in (("chunks", way.chunks), ("algorithm", way.algorithm)) if value}
        return getattr(side.of(way), name)(*buffers, **pinned)

    return call


def buffers_of(side: Side, collective: str, share: int, rank: int) -> tuple[Any, Any]:
    counts = [share * (side.comm.size if is_whole else 1) for is_whole in _SHAPES[collective]]
    return side.counted(rank, counts[0]), side.counted(0, counts[1])


def expected(side: Side, collective: str, share: int) -> Any:
    """What this rank has to end with."""
    size, mine = side.comm.size, slice(side.comm.rank * share, (side.comm.rank + 1) * share)
    brought = (buffers_of(side, collective, share, rank)[0] for rank in range(size))
    if collective == "broadcast":
        return next(brought)
    if collective in {"all_reduce", "reduce_scatter"}:
        return sum(each if collective == "all_reduce" else each[mine] for each in brought)
    parts = [each if collective == "all_gather" else each[mine] for each in brought]
    return side.numbers.concatenate(parts)


def check(side: Side, collective: str, share: int) -> None:
    """Raises SystemExit where an element of the default's result is wrong."""
    brought, kept = buffers_of(side, collective, share, side.comm.rank)
    call_of(side, collective, brought, kept)(DEFAULT)
    side.comm.synchronize()
    got = brought if collective in {"all_reduce", "broadcast"} else kept
    if wrong := int((got != expected(side, collective, share)).sum()):
        raise SystemExit(f"rank {side.comm.rank}: {collective} of {share} a rank: {wrong} elements are wrong")


def slowest(comm: Communicator, own: float) -> float:
    """Also brings the ranks together."""
    number = np.array([own])
    comm.all_reduce(number, "max")
    return float(number[0])


def seconds(side: Side, call: Call, way: Way, repeats: int) -> float:
    """Of a call, on the slowest rank."""
    slowest(side.comm, 0)
    begin = time.perf_counter()
    for _ in range(repeats):
        call(way)
    side.finish()
    return slowest(side.comm, (time.perf_counter() - begin) / repeats)


def measure(side: Side, collective: str, share: int, rounds: int, ways: Sequence[Way]) -> dict[Way, list[float]]:
    """By way, the times of all rounds, in which they take turns."""
    call = call_of(side, collective, *(buffer * 0 for buffer in buffers_of(side, collective, share, 0)))  # sums stay
    for way in ways:
        seconds(side, call, way, 1)  # plans, and meets its buffers
    repeats = min(_MOST_CALLS, max(1, math.ceil(_ROUND_S / seconds(side, call, DEFAULT, 1))))
    times: dict[Way, list[float]] = {way: [] for way in ways}
    for turn in range(rounds):
        first = turn % len(ways)
        for way in [*ways[first:], *ways[:first]]:
            times[way].append(seconds(side, call, way, repeats))
    return times


def judged(times: dict[Way, list[float]]) -> dict[str, Any]:
    """What the odd rounds say of the default and of the way that was best in the even ones."""
    even = {way: statistics.median(each[::2]) for way, each in times.items() if way != DEFAULT}
    best = min(even, key=lambda way: even[way])
    default_s, best_s = (statistics.median(times[way][1::2]) for way in (DEFAULT, best))
    return {"best": str(best), "best_s": best_s, "default_s": default_s, "ratio": default_s / best_s}


def line(row: dict[str, Any]) -> str:
    """One row of the table."""
    pinned = " ".join(f"{1e6 * seconds:9.0f}" for way, seconds in row["times"].items() if way.isdigit())
    verdict = f"{row['ratio']:6.2f}{'' if row['ratio'] <= LIMIT else ' !'}"
    took = f"{row['default_s'] * 1e6:9.0f} {verdict} of {row['best']}; by {row['algorithm']} in {row['chunks']}"
    return f"{row['collective']:>14} {row['size']:>11} {pinned} {took}"


def ways_of(why: Explanation, chunks: Sequence[int], lanes: Sequence[int], algorithms: bool) -> list[Way]:
    """The default first."""
    others = {each.algorithm for each in why.candidates} - {why.algorithm} if algorithms else set()
    return [
        DEFAULT,
        *(Way(chunks=each) for each in chunks),
        *(Way(algorithm=each) for each in sorted(others)),
        *(Way(lanes=each) for each in lanes),
    ]


def main() -> None:
    """All sizes of all collectives; ends with the links that the choices rest on."""
    parser = argparse.ArgumentParser(description="the way that calls take by default beside pinned ones")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--sizes", default="64K,1M,4M,16M,64M")
    parser.add_argument("--collectives", default="all_gather,reduce_scatter,all_reduce")
    parser.add_argument("--chunks", default=",".join(map(str, PINNED)))
    parser.add_argument("--algorithms", action="store_true", help="all others that can do the call as well")
    parser.add_argument("--lanes", default="", help="multiprocessors of a call on GPUs as well: 8,16,32,64")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if asked.rounds < 2:
        parser.error("--rounds: at least 2")
    lanes = [int(text) for text in asked.lanes.split(",") if text]
    side: Side = Cuda(lanes) if asked.device == "cuda" else Cpu(lanes)
    pinned = [int(text) for text in asked.chunks.split(",")]
    rows: list[dict[str, Any]] = []
    if side.comm.rank == 0:
        head = " ".join(f"{chunks:>9}" for chunks in pinned)
        print(f"{'us in chunks':>14} {'bytes':>11} {head} {'default':>9}  ratio", flush=True)
    for collective in asked.collectives.split(","):
        for size in map(parse_size, asked.sizes.split(",")):
            share = size // _FLOAT // side.comm.size
            check(side, collective, share)
            is_in_parts = collective in {"all_gather", "reduce_scatter", "all_to_all"}
            why = side.explained(collective, share if is_in_parts else share * side.comm.size)
            ways = ways_of(why, pinned, lanes, asked.algorithms)
            times = measure(side, collective, share, asked.rounds, ways)
            rows.append({
                "collective": collective, "size": size, "algorithm": why.algorithm, "chunks": why.chunks,
                "times": {str(way): statistics.median(each) for way, each in times.items()},
                **judged(times), "links": why.reason[why.reason.rfind("(from ") + 1 : -1],
            })  # fmt: skip
            if side.comm.rank == 0:
                print(line(rows[-1]), flush=True)
    if side.comm.rank == 0:
        ratios = [row["ratio"] for row in rows]
        late = sum(ratio > LIMIT for ratio in ratios)
        print(
            f"slower than {LIMIT} times the best: {late} of {len(rows)}; at most {max(ratios):.2f}; every element of "
            f"the defaults' results was right; {rows[0]['links']}"
        )
        if asked.json:
            asked.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
