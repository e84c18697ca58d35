# SPDX-License-Identifier: Apache-2.0
"""Calls that differ on one rank, for tests over every transport; as a program, one rank of a job under mpiexec."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import lanecast
from lanecast import Communicator

Call = Callable[[Communicator], Any]


def sums(comm: Communicator) -> None:
    comm.all_reduce(np.ones(64), algorithm="ring", chunks=1)


def gathers(comm: Communicator) -> None:
    comm.all_gather_into_tensor(np.ones(64 * comm.size), np.ones(64), algorithm="ring", chunks=1)


def mpi_sums(comm: Communicator) -> None:
    comm.all_reduce(np.ones(64), algorithm="mpi", chunks=1)


def mpi_broadcast(comm: Communicator) -> None:
    comm.broadcast(np.ones(64), 0, algorithm="mpi", chunks=1)


def broadcast(comm: Communicator) -> None:
    comm.broadcast(np.ones(64), 0, algorithm="scatter_all_gather", chunks=1)


def reduce(comm: Communicator) -> None:
    comm.reduce(np.ones(64), 0, algorithm="scatter_all_gather", chunks=1)


def scatter(comm: Communicator, root: int = 0) -> None:
    comm.scatter(np.empty(64), np.ones(64 * comm.size) if comm.rank == root else None, root, algorithm="direct")


@dataclass(frozen=True)
class Odd:
    """What rank 1 calls where the others make the usual call, and the words in which the two calls differ."""

    call: Call
    ours: str
    theirs: str
    usual: Call = sums
    ends: bool = False  # on every rank, and so do the next ones like it: other calls find out


ODD_CALLS = {
    "op": Odd(lambda comm: comm.all_reduce(np.ones(64), "max", algorithm="ring", chunks=1), ", sum", ", max"),
    "dtype": Odd(lambda comm: comm.all_reduce(np.ones(64, np.int64), algorithm="ring", chunks=1), "float64", "int64"),
    "count": Odd(lambda comm: comm.all_reduce(np.ones(65), algorithm="ring", chunks=1), "of 64 ", "of 65 "),
    "nothing": Odd(lambda comm: comm.all_reduce(np.ones(0), algorithm="ring", chunks=1), "of 64 ", "of 0 "),
    "large": Odd(lambda comm: comm.all_reduce(np.ones(500_000), algorithm="ring", chunks=1), "64", "500000"),
    "collective": Odd(gathers, "all_reduce", "all_gather"),
    "chunks": Odd(lambda comm: comm.all_reduce(np.ones(64), algorithm="ring", chunks=2), "1 chunk", "2 chunks"),
    "algorithm": Odd(lambda comm: comm.all_reduce(np.ones(64), algorithm="one_shot", chunks=1), "ring", "one_shot"),
    "barrier": Odd(lambda comm: comm.barrier(), "all_reduce of 64", "barrier, by"),
    "order": Odd(
        lambda comm: comm.all_reduce(np.ones(64), reproducible=True, algorithm="ring", chunks=1),
        ", sum, ",
        "in rank order",
    ),
    # Whom a rank waits for does not wait for that rank.
    "broadcast_count": Odd(
        lambda comm: comm.broadcast(np.ones(65), 0, algorithm="scatter_all_gather", chunks=1),
        "of 64 ", "of 65 ", broadcast,
    ),
    "reduce_op": Odd(
        lambda comm: comm.reduce(np.ones(64), 0, "max", algorithm="scatter_all_gather", chunks=1),
        "sum, root 0", "max, root 0", reduce,
    ),
    "reduce_root": Odd(
        lambda comm: comm.reduce(np.ones(64), 1, algorithm="scatter_all_gather", chunks=1),
        "sum, root 0", "sum, root 1", reduce,
    ),
    # Each root only sends.
    "scatter_root": Odd(lambda comm: scatter(comm, 1), "root 0", "root 1", scatter, ends=True),
}  # fmt: skip

# Where there is an MPI: it would take any of these calls, and hang or leave wrong data.
ODD_NATIVE_CALLS = {
    "mpi_op": Odd(
        lambda comm: comm.all_reduce(np.ones(64, np.int64), "max", algorithm="mpi", chunks=1),
        "int64, sum", "int64, max",
        lambda comm: comm.all_reduce(np.ones(64, np.int64), algorithm="mpi", chunks=1),
    ),
    "mpi_count": Odd(
        lambda comm: comm.all_reduce(np.ones(650), algorithm="mpi", chunks=1), "of 64 ", "of 650 ", mpi_sums
    ),
    "mpi_chunks": Odd(
        lambda comm: comm.all_reduce(np.ones(64), algorithm="mpi", chunks=2), "1 chunk", "2 chunks", mpi_sums
    ),
    "mpi_root": Odd(
        lambda comm: comm.broadcast(np.ones(64), 1, algorithm="mpi", chunks=1), "root 0", "root 1", mpi_broadcast
    ),
    "mpi_collective": Odd(mpi_broadcast, "all_reduce", "broadcast", mpi_sums),
    "mpi_or_not": Odd(mpi_sums, "by ring", "by mpi"),  # the first call that opens MPI's group
}  # fmt: skip


def provoke(comm: Communicator, name: str) -> None:
    """Two calls alike, then one that differs on rank 1. Checks the error, which at the deadline would be another."""
    odd = (ODD_CALLS | ODD_NATIVE_CALLS)[name]
    odd.usual(comm)
    gathers(comm)
    text = ""
    try:
        for turn in range(2):  # a call that has nothing to receive ends before anyone can know
            (odd.call if comm.rank == 1 and turn == 0 else odd.usual)(comm)
        if odd.ends:
            gathers(comm)
    except lanecast.TransportError as error:
        text = str(error)
    both = r"call 3 of this communicator differs between ranks: rank (\d) calls (.*?); rank (\d) calls (.*?) chunks?"
    said = re.search(both, text)
    assert said, f"rank {comm.rank}: {text!r}"
    assert "1" in said.group(1, 3), text
    ours, theirs = said.group(4, 2) if said.group(1) == "1" else said.group(2, 4)
    assert odd.ours.removesuffix(" chunk") in ours + " chunk", text
    assert odd.theirs.removesuffix(" chunks") in theirs + " chunks", text
    try:
        sums(comm)
    except lanecast.TransportError as error:
        assert "has failed" in str(error)  # noqa: PT017  a program, too
    else:
        raise AssertionError("a failed communicator takes calls")


@dataclass(frozen=True)
class Apart:
    """Rank 0 is so many calls past the first that differs when it waits for rank 1; the words of the error."""

    calls: int
    words: str
    both: bool = False  # and so is rank 1, which otherwise still waits in that call


FORGOTTEN = r"rank 0 calls one whose words it has forgotten, and is in call {} by now: all_reduce of 64 float64, .*"
WAITS = "; rank 1 calls broadcast of 65 "
TWO_ROOTS = r"rank \d calls scatter of 64 float64, root (\d), .*; rank \d calls scatter of 64 float64, root (?!\1)"

# Where no message meets a receive of another call.
APART = {
    "apart_12": Apart(12, "call 3 of this communicator differs between ranks: rank 0 calls broadcast of 64 .*" + WAITS),
    "apart_40": Apart(40, "call 3 of this communicator differs between ranks: " + FORGOTTEN.format(43) + WAITS),
    "apart_2100": Apart(
        2100,  # more than a rank remembers, and no more: each takes a time slice where ranks outnumber the cores
        "call 3 of this communicator does not end, and is so long ago for rank 0 that the two cannot be compared: "
        + FORGOTTEN.format(2103)
        + WAITS,
    ),
    "both_12": Apart(12, "call 3 of this communicator differs between ranks: " + TWO_ROOTS, both=True),
    "both_40": Apart(
        40, "call 12 of this communicator, or an earlier one, differs between ranks: " + TWO_ROOTS, both=True
    ),
}


def provoke_apart(beside: Communicator, name: str) -> None:
    """On a split of `beside`, all calls differ from the third on. Checks the error as provoke() does."""
    apart = APART[name]
    comm = beside.split(0)
    assert comm is not None
    gathers(comm)
    gathers(comm)
    text = ""
    if comm.rank == 1 and not apart.both:
        beside.recv(np.empty(1), 0)  # it asks about its call when the other has left that one behind
    try:
        for _ in range(apart.calls):
            if apart.both:
                scatter(comm, int(comm.rank == 1))
            else:
                comm.broadcast(np.ones(64 + (comm.rank == 1)), 0, algorithm="direct", chunks=1)
        if comm.rank == 0 and not apart.both:
            beside.send(np.ones(1), 1)
        sums(comm)
    except lanecast.TransportError as error:
        text = str(error)
    assert re.search(apart.words, text), f"rank {comm.rank}: {text!r}"


def send_another_length(comm: Communicator, count: int) -> str:
    """Rank 1 has `count` elements for rank 0, which expects three, and they know it only for themselves; the error."""
    rows = [count if (comm.rank, to) == (1, 0) else 3 for to in range(comm.size)]
    try:
        comm.all_to_all_single(np.empty(3 * comm.size), np.ones(sum(rows)), [3] * comm.size, rows)
        comm.barrier()
    except lanecast.TransportError as error:
        return str(error)
    return "both calls returned"


OTHER_LENGTHS = (2, 4)
OTHER_LENGTH = r"\b24\b.*; found in call 1 of rank 0 and of rank 1, all_to_all of own counts float64, "


def main() -> None:
    # Rank 1 waits while rank 0 makes 2,100 calls, each of which may wait for a time slice of every other program.
    comm = lanecast.init(transports=sys.argv[1], timeout_s=180)
    for count in OTHER_LENGTHS:
        child = comm.split(0)
        assert child is not None
        said = send_another_length(child, count)
        assert re.search(OTHER_LENGTH, said), said
    if sys.argv[1] == "mpi":
        for name in APART:
            provoke_apart(comm, name)
            os.write(1, f"{name} is told\n".encode())
    for name in ODD_CALLS | ODD_NATIVE_CALLS:
        child = comm.split(0)
        assert child is not None
        provoke(child, name)
        os.write(1, f"{name} is told\n".encode())  # in one piece, whatever the others print
        comm.all_reduce(np.ones(3))  # the others are unharmed


if __name__ == "__main__":
    main()
