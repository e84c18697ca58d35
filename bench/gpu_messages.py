# SPDX-License-Identifier: Apache-2.0
"""Messages of GPUs' memory between two hosts, over emulated NICs: every element checked, then times beside the NIC's.

    python bench/gpu_messages.py [--nics 50GBps,12us] [--gpus 2] [--sizes 8,1M,64M] [--rounds 9] [--json messages.json]

Makes two hosts of so many GPUs; rank r of the first one and rank r of the second exchange messages, all pairs at once.
Needs torch. `ping`: half of a round trip of send and recv.
`row`: messages one behind the other in one direction. `both`: a list of one in either direction. Shares are of the time
that latency and rate of the NIC alone take; in a row the latency counts once for all.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lanecast import P2POp
from lanecast.bench import machine
from lanecast.bench.gpu_processes import run_ranks
from lanecast.bench.gpu_ranks import GpuRanks
from lanecast.bench.options import parse_sizes
from lanecast.bench.outputs import write_json
from lanecast.bench.tables import size_text
from lanecast.cluster.gpu_nics import Nics, parse

WAYS = ("ping", "row", "both")
IN_A_ROW = 16


class Messages:
    """Of a rank with the one that has its place on the other host."""

    def __init__(self, ranks: GpuRanks, size_bytes: int) -> None:
        import torch

        self.ranks, self.comm = ranks, ranks.comm
        half = ranks.size // 2
        self.first, self.peer = ranks.rank < half, (ranks.rank + half) % ranks.size
        where = torch.arange(size_bytes, device=ranks.device.device, dtype=torch.int32)
        self.sent, self.expected = (
            (((where ^ where >> 8) * 7 + r * 131) % 251).to(torch.uint8) for r in (ranks.rank, self.peer)
        )
        self.got = torch.full_like(self.sent, 255)  # which nobody sends

    def ping(self) -> None:
        steps = (self.comm.send, self.sent), (self.comm.recv, self.got)
        for step, memory in steps if self.first else reversed(steps):
            step(memory, self.peer)

    def row(self) -> None:
        for _ in range(IN_A_ROW):
            if self.first:
                self.comm.send(self.sent, self.peer)
            else:
                self.comm.recv(self.got, self.peer)

    def both(self) -> None:
        self.comm.batch_send_recv([P2POp("isend", self.sent, self.peer), P2POp("irecv", self.got, self.peer)])

    def wrong(self, way: str) -> int:
        """Elements, on all ranks."""
        self.got.fill_(255)
        getattr(self, way)()
        self.comm.synchronize()
        receives = way != "row" or not self.first
        return self.ranks.total(int((self.got != self.expected).sum()) if receives else 0)

    def times_us(self, call: Callable[[], None], rounds: int) -> list[float]:
        """Of the slowest rank."""
        found = []
        for round_ in range(rounds + 1):  # the first warms up
            self.ranks.device.synchronize()
            self.ranks.latest(0)
            begin = self.ranks.device.mark()
            call()
            end = self.ranks.device.mark()
            self.ranks.device.synchronize()
            took = self.ranks.device.elapsed_us(begin, end)
            found += [self.ranks.latest(took)] if round_ else []
        return found


def measured(ranks: GpuRanks, size: int, nics: Nics, rounds: int) -> Iterator[dict[str, Any]]:
    """A row of each way."""
    messages = Messages(ranks, size)
    for way in WAYS:
        wrong = messages.wrong(way)
        in_call = {"ping": 2, "row": IN_A_ROW, "both": 1}[way]
        times = [took / in_call for took in messages.times_us(getattr(messages, way), rounds)]
        latency_s = nics.latency_s / (IN_A_ROW if way == "row" else 1)
        yield {
            "way": way, "bytes": size, "time_us": statistics.median(times), "time_us_rounds": times, "wrong": wrong,
            "nominal_us": 1e6 * (latency_s + size / nics.bytes_per_s),
        }  # fmt: skip


def shown(row: dict[str, Any]) -> str:
    times, middle = row["time_us_rounds"], row["time_us"]
    share = row["nominal_us"] / middle
    wrong = f" {row['wrong']} WRONG" if row["wrong"] else ""
    return f"{middle:9.1f} {min(times):7.1f} {max(times):7.1f} {row['bytes'] / middle / 1e3:6.2f} {share:5.2f}{wrong}"


def rank_main(options: dict[str, Any]) -> None:
    ranks = GpuRanks()
    nics = parse(options["nics"], "--nics")
    run, rows = machine.describe(ranks), []
    if ranks.rank == 0:
        print(*machine.lines(run), f"messages {ranks.comm.gpu_messages}, NICs of {nics}, emulated\n", sep="\n")
        heads = (f" | {way + ' us':>9} {'least':>7} {'most':>7} {'GB/s':>6} {'share':>5}" for way in WAYS)
        print(f"{'':>10}" + "".join(heads))
    for size in options["sizes"]:
        of_size = list(measured(ranks, size, nics, options["rounds"]))
        rows += [{"run": run, **row} for row in of_size]
        if ranks.rank == 0:
            print(f"{size_text(size):>10}" + "".join(f" | {shown(row)}" for row in of_size), flush=True)
    if ranks.rank == 0 and options["json"]:
        write_json(Path(options["json"]), rows)
    ranks.close()
    sys.exit(any(row["wrong"] for row in rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nics", default="50GBps,12us")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--sizes", default="8,4K,64K,256K,1M,4M,16M,64M,256M")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", default=None)
    asked = vars(parser.parse_args())
    if asked["gpus"] < 2 or asked["gpus"] % 2:
        parser.error(f"--gpus {asked['gpus']}: two hosts have equally many, so an even number from 2 on")
    nics = parse(asked["nics"], "--nics")
    asked["sizes"] = parse_sizes(asked["sizes"])
    command = [sys.executable, __file__, "--rank", json.dumps(asked)]
    sys.exit(run_ranks(command, asked["gpus"], {"LANECAST_GPU_NICS": f"{nics},{asked['gpus'] // 2}"}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank_main(json.loads(sys.argv[2]))
    else:
        main()
