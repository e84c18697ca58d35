# SPDX-License-Identifier: Apache-2.0
"""One rank between hosts, on the stand-in of a GPU: random calls, in the midst of which one rank's fault happens.

Each rank also says what its process has kept of communicators that are gone.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import re
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gpu_host_library
import lanecast
from collective_cases import Case, even
from fault_rank import FileGather
from gpu_stand_in import KINDS as COLLECTIVES
from gpu_stand_in import DeviceCall
from lanecast import Communicator
from pipe_jobs import Tell, stays_until

# Stops that are shorter or longer than the deadline; the NIC of a rank, or of its host, that dies.
KINDS = ("kill", "stop", "pause", "abort", "nic")
WHY = "enough of it"  # of who aborts
COUNTS = (0, 1, 7, 1_000, 60_000)
ALGORITHMS = {
    "all_reduce": ("ring", "direct", "bruck", "one_shot", "double_tree"),
    "all_gather": ("ring", "direct", "bruck"),
    "reduce_scatter": ("ring", "direct", "bruck"),
    "broadcast": ("binomial", "chain", "scatter_all_gather"),
    "reduce": ("binomial", "chain"),
    "gather": ("binomial", "direct"),
    "scatter": ("binomial", "direct"),
    "all_to_all": ("pairwise", "bruck"),
}
HIERARCHICAL = {"all_reduce": "ring", "all_gather": "ring", "reduce_scatter": "ring", "all_to_all": "pairwise"}
CALLS_AFTER = 6  # after a fault that harms nobody


@dataclass(frozen=True)
class GpuFault:
    """What goes wrong on which rank, while the rank enqueues a call or so many milliseconds later."""

    kind: str
    seed: int
    topology: str
    hosts: tuple[str, ...]  # of each rank
    victim: int
    call: int
    delay_ms: float
    deadline_s: float

    @property
    def size(self) -> int:
        return len(self.hosts)

    @property
    def survivors(self) -> list[int]:
        """Ranks that can go on, with another communicator."""
        return [rank for rank in range(self.size) if rank != self.victim or self.kind not in {"kill", "stop"}]


@dataclass
class GpuOutcome:
    """How a communicator ended on one rank: the error ("" for none), when (time.monotonic()), and wrong results."""

    error: str = ""
    text: str = ""
    at_s: float = 0.0
    wrong: tuple[str, ...] = ()


@dataclass
class Rest:
    """What a rank could do after the last fault, and what its process has kept of communicators that are gone."""

    again: str = ""
    kept: str = ""


def draw_case(draw: random.Random, size: int, levels: int) -> Case:
    """What all ranks draw for a call."""
    kind = draw.choice(COLLECTIVES)
    algorithms = ["", *ALGORITHMS[kind]]
    if levels and kind in HIERARCHICAL:
        algorithms.append(f"hierarchical({HIERARCHICAL[kind]}{',peers' * levels})")
    count, algorithm = draw.choice(COUNTS), draw.choice(algorithms)
    own = kind == "all_to_all" and draw.random() < 0.5
    counts = even(kind, count, size)
    if own or (len(counts) > 1 and kind != "all_to_all" and draw.random() < 0.3):
        counts = tuple(draw.choice(COUNTS[:-1]) for _ in counts)
    return Case(
        kind, counts, "pairwise" if own else algorithm, draw.choice(["float32", "int64"]),
        in_place=kind in {"broadcast", "reduce"}, chunks=0 if own else draw.choice([0, 0, 1, 3]),
        root=draw.randrange(size), own_counts=own, async_op=draw.random() < 0.3,
    )  # fmt: skip


def cut_off() -> None:
    """All connections of this process end, as when its NIC dies."""
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if not str(entry.readlink()).startswith("socket:"):
                continue
            connection = socket.socket(fileno=os.dup(int(entry.name)))
            with connection:
                if connection.family in {socket.AF_INET, socket.AF_INET6}:
                    connection.getpeername()  # a listener is of no NIC
                    connection.shutdown(socket.SHUT_RDWR)


def strike(fault: GpuFault, comm: Communicator, tell: Tell) -> None:
    """Soon, from a thread of its own, while this one goes on with its calls."""

    def shoot() -> None:
        time.sleep(fault.delay_ms / 1e3)
        tell(time.monotonic())
        match fault.kind:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stop" | "pause":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "abort":
                comm.abort(WHY)
            case "nic" if "emulated" not in comm.transports:  # whose NIC processes end by the test
                cut_off()

    threading.Thread(target=shoot, daemon=True).start()


def run(comm: Communicator, fault: GpuFault, tell: Tell, memory: list[Any]) -> GpuOutcome:
    """Calls until the fault shows, or enough of them were made after it. memory: of calls that have not ended; streams
    may use it for as long as their communicator is there."""
    draw, wrong = random.Random(fault.seed), []
    levels, open_calls = len(comm.topology.levels), []
    outcome = GpuOutcome()
    calls = fault.call + (CALLS_AFTER if fault.kind == "pause" else 100_000)
    try:
        for number in range(calls):
            call = DeviceCall(comm, draw_case(draw, comm.size, levels))
            memory.append((call._in, call._out))
            open_calls.append(call)
            if comm.rank == fault.victim and number == fault.call:
                strike(fault, comm, tell)
            call.start()
            if draw.random() < 0.5 or number == calls - 1:
                for each in open_calls:
                    wrong += each.finish()
                open_calls.clear()
                memory.clear()
    except lanecast.Error as error:
        outcome.error, outcome.text = type(error).__name__, str(error)
    outcome.at_s = time.monotonic()
    outcome.wrong = tuple(wrong)
    return outcome


def used(comm: Communicator, seed: int, ordinal: int) -> list[str]:
    """What is wrong with some calls on that GPU."""
    draw, wrong = random.Random(seed), []
    for _ in range(3):
        # Where the survivors are on one host, chunks are no choice of the caller's.
        call = DeviceCall(comm, replace(draw_case(draw, comm.size, len(comm.topology.levels)), chunks=0), ordinal)
        call.start()
        wrong += call.finish()
    return wrong


def again(fault: GpuFault, rank: int, folder: Path, kernel_cache: str) -> str:
    """A new communicator of the survivors, in the order of their ranks; what is wrong with it, or nothing."""
    me = fault.survivors.index(rank)
    folder.mkdir(exist_ok=True)
    gather = FileGather(folder, me, len(fault.survivors))
    try:
        comm = lanecast.from_all_gather(me, len(fault.survivors), gather, timeout_s=60, kernel_cache=kernel_cache)
        return "; ".join(used(comm, fault.seed, rank))
    except (lanecast.Error, AssertionError) as error:
        return f"{type(error).__name__}: {error}"


def body(faults: Sequence[GpuFault], folder: Path, kernel_cache: str, comm: Communicator, tell: Tell) -> Rest:
    """A communicator of all ranks for each fault; it is told how each of them ends."""
    rank, size, last = comm.rank, comm.size, faults[-1]
    gather = FileGather(folder, rank, size)

    def made(timeout_s: float = 60) -> Communicator:
        return lanecast.from_all_gather(
            rank, size, gather, timeout_s=timeout_s, kernel_cache=kernel_cache, topology=last.topology
        )

    used(made(), last.seed, rank)  # what a process keeps once
    before = in_process()
    for number, fault in enumerate(faults):
        memory: list[Any] = []
        outcome = run(made(fault.deadline_s), fault, tell, memory)
        memory.clear()
        gc.collect()
        tell(outcome)
        if rank in fault.survivors:
            stays_until(folder / f"mended.{number}")
    if rank not in last.survivors:
        return Rest()
    rest = Rest(again(last, rank, folder / "again", kernel_cache))
    if last.kind == "stop":
        tell(rest)
        stays_until(folder / "goes on")
        # Memory that the stopped rank had mapped is free from then on, which is looked for when some is lent.
        rest.again += again(last, rank, folder / "once more", kernel_cache)
    rest.kept = more_than(before)
    return rest


def in_process() -> Counter[str]:
    """What this process holds, each without its number."""
    held: Counter[str] = Counter()
    for name, count in re.findall(r"(\w+) (\d+)", gpu_host_library.held()):
        held[f"{name} of the driver"] = int(count)
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # that of the listing itself
            held["file " + re.sub(r"\d+", "N", str(entry.readlink()))] += 1
    for entry in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # that has just ended
            held["thread " + (entry / "comm").read_text().strip()] += 1
            held["child"] += len((entry / "children").read_text().split())
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "/memfd:" in line or "/dev/shm/" in line or "/SYSV" in line:
            held["memory " + line.split(maxsplit=5)[-1]] += 1
    return held


def more_than(before: Counter[str], patience_s: float = 150.0) -> str:
    """What this process holds beyond that, once it had the time to let go."""
    end = time.monotonic() + patience_s
    while (more := in_process() - before) and time.monotonic() < end:
        time.sleep(0.02)
    return ", ".join(f"{count} more: {name}" for name, count in sorted(more.items()))
