# SPDX-License-Identifier: Apache-2.0
"""Is the number of chunks that calls get by default a good one? The default beside pinned numbers, in turns.

    lanecast cluster run --hosts 2 --ranks-per-host 2 --rate 10gbit -- python bench/chunks.py
    LANECAST_GPU_NICS=50GBps,12us mpiexec -n 2 python bench/chunks.py --device cuda

The best pinned number is chosen by half of the rounds and judged by the others, in which it has no luck of its own;
beside it stand the default's time in these and the ratio of the two. Rank 0 prints; with --json FILE it writes rows.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import lanecast
from lanecast.bench.options import parse_size
from lanecast.communicator import Communicator
from lanecast.explanation import Explanation
from lanecast.job import detect

DEFAULT = 0  # chunks
PINNED = (1, 2, 4, 8, 16, 32, 64)
LIMIT = 1.3  # times as long as the best
_ROUND_S, _MOST_CALLS = 5e-3, 20
_FLOAT = 4

Call = Callable[[int], object]  # in so many chunks


class Cpu:
    """Buffers of the host."""

    def __init__(self) -> None:
        self.comm = lanecast.init()

    def full(self, count: int) -> Any:
        return np.full(count, 1, np.float32)

    def finish(self) -> None:
        """Calls have ended when they return."""

    def explained(self, collective: str, count: int) -> Explanation:
        return self.comm.explain(collective, count)


class Cuda:
    """Those of this rank's GPU."""

    def __init__(self) -> None:
        import torch

        found = detect()
        device = (found.local_rank or 0) if found else 0
        torch.cuda.set_device(device)
        self.torch, self.comm = torch, lanecast.init(device=device)

    def full(self, count: int) -> Any:
        return self.torch.ones(count, device="cuda")

    def finish(self) -> None:
        self.comm.synchronize()

    def explained(self, collective: str, count: int) -> Explanation:
        return self.comm.explain_on_gpu(collective, count)


def call_of(side: Cpu | Cuda, collective: str, size: int) -> Call:
    """On buffers of which the full one has `size` bytes; pinned numbers of chunks come with the default's algorithm."""
    comm = side.comm
    share = size // _FLOAT // comm.size
    whole, part = side.full(share * comm.size), side.full(share)
    calls: dict[str, Callable[..., object]] = {
        "all_gather": partial(comm.all_gather_into_tensor, whole, part),
        "reduce_scatter": partial(comm.reduce_scatter_tensor, part, whole),
        "all_reduce": partial(comm.all_reduce, whole, "max"),  # values stay
        "broadcast": partial(comm.broadcast, whole, 0),
        "all_to_all": partial(comm.all_to_all_single, whole, side.full(share * comm.size)),
    }
    call = calls[collective]
    return lambda chunks: call(chunks=chunks) if chunks else call()


def slowest(comm: Communicator, own: float) -> float:
    """Also brings the ranks together."""
    number = np.array([own])
    comm.all_reduce(number, "max")
    return float(number[0])


def seconds(side: Cpu | Cuda, call: Call, chunks: int, repeats: int) -> float:
    """Of a call, on the slowest rank."""
    slowest(side.comm, 0)
    begin = time.perf_counter()
    for _ in range(repeats):
        call(chunks)
    side.finish()
    return slowest(side.comm, (time.perf_counter() - begin) / repeats)


def measure(
    side: Cpu | Cuda, collective: str, size: int, rounds: int, numbers: Sequence[int]
) -> dict[int, list[float]]:
    """By number of chunks, the times of all rounds, in which they take turns."""
    call = call_of(side, collective, size)
    for chunks in numbers:
        seconds(side, call, chunks, 1)  # plans, and meets its buffers
    repeats = min(_MOST_CALLS, max(1, math.ceil(_ROUND_S / seconds(side, call, 1, 1))))
    times: dict[int, list[float]] = {chunks: [] for chunks in numbers}
    for turn in range(rounds):
        first = turn % len(numbers)
        for chunks in [*numbers[first:], *numbers[:first]]:
            times[chunks].append(seconds(side, call, chunks, repeats))
    return times


def judged(times: dict[int, list[float]]) -> dict[str, Any]:
    """What the odd rounds say of the default and of the number that was best in the even ones."""
    even = {chunks: statistics.median(each[::2]) for chunks, each in times.items() if chunks != DEFAULT}
    best = min(even, key=lambda chunks: even[chunks])
    default_s, best_s = (statistics.median(times[chunks][1::2]) for chunks in (DEFAULT, best))
    return {"best": best, "best_s": best_s, "default_s": default_s, "ratio": default_s / best_s}


def line(row: dict[str, Any]) -> str:
    """One row of the table."""
    pinned = " ".join(f"{1e6 * row['times'][chunks]:9.0f}" for chunks in row["times"])
    verdict = f"{row['ratio']:6.2f}{'' if row['ratio'] <= LIMIT else ' !'}"
    took = f"{row['default_s'] * 1e6:9.0f} {row['best']:>5} {verdict}  {row['algorithm']} in {row['chunks']}"
    return f"{row['collective']:>14} {row['size']:>11} {pinned} {took}"


def main() -> None:
    """All sizes of all collectives; ends with the links that the choices rest on."""
    parser = argparse.ArgumentParser(description="the default number of chunks beside pinned ones")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--sizes", default="64K,1M,4M,16M,64M")
    parser.add_argument("--collectives", default="all_gather,reduce_scatter,all_reduce")
    parser.add_argument("--chunks", default=",".join(map(str, PINNED)))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if asked.rounds < 2:
        parser.error("--rounds: at least 2")
    side = Cuda() if asked.device == "cuda" else Cpu()
    pinned = [int(text) for text in asked.chunks.split(",")]
    rows: list[dict[str, Any]] = []
    if side.comm.rank == 0:
        head = " ".join(f"{chunks:>9}" for chunks in pinned)
        print(f"{'us in chunks':>14} {'bytes':>11} {head} {'default':>9} {'best':>5}  ratio  default", flush=True)
    for collective in asked.collectives.split(","):
        for size in map(parse_size, asked.sizes.split(",")):
            count = (
                size
                // _FLOAT
                // (side.comm.size if collective in {"all_gather", "reduce_scatter", "all_to_all"} else 1)
            )
            times = measure(side, collective, size, asked.rounds, [DEFAULT, *pinned])
            why = side.explained(collective, count)
            medians = {chunks: statistics.median(times[chunks]) for chunks in pinned}
            rows.append({
                "collective": collective, "size": size, "algorithm": why.algorithm, "chunks": why.chunks,
                "times": medians, **judged(times), "links": why.reason[why.reason.rfind("(from ") + 1 : -1],
            })  # fmt: skip
            if side.comm.rank == 0:
                print(line(rows[-1]), flush=True)
    if side.comm.rank == 0:
        ratios = [row["ratio"] for row in rows]
        late = sum(ratio > LIMIT for ratio in ratios)
        print(
            f"slower than {LIMIT} times the best: {late} of {len(rows)}; at most {max(ratios):.2f}; {rows[0]['links']}"
        )
        if asked.json:
            asked.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
