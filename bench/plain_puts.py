# SPDX-License-Identifier: Apache-2.0
"""Do emulated NICs give what they are asked for? Puts between GPUs and nothing else, beside the nominal rate.

python bench/plain_puts.py [--nics 50GBps,12us] [--gpus 2] [--rounds 9]

Every GPU is a host of its own. By the clock: bytes over the seconds from before the first put until the last one's word
is written; by the counters: bytes that the NICs say have come, which have to be those that were sent. A latency is that
of one put with its word. Figures of calls over such a network are void where these miss 0.97 of the nominal rate.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.connection
import platform
import statistics
from dataclasses import dataclass

from lanecast import _core
from lanecast.cluster.gpu_nics import Network, parse

MIB = 1 << 20
MOST_BYTES = 64 * MIB


@dataclass(frozen=True)
class Case:
    name: str
    size: int
    puts: int
    senders: int  # GPU k sends to k + 1; 0: all


CASES = (
    Case("one long", 64 * MIB, 1, 1),
    Case("long ones", 16 * MIB, 4, 1),
    Case("many, 1 MiB", MIB, 64, 1),
    Case("many, 256 KiB", MIB // 4, 256, 1),
    Case("many, 64 KiB", MIB // 16, 1024, 1),
    Case("all at once, long", 64 * MIB, 1, 0),
    Case("all at once, 256 KiB", MIB // 4, 256, 0),
)
LATENCIES = (0, 8, 4096, 65_536, MIB)


class Pipes:
    """An all-gather through the parent."""

    def __init__(self, pipe: multiprocessing.connection.Connection) -> None:
        self.pipe = pipe

    def all_gather(self, mine: bytes) -> bytes:
        self.pipe.send(mine)
        gathered: bytes = self.pipe.recv()
        return gathered


def rank_main(rank: int, size: int, folder: str, rounds: int, pipe: multiprocessing.connection.Connection) -> None:
    pipes = Pipes(pipe)
    puts = _core.PlainPuts(rank, size, pipes.all_gather, folder, f"host{rank}", rank, MOST_BYTES)
    puts.fill(bytes(range(256)) * (MIB // 256))
    times: dict[str, list[float]] = {}
    to = (rank + 1) % size
    for turn in range(rounds + 1):  # the first opens what is opened once
        for case in CASES:
            pipes.all_gather(b".")
            if case.senders in {0} or rank < case.senders:
                took = puts.time(to, case.size, case.puts)
                times.setdefault(case.name, []).extend([took] if turn else [])
            pipes.all_gather(b".")
        for latency in LATENCIES:
            pipes.all_gather(b".")
            if rank == 0:
                each = [puts.time(to, latency, 1) for _ in range(20)]
                times.setdefault(f"latency {latency}", []).extend(each if turn else [])
    pipes.all_gather(b".")
    assert puts.come(0, MIB) == bytes(range(256)) * (MIB // 256), "wrong bytes"
    pipe.send(("done", times))


def run(size: int, folder: str, rounds: int) -> list[dict[str, list[float]]]:
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for rank in range(size):
        here, there = context.Pipe()
        processes.append(context.Process(target=rank_main, args=(rank, size, folder, rounds, there)))
        processes[-1].start()
        there.close()
        pipes.append(here)
    while True:
        told = [pipe.recv() for pipe in pipes]
        if isinstance(told[0], tuple):
            break
        for pipe in pipes:
            pipe.send(b"".join(told))
    for process in processes:
        process.join()
    return [times for _, times in told]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nics", default="50GBps,12us")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    nics = parse(options.nics, "--nics")
    with Network(nics, [f"host{rank}" for rank in range(options.gpus)], 1) as network:
        network.start()
        times = run(options.gpus, str(network.folder), options.rounds)
        received = sum(row["received_bytes"] for row in network.traffic())
    sent = (options.rounds + 1) * (
        sum(case.size * case.puts * (case.senders or options.gpus) for case in CASES) + 20 * sum(LATENCIES)
    )
    gpus = ", ".join(sorted({gpu["name"] for gpu in _core.gpus()}))
    print(f"Lanecast {_core.VERSION}, {options.gpus} x {gpus}, {platform.node()}; NICs of {nics}, emulated")
    print(f"bytes by the NICs' counters over bytes sent: {received / sent:.4f}\n")
    print(f"{'puts':24}{'GB/s, median':>14}{'least':>8}{'most':>8}{'of nominal':>12}")
    for case in CASES:
        rates = sorted(case.size * case.puts / took / 1e9 for rank in times for took in rank.get(case.name, []) if took)
        median = statistics.median(rates)
        share = median * 1e9 / nics.bytes_per_s
        print(f"{case.name:24}{median:14.2f}{rates[0]:8.2f}{rates[-1]:8.2f}{share:12.3f}")
    print(f"\n{'one put with its word':24}{'us, median':>14}{'least':>8}{'most':>8}{'nominal':>12}")
    for latency in LATENCIES:
        each = sorted(1e6 * took for took in times[0][f"latency {latency}"])
        nominal = 1e6 * (nics.latency_s + latency / nics.bytes_per_s)
        name = f"{latency} bytes"
        print(f"{name:24}{statistics.median(each):14.1f}{each[0]:8.1f}{each[-1]:8.1f}{nominal:12.1f}")


if __name__ == "__main__":
    main()
