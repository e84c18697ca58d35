# SPDX-License-Identifier: Apache-2.0
"""Calls in which a rank waits for what its peer never gives, for tests over every transport; as a program, one rank of
a job under mpiexec."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import lanecast
from lanecast import Communicator, P2POp
from lanecast.bound import KIND, SUM, Bound
from lanecast.buffers import as_buffer

Case = Callable[[Communicator], Any]
LARGE = 1 << 20  # elements, more than any library sends before the receiver has asked


def sums(comm: Communicator) -> None:
    comm.all_reduce(np.ones(64), algorithm="ring", chunks=1)


def exchange(comm: Communicator, gives: int, expects: int, algorithm: str = "") -> None:
    """Rank 1 has `gives` elements for rank 0, which expects `expects`; all others exchange 3."""
    sends = [gives if (comm.rank, to) == (1, 0) else 3 for to in range(comm.size)]
    receives = [expects if (comm.rank, of) == (0, 1) else 3 for of in range(comm.size)]
    comm.all_to_all_single(np.empty(sum(receives)), np.ones(sum(sends)), receives, sends, algorithm=algorithm)


def own_gather(comm: Communicator, gives: int, expects: int) -> None:
    receives = [expects if of == 1 else 3 for of in range(comm.size)] if comm.rank == 0 else []
    mine = gives if comm.rank == 1 else 3
    _own(comm, "gather", [mine], receives)


def own_scatter(comm: Communicator, gives: int, expects: int) -> None:
    sends = [gives if to == 1 else 3 for to in range(comm.size)] if comm.rank == 0 else []
    _own(comm, "scatter", sends, [expects if comm.rank == 1 else 3])


def _own(comm: Communicator, kind: str, sends: list[int], receives: list[int]) -> None:
    source, target = np.ones(sum(sends)), np.empty(sum(receives))
    bound = Bound(
        KIND[kind], source, target, as_buffer(source, "source", comm.rank, written=False).dtype, SUM, 0, (), "", 0, 0,
        send_counts=sends, recv_counts=receives,
    )  # fmt: skip
    comm._make(bound, async_op=False)


def then(first: Case, second: Case) -> Case:
    def both(comm: Communicator) -> None:
        first(comm)
        second(comm)
    return both

def pick(rank, case, other):
    def body(comm):
        (case if comm.rank == rank else other)(comm)
    return body
nothing = lambda comm: time.sleep(7)
barrier = lambda comm: comm.barrier()
def bcast1(comm): comm.broadcast(np.ones(4), 1)
def recv1(comm, n=2): comm.recv(np.empty(n), 1, tag=7)
def group(comm):
    comm.batch_send_recv([P2POp(comm.irecv, np.empty(2), 1, tag=3), P2POp(comm.irecv, np.empty(2), comm.size - 1, tag=3), P2POp(comm.isend, np.empty(LARGE), 1, tag=3)])
CASES = {
  "a2a_0_3_sums": then(lambda c: exchange(c, 0, 3), sums),
  "a2a_0_3_barrier": then(lambda c: exchange(c, 0, 3), barrier),
  "a2a_0_3_bcast": then(lambda c: exchange(c, 0, 3), bcast1),
  "a2a_3_0_sums": then(lambda c: exchange(c, 3, 0), sums),
  "a2a_big_0_sums": then(lambda c: exchange(c, LARGE, 0), sums),
  "a2a_3_4_sums": then(lambda c: exchange(c, 3, 4), sums),
  "gather_0_3_sums": then(lambda c: own_gather(c, 0, 3), sums),
  "gather_3_0_sums": then(lambda c: own_gather(c, 3, 0), sums),
  "gather_big_0_sums": then(lambda c: own_gather(c, LARGE, 0), sums),
  "scatter_0_3_sums": then(lambda c: own_scatter(c, 0, 3), sums),
  "scatter_3_0_sums": then(lambda c: own_scatter(c, 3, 0), sums),
  "recv_sums": pick(0, recv1, sums),
  "recv_barrier": pick(0, recv1, barrier),
  "recv_bcast": pick(0, recv1, lambda c: c.broadcast(np.ones(4), 0)),
  "recv_tree": pick(0, recv1, lambda c: c.all_reduce(np.ones(64))),
  "send_sums": pick(0, lambda c: c.send(np.ones(LARGE), 1, tag=7), sums),
  "group_sums": pick(0, group, sums),
  "more_sleep": pick(1, sums, nothing),
  "more_recv": pick(1, sums, recv1),
  "more_del": pick(1, sums, lambda c: None),
}
NATIVE = {
  "native_a2a_0_3": then(lambda c: exchange(c, 0, 3, "native"), sums),
  "native_a2a_3_0": then(lambda c: exchange(c, 3, 0, "native"), sums),
  "native_recv_sums": pick(0, recv1, lambda c: c.all_reduce(np.ones(64), algorithm="native")),
}


def main() -> None:
    comm = lanecast.init(transports=sys.argv[1], timeout_s=float(sys.argv[2]))
    names = sys.argv[3:] or [*CASES, *(NATIVE if sys.argv[1] == "mpi" else {})]
    for name in names:
        child = comm.split(0)
        begin = time.monotonic()
        text = "returned"
        try:
            (CASES | NATIVE)[name](child)
        except lanecast.Error as error:
            text = f"{type(error).__name__}: {error}"
        took = time.monotonic() - begin
        if "--keep" not in sys.argv: del child
        os.write(1, f"{name} rank {comm.rank} {took:.3f} {text[:300]}\n".encode())
        if text == 'returned': time.sleep(max(0, begin + 0.6 * float(sys.argv[2]) - time.monotonic()))
        comm.all_reduce(np.ones(3))

if __name__ == "__main__":
    main()
