# SPDX-License-Identifier: Apache-2.0
"""Messages of GPUs' memory, between two hosts over emulated NICs or within one host: every element checked, then times.

    python bench/gpu_messages.py [--nics 50GBps,12us] [--gpus 2] [--sizes 8,1M,64M] [--rounds 9] [--json messages.json]
    python bench/gpu_messages.py --within [--gpus 2] [--sizes 8,1M,64M] [--rounds 9] [--json messages.json]

Rank r of the first half and rank r of the second exchange messages, all pairs at once. Either half is a host, or with
`--within` both are one, beside torch's NCCL in turns. Needs torch. `ping`: half of a round trip of send and recv.
`row`: messages one behind the other in one direction. `both`: a list of one in either direction. `x`: how many times as
fast as what the NIC's latency and rate alone take, or as NCCL. In a row the latency counts once for all.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lanecast import P2POp
from lanecast.bench import machine
from lanecast.bench.gpu_processes import run_ranks
from lanecast.bench.gpu_ranks import GpuRanks
from lanecast.bench.options import parse_sizes
from lanecast.bench.outputs import write_json
from lanecast.bench.tables import size_text
from lanecast.cluster.gpu_nics import Nics, parse
from lanecast.communicator import Communicator

WAYS = ("ping", "row", "both")
IN_A_ROW = 16
MESSAGES = {"ping": 2, "row": IN_A_ROW, "both": 1}  # of a call, one behind the other


class Messages:
    """Of a rank with the one that has its place in the other half."""

    def __init__(self, ranks: GpuRanks, size_bytes: int) -> None:
        import torch

        self.ranks = ranks
        half = ranks.size // 2
        self.first, self.peer = ranks.rank < half, (ranks.rank + half) % ranks.size
        where = torch.arange(size_bytes, device=ranks.device.device, dtype=torch.int32)
        self.sent, self.expected = (
            (((where ^ where >> 8) * 7 + r * 131) % 251).to(torch.uint8) for r in (ranks.rank, self.peer)
        )
        self.got = torch.full_like(self.sent, 255)  # which nobody sends

    def ping(self, by: Library) -> None:
        steps = (by.send, self.sent), (by.recv, self.got)
        for step, memory in steps if self.first else reversed(steps):
            step(memory, self.peer)

    def row(self, by: Library) -> None:
        for _ in range(IN_A_ROW):
            if self.first:
                by.send(self.sent, self.peer)
            else:
                by.recv(self.got, self.peer)

    def both(self, by: Library) -> None:
        by.exchange(self.sent, self.got, self.peer)

    def wrong(self, way: str, by: Library) -> int:
        """Elements, on all ranks."""
        self.got.fill_(255)
        getattr(self, way)(by)
        self.ranks.comm.synchronize()  # which says what has failed
        self.ranks.device.synchronize()
        receives = way != "row" or not self.first
        return self.ranks.total(int((self.got != self.expected).sum()) if receives else 0)

    def time_us(self, way: str, by: Library) -> float:
        """Of a message, at the slowest rank."""
        self.ranks.device.synchronize()
        self.ranks.latest(0)
        begin = self.ranks.device.mark()
        getattr(self, way)(by)
        end = self.ranks.device.mark()
        self.ranks.device.synchronize()
        return self.ranks.latest(self.ranks.device.elapsed_us(begin, end)) / MESSAGES[way]


class Library(NamedTuple):
    """Whose messages are sent."""

    name: str
    send: Callable[[Any, int], Any]
    recv: Callable[[Any, int], Any]
    exchange: Callable[[Any, Any, int], Any]


def ours(comm: Communicator) -> Library:
    def exchange(sent: Any, got: Any, peer: int) -> None:
        comm.batch_send_recv([P2POp("isend", sent, peer), P2POp("irecv", got, peer)])

    return Library("lanecast", comm.send, comm.recv, exchange)


def nccl(ranks: GpuRanks) -> Library:
    from torch import distributed

    ranks.group()

    def exchange(sent: Any, got: Any, peer: int) -> None:
        both = [distributed.P2POp(distributed.isend, sent, peer), distributed.P2POp(distributed.irecv, got, peer)]
        for request in distributed.batch_isend_irecv(both):
            request.wait()

    return Library("nccl", distributed.send, distributed.recv, exchange)


def measured(ranks: GpuRanks, size: int, nics: Nics | None, libraries: list[Library],
             rounds: int) -> Iterator[dict[str, Any]]:  # fmt: skip
    """A row of each way and library."""
    messages = Messages(ranks, size)
    for way in WAYS:
        wrong = {by.name: messages.wrong(way, by) for by in libraries}
        times: dict[str, list[float]] = {by.name: [] for by in libraries}
        for round_ in range(rounds + 1):  # the first warms up
            for by in libraries:
                took = messages.time_us(way, by)
                times[by.name] += [took] if round_ else []
        middle = {name: statistics.median(of) for name, of in times.items()}
        latency = nics.latency_s / (IN_A_ROW if way == "row" else 1) if nics else 0
        beside = 1e6 * (latency + size / nics.bytes_per_s) if nics else middle["nccl"]
        for name, of in times.items():
            yield {
                "way": way, "library": name, "bytes": size, "time_us": middle[name], "time_us_rounds": of,
                "wrong": wrong[name], "beside_us": beside,
            }  # fmt: skip


def shown(row: dict[str, Any]) -> str:
    times, middle = row["time_us_rounds"], row["time_us"]
    wrong = f" {row['wrong']} WRONG" if row["wrong"] else ""
    return (f"{middle:9.1f} {min(times):7.1f} {max(times):7.1f} {row['bytes'] / middle / 1e3:6.2f} "
            f"{row['beside_us'] / middle:5.2f}{wrong}")  # fmt: skip


def rank_main(options: dict[str, Any]) -> None:
    ranks = GpuRanks()
    nics = None if options["within"] else parse(options["nics"], "--nics")
    libraries = [ours(ranks.comm)] + ([] if nics else [nccl(ranks)])
    run, rows = machine.describe(ranks), []
    if ranks.rank == 0:
        over = f"NICs of {nics}, emulated" if nics else "within a host"
        print(*machine.lines(run), f"messages {ranks.comm.gpu_messages}, {over}\n", sep="\n")
        heads = (f" | {way + ' us':>9} {'least':>7} {'most':>7} {'GB/s':>6} {'x':>5}" for way in WAYS)
        print(f"{'':>18}" + "".join(heads))
    for size in options["sizes"]:
        of_size = list(measured(ranks, size, nics, libraries, options["rounds"]))
        rows += [{"run": run, **row} for row in of_size]
        if ranks.rank == 0:
            for by in libraries:
                cells = (f" | {shown(row)}" for row in of_size if row["library"] == by.name)
                print(f"{size_text(size):>9} {by.name:8}" + "".join(cells), flush=True)
    if ranks.rank == 0 and options["json"]:
        write_json(Path(options["json"]), rows)
    ranks.close()
    sys.exit(any(row["wrong"] for row in rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nics", default="50GBps,12us")
    parser.add_argument("--within", action="store_true")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--sizes", default="8,4K,64K,256K,1M,4M,16M,64M,256M")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", default=None)
    asked = vars(parser.parse_args())
    if asked["gpus"] < 2 or asked["gpus"] % 2:
        parser.error(f"--gpus {asked['gpus']}: both halves have equally many, so an even number from 2 on")
    nics = parse(asked["nics"], "--nics")
    asked["sizes"] = parse_sizes(asked["sizes"])
    command = [sys.executable, __file__, "--rank", json.dumps(asked)]
    hosts = {"LANECAST_GPU_NICS": "" if asked["within"] else f"{nics},{asked['gpus'] // 2}"}
    sys.exit(run_ranks(command, asked["gpus"], hosts))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank_main(json.loads(sys.argv[2]))
    else:
        main()
