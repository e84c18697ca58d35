# SPDX-License-Identifier: Apache-2.0
"""One rank of a job in which something goes wrong on one rank, in the middle of random calls.

As a program under mpiexec: one rank, which leaves its outcome in a file. Arguments: a fault as JSON, a folder, the
deadline in seconds, a topology (or nothing), transports.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

import lanecast
from lanecast import Communicator, P2POp
from soak_calls import CALLS, Place

# Each rank of a job makes the same calls, drawn from the fault's seed.
ALGORITHMS = {
    "all_gather_into_tensor": ("ring", "direct", "bruck", "hierarchical(ring,direct)"),
    "reduce_scatter_tensor": ("ring", "direct", "bruck", "hierarchical(ring,direct)"),
    "all_reduce": ("ring", "direct", "bruck", "folding", "one_shot", "double_tree", "hierarchical(ring,direct)"),
    "broadcast": ("binomial", "chain", "direct", "scatter_all_gather", "hierarchical(binomial,direct)"),
    "reduce": ("binomial", "chain", "direct", "scatter_all_gather", "hierarchical(chain,direct)"),
    "gather": ("binomial", "direct", "hierarchical(direct,direct)"),
    "scatter": ("binomial", "direct", "hierarchical(direct,direct)"),
    "all_to_all_single": ("pairwise", "bruck", "hierarchical(pairwise,pairwise)"),
}
WITHOUT_DATA = ("barrier", "split", "messages")  # or none that a collective moves
TURNS = (*ALGORITHMS, *WITHOUT_DATA)
COUNTS = (1, 1_000, 100_000)
PLACES = {2: "", 3: "2+1", 4: "2x2"}  # topologies, by ranks
KINDS = ("kill", "stop", "slow", "mismatch", "interrupt", "exception", "destroyed")
CALLS_AFTER = 12  # after a fault that harms nobody


@dataclass(frozen=True)
class Fault:
    """What goes wrong: on which rank, in or before which call, and how many milliseconds into it."""

    kind: str
    seed: int
    size: int
    victim: int
    call: int
    delay_ms: float
    async_op: bool


@dataclass
class Outcome:
    """How a rank ended: the error it saw ("" for none), when (time.monotonic()), and what the survivors could do."""

    error: str = ""
    text: str = ""
    at_s: float = 0.0
    again: str = ""


def meets_a_message(fault: Fault) -> bool:
    """Is the other ranks' call one of messages, while the victim has only started its own and so may still send?"""
    draw = random.Random(fault.seed)
    calls = [draw_call(draw, fault.size) for _ in range(fault.call + 1)]
    return fault.kind == "mismatch" and fault.async_op and not calls[-1].persistent and calls[-1].turn == "messages"


def drawn(number: int, size: int, kinds: tuple[str, ...] = KINDS) -> Fault:
    draw = random.Random(number)
    return Fault(
        kinds[number % len(kinds)], number, size, draw.randrange(size), draw.randrange(2, 6), draw.random() * 8,
        draw.random() < 0.3,
    )  # fmt: skip


class Draw(NamedTuple):
    """What all ranks draw for one call."""

    turn: str
    elements: int
    root: int
    value: int
    persistent: bool
    choice: float  # of the algorithm


def draw_call(draw: random.Random, size: int) -> Draw:
    return Draw(
        draw.choice(TURNS), draw.choice(COUNTS), draw.randrange(size), draw.randrange(100), draw.random() < 0.2,
        draw.random(),
    )  # fmt: skip


def make_call(comm: Communicator, draw: random.Random, async_op: bool, odd: bool = False) -> None:
    """One random call with a result that is checked; `odd`: with one element more than the others have."""
    turn, count, root, value, persistent, choice = draw_call(draw, comm.size)
    if turn in WITHOUT_DATA and not odd:
        make_call_without_data(comm, turn, count)
        return
    collective = turn if turn in ALGORITHMS else "all_reduce"
    algorithms = ["", *(name for name in ALGORITHMS[collective] if comm.topology.levels or "hier" not in name)]
    if comm.transports == "mpi":
        algorithms.append("mpi")
    algorithm = algorithms[int(choice * len(algorithms))]
    chunks = 1 if algorithm == "mpi" else 0
    arguments, result, due = CALLS[collective](Place(comm, count + odd, "int64", root, value))
    if persistent:
        call = comm.persistent(collective, *arguments, algorithm=algorithm, chunks=chunks)
        call.run()
    else:
        work = getattr(comm, collective)(*arguments, async_op=async_op, algorithm=algorithm, chunks=chunks)
        if work is not None:
            work.wait()
    assert (result == due).all(), f"wrong data of {collective} by {algorithm}: {result[result != due]} for {due}"


def make_call_without_data(comm: Communicator, turn: str, count: int) -> None:
    """Each is one call of the communicator's, as collectives are."""
    if turn == "split":
        comm.split(0)
        return
    if turn == "messages" and comm.size > 1:  # a lone survivor has nobody to send to
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        got = np.zeros(count)
        mine = np.full(count, comm.rank + 1.0)
        comm.batch_send_recv([P2POp("isend", mine, right, tag=3), P2POp("irecv", got, left, tag=3)])
        assert (got == left + 1).all(), "wrong data of a message"
    comm.barrier()


def strike(fault: Fault, happened: Callable[[], None]) -> bool:
    """Do to this rank what shall happen to it; True when its next call shall differ."""

    def later(signum: signal.Signals) -> None:
        def shoot() -> None:
            time.sleep(fault.delay_ms / 1e3)
            happened()
            os.kill(os.getpid(), signum)

        threading.Thread(target=shoot, daemon=True).start()

    if fault.kind in {"kill", "stop", "interrupt"}:
        later({"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "interrupt": signal.SIGINT}[fault.kind])
        return False
    happened()
    if fault.kind == "slow":
        time.sleep(fault.delay_ms / 20)  # up to 0.4 s, less than the deadline
    if fault.kind == "exception":
        raise RuntimeError("an error in the program")
    return fault.kind == "mismatch"


def run(make: Callable[[], Communicator | None], fault: Fault, happened: Callable[[], None]) -> Outcome:
    """Calls until the fault shows, or enough of them were made after it."""
    comm = make()
    assert comm is not None
    rank = comm.rank
    draw = random.Random(fault.seed)
    outcome = Outcome()
    comm.all_reduce(np.ones(1), chunks=1)
    calls = fault.call + (CALLS_AFTER if fault.kind == "slow" else 100_000)
    try:
        for number in range(calls):
            odd = rank == fault.victim and number == fault.call and strike(fault, happened)
            if rank == fault.victim and number == fault.call and fault.kind == "destroyed":
                comm.all_reduce(np.ones(999), async_op=True)  # no call of the others
                del comm
                break
            make_call(comm, draw, fault.async_op, odd)
    except (lanecast.Error, KeyboardInterrupt, RuntimeError, AssertionError) as error:
        outcome.error, outcome.text = type(error).__name__, str(error)
    outcome.at_s = time.monotonic()
    return outcome


class FileGather:
    """An all-gather over files, for ranks that have lost their communicator and nothing else."""

    def __init__(self, folder: Path, rank: int, size: int) -> None:
        self._folder, self._rank, self._size, self._round = folder, rank, size, 0

    def __call__(self, mine: bytes) -> bytes:
        self._round += 1
        unfinished = self._folder / f"{self._round}.{self._rank}.tmp"
        unfinished.write_bytes(mine)
        unfinished.rename(unfinished.with_suffix(""))
        parts = [self._folder / f"{self._round}.{rank}" for rank in range(self._size)]
        deadline = time.monotonic() + 200
        while not all(part.exists() for part in parts):
            assert time.monotonic() < deadline, f"round {self._round}: a survivor does not come"
            time.sleep(0.001)
        return b"".join(part.read_bytes() for part in parts)


def again(fault: Fault, rank: int, folder: Path) -> str:
    """A new communicator of the survivors, in the order of their ranks; what is wrong with it, or "works"."""
    survivors = [other for other in range(fault.size) if other != fault.victim]
    me = survivors.index(rank)
    gather = FileGather(folder, me, len(survivors))
    try:
        comm = lanecast.from_all_gather(me, len(survivors), gather, timeout_s=60.0)
        for number in range(3):
            make_call(comm, random.Random(fault.seed + number), async_op=False)
    except (lanecast.Error, AssertionError) as error:
        return str(error)
    return "works"


def main() -> None:
    fault, folder = Fault(**json.loads(sys.argv[1])), Path(sys.argv[2])
    comm = lanecast.init(topology=sys.argv[4], transports=sys.argv[5], timeout_s=float(sys.argv[3]))
    # MPICH's launcher does not survive a rank that dies while two ranks are being connected.
    comm.all_reduce(np.ones(100_000), algorithm="direct")
    child = [comm.split(0)]

    def happened() -> None:
        (folder / "happened").write_text(f"{time.monotonic()} {os.getpid()}")

    outcome = run(child.pop, fault, happened)
    if fault.kind in {"kill", "stop"}:
        outcome.again = again(fault, comm.rank, folder)
    unfinished = folder / "unfinished"
    unfinished.with_suffix(f".{comm.rank}").write_text(json.dumps(asdict(outcome)))
    unfinished.with_suffix(f".{comm.rank}").rename(folder / f"outcome.{comm.rank}")
    give_up_s = time.monotonic() + 200
    while not (folder / "judged").exists() and time.monotonic() < give_up_s:  # Open MPI ends all when the first ends
        time.sleep(0.02)
    os._exit(0)  # MPI cannot end where a rank has died


if __name__ == "__main__":
    main()
