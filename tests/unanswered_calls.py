# SPDX-License-Identifier: Apache-2.0
"""Calls in which a rank waits for what its peer never gives, and legal ones that look alike, for tests over every
transport; as a program, one rank of a job under mpiexec."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import lanecast
from lanecast import Communicator, P2POp
from lanecast.bound import KIND, SUM, Bound
from lanecast.buffers import as_buffer

Call = Callable[[Communicator], object]
LARGE = 1 << 18  # elements: more than any transport sends before its receiver has asked
SMALL, MANY = 256, 2000  # elements that are sent before anyone asks, and more such messages than a ring holds
A_WHILE_S = 0.25  # longer than a rank waits before it asks, and before it is sure


def sums(comm: Communicator) -> None:
    comm.all_reduce(np.ones(64), algorithm="ring", chunks=1)


def sums_at_once(comm: Communicator) -> None:
    comm.all_reduce(np.ones(64), algorithm="one_shot", chunks=1)


def mpi_sums(comm: Communicator) -> None:
    comm.all_reduce(np.ones(64), algorithm="mpi", chunks=1)


def barrier(comm: Communicator) -> None:
    comm.barrier()


def large_broadcast(comm: Communicator) -> None:
    comm.broadcast(np.ones(LARGE), 1)


def exchange(comm: Communicator, gives: int, expects: int, algorithm: str = "") -> None:
    """Rank 1 has `gives` elements for rank 0, which expects `expects`; all others exchange 3."""
    sends = [gives if (comm.rank, to) == (1, 0) else 3 for to in range(comm.size)]
    receives = [expects if (comm.rank, of) == (0, 1) else 3 for of in range(comm.size)]
    comm.all_to_all_single(np.empty(sum(receives)), np.ones(sum(sends)), receives, sends, algorithm=algorithm)


def gather(comm: Communicator, gives: int, expects: int) -> None:
    receives = [expects if of == 1 else 3 for of in range(comm.size)] if comm.rank == 0 else []
    call_with_own_counts(comm, "gather", [gives if comm.rank == 1 else 3], receives)


def scatter(comm: Communicator, gives: int, expects: int) -> None:
    sends = [gives if to == 1 else 3 for to in range(comm.size)] if comm.rank == 0 else []
    call_with_own_counts(comm, "scatter", sends, [expects if comm.rank == 1 else 3])


def call_with_own_counts(comm: Communicator, kind: str, sends: list[int], receives: list[int]) -> None:
    source = as_buffer(np.ones(sum(sends)), "input", comm.rank, written=False)
    target = as_buffer(np.empty(sum(receives)), "output", comm.rank, written=True)
    call = Bound(KIND[kind], source.view, target.view, source.dtype, SUM, 0, (), "", 0, 0, sends, receives)
    comm._core.run(*call)


def recv(comm: Communicator) -> None:
    comm.recv(np.empty(2), 1, tag=7)


def large_send(comm: Communicator) -> None:
    comm.send(np.ones(LARGE), 1, tag=7)


def group(comm: Communicator) -> None:
    last = comm.size - 1
    parts = [P2POp(comm.irecv, np.empty(2), peer, tag=7) for peer in (last, 1)]
    comm.batch_send_recv([*parts, P2POp(comm.isend, np.ones(LARGE), last, tag=7)])


def recv_of_next(comm: Communicator) -> None:
    """Around all ranks: none sends before it has received."""
    comm.recv(np.empty(2), (comm.rank + 1) % comm.size, tag=7)


def recv_under_own_tag(comm: Communicator) -> None:
    """Ranks 0 and 1 wait for each other, and all others for rank 0."""
    comm.recv(np.empty(2), 0 if comm.rank else 1, tag=comm.rank)


def large_send_to_next(comm: Communicator) -> None:
    """Around all ranks: none receives before it has sent."""
    comm.send(np.ones(LARGE), (comm.rank + 1) % comm.size, tag=7)


def large_send_or_recv(comm: Communicator) -> None:
    """Around all ranks: each second one sends, and the one it sends to waits for the next."""
    if comm.rank % 2:
        comm.recv(np.empty(2), (comm.rank + 1) % comm.size, tag=comm.rank)
    else:
        comm.send(np.ones(LARGE), (comm.rank + 1) % comm.size, tag=comm.rank)


def large_send_before_recv(comm: Communicator) -> None:
    """Ranks 0 and 1 each send first, and all others send to rank 0."""
    comm.send(np.ones(LARGE), 0 if comm.rank else 1, tag=comm.rank)


def split(comm: Communicator) -> None:
    comm.split(0)


@dataclass(frozen=True)
class Unanswered:
    """Each rank makes these calls, rank 0 the first list; and what every rank is to hear of."""

    zero: list[Call]
    others: list[Call]
    says: str


OWN = "of own counts float64.*"
# Where the transport sees that a message belongs to another call, the next call's comes in place of the missing one.
LATER = "|own counts in one before that did not agree"


def unequal(call: Callable[..., None], gives: int, expects: int, says: str) -> Unanswered:
    calls: list[Call] = [lambda comm: call(comm, gives, expects), sums]
    return Unanswered(calls, calls, f"call 1 of this communicator differs between ranks: {says}{LATER}")


def alone(
    call: Call, says: str, others: Call = sums, theirs: str = "all_reduce of 64 float64, sum, by ring"
) -> Unanswered:
    """Rank 0 exchanges messages with others that are in a collective."""
    said = f"different calls, and neither can end: rank 0 calls {says} .before its call 1.; rank . calls {theirs}"
    return Unanswered([call], [others, sums], said)  # who has done its part hears of it in the next call


TAKES_3 = f"{OWN} and expects 3 elements from rank 1; rank 1 calls .* and sends 0 elements to rank 0"
TAKES_0 = f"{OWN} and expects 0 elements from rank 1; rank 1 calls .* and sends {LARGE} elements to rank 0"
CIRCLE = "the ranks wait for each other's messages, and none can end: rank . for rank .*; "
RECV = "recv of 16 bytes from rank 1, tag 7"
UNANSWERED = {
    "all_to_all_takes": unequal(exchange, 0, 3, f"rank 0 calls all_to_all {TAKES_3}"),
    "all_to_all_gives": unequal(exchange, LARGE, 0, f"rank 0 calls all_to_all {TAKES_0}"),
    "gather_takes": unequal(gather, 0, 3, f"rank 0 calls gather {TAKES_3}"),
    "gather_gives": unequal(gather, LARGE, 0, f"rank 0 calls gather {TAKES_0}"),
    "scatter_takes": unequal(scatter, 0, 3, f"rank 0 calls scatter {OWN} and sends 0 elements to rank 1; rank 1 calls"),
    "recv": alone(recv, RECV),
    "recv_one_shot": alone(recv, RECV, sums_at_once, "all_reduce of 64 float64, sum, by one_shot"),
    "recv_barrier": alone(recv, RECV, barrier, "barrier, by"),
    "recv_broadcast": alone(recv, RECV, large_broadcast, f"(broadcast of {LARGE} float64, root 1|all_reduce)"),
    "send": alone(large_send, f"send of {8 * LARGE} bytes to rank 1, tag 7"),
    "group": alone(group, "recv of 16 bytes from rank ., tag 7"),
    "recv_split": alone(recv, RECV, split, "split .call 1"),
    "split": Unanswered(
        [split], [sums], "call 1 of this communicator differs between ranks: rank 0 calls split; rank . calls all_red"
    ),
    "circle": Unanswered([recv_of_next], [recv_of_next], f"{CIRCLE}rank . calls recv of 16 bytes from rank ., tag 7"),
    "circle_of_two": Unanswered(
        [recv_under_own_tag],
        [recv_under_own_tag],
        f"{CIRCLE}rank 0 calls recv of 16 bytes from rank 1, tag 0.*; rank 1 calls recv of 16 bytes from rank 0, tag 1",
    ),
    "circle_of_sends": Unanswered(
        [large_send_to_next], [large_send_to_next], f"{CIRCLE}rank . calls send of {8 * LARGE} bytes to rank ., tag 7"
    ),
    "circle_of_both": Unanswered(
        [large_send_or_recv], [large_send_or_recv], f"{CIRCLE}rank . calls (send of {8 * LARGE} bytes to|recv of 16)"
    ),
    "circle_of_two_sends": Unanswered(
        [large_send_before_recv],
        [large_send_before_recv],
        f"{CIRCLE}rank 0 calls send of {8 * LARGE} bytes to rank 1, tag 0.*; rank 1 calls send of .* to rank 0, tag 1",
    ),
    "one_more": Unanswered(
        [sums, recv], [sums, sums], f"rank 0 calls {RECV} .before its call 2.; rank 1 calls all_reduce .*call 2 of this"
    ),
}  # fmt: skip
UNANSWERED_NATIVE = {
    "mpi_all_to_all": unequal(
        lambda comm, gives, expects: exchange(comm, gives, expects, "mpi"),
        0,
        3,
        f"rank 0 calls all_to_all {TAKES_3}",
    ),
    "mpi_recv": alone(recv, RECV, mpi_sums, "all_reduce of 64 float64, sum, by mpi"),
}


def provoke(comm: Communicator, name: str) -> None:
    """Makes the calls and checks the error, which at the deadline would be another."""
    case = (UNANSWERED | UNANSWERED_NATIVE)[name]
    text = ""
    try:
        for call in case.zero if comm.rank == 0 else case.others:
            call(comm)
    except lanecast.TransportError as error:
        text = str(error)
    assert re.search(case.says, text), f"{name}: rank {comm.rank}: {text!r}"


def nothing_at_all(comm: Communicator) -> None:
    """Zero elements everywhere, and for some: no message, and nobody waits."""
    zeros = [0] * comm.size
    comm.all_to_all_single(np.empty(0), np.empty(0), zeros, zeros)
    call_with_own_counts(comm, "gather", [0], zeros if comm.rank == 0 else [])
    call_with_own_counts(comm, "scatter", zeros if comm.rank == 0 else [], [0])
    sends = [to % 2 * (comm.rank + 1) for to in range(comm.size)]
    receives = [comm.rank % 2 * (of + 1) for of in range(comm.size)]
    out = np.empty(sum(receives))
    comm.all_to_all_single(out, np.full(sum(sends), comm.rank + 1.0), receives, sends)
    assert out.tolist() == [of + 1.0 for of in range(comm.size) for _ in range(receives[of])]


def sends_before_a_sum(comm: Communicator) -> None:
    """The message that rank 0 waits for is under way while its sender waits for rank 0."""
    got = np.empty(LARGE)
    if comm.rank == 0:
        time.sleep(A_WHILE_S)
        comm.recv(got, 1, tag=7)
        assert (got == np.arange(LARGE)).all()
    work = comm.isend(np.arange(LARGE, dtype=float), 0, tag=7) if comm.rank == 1 else None
    sums(comm)
    if work:
        work.wait()


def sends_during_a_sum(comm: Communicator) -> None:
    """A rank whose collective has been started may still send."""
    got = np.empty(2)
    if comm.rank == 0:
        comm.recv(got, 1, tag=7)
        assert got.tolist() == [1.0, 2.0]
    tensor = np.full(64, comm.rank + 1.0)
    work = comm.all_reduce(tensor, async_op=True)
    if comm.rank == 1:
        time.sleep(A_WHILE_S)
        comm.send(np.array([1.0, 2.0]), 0, tag=7)
    assert work is not None
    work.wait()
    assert (tensor == comm.size * (comm.size + 1) / 2).all()


def receives_during_a_sum(comm: Communicator) -> None:
    """A receive that nobody waits for yet keeps no rank from the next collective."""
    got = np.empty(2)
    work = comm.irecv(got, 1, tag=7) if comm.rank == 0 else None
    time.sleep(A_WHILE_S if comm.rank == 0 else 0)
    sums(comm)
    if comm.rank == 1:
        comm.send(np.array([1.0, 2.0]), 0, tag=7)
    if work:
        work.wait()
        assert got.tolist() == [1.0, 2.0]


def sends_after_a_broadcast(comm: Communicator) -> None:
    """A root need not wait for its receivers, one of which waits for a message of its own first."""
    if comm.transports == "loopback":  # where nothing is sent before it is received
        return
    got = np.empty(2)
    if comm.rank == 0:
        comm.recv(got, 1, tag=7)
        assert got.tolist() == [1.0, 2.0]
    tensor = np.arange(4.0) + 1 if comm.rank == 1 else np.empty(4)
    time.sleep(A_WHILE_S if comm.rank == 1 else 0)
    comm.broadcast(tensor, 1, algorithm="direct")
    if comm.rank == 1:
        comm.send(np.array([1.0, 2.0]), 0, tag=7)
    assert tensor.tolist() == [1.0, 2.0, 3.0, 4.0]


def sends_more_than_fits(comm: Communicator) -> None:
    """Small sends that wait for room end when their receiver takes them in a collective, before it receives them."""
    if comm.transports == "loopback":  # as above
        return
    if comm.rank == 0:
        for turn in range(MANY):
            comm.send(np.full(SMALL, float(turn)), 1, tag=7)
    time.sleep(A_WHILE_S if comm.rank < 2 else 0)
    sums(comm)
    if comm.rank == 1:
        got = np.empty(SMALL)
        for turn in range(MANY):
            comm.recv(got, 0, tag=7)
            assert (got == turn).all()


def counts_each_peer_and_tag_alone(comm: Communicator) -> None:
    """Messages of another rank under other tags count for nothing between two."""
    if comm.size < 3:
        return
    got = np.empty(2)
    for tag in range(4):
        if comm.rank == 2:
            comm.send(np.full(2, tag + 0.5), 0, tag=tag)
        elif comm.rank == 0:
            comm.recv(got, 2, tag=tag)
            assert got.tolist() == [tag + 0.5] * 2
    if comm.rank == 0:
        comm.recv(got, 1, tag=2)
        assert got.tolist() == [1.0, 2.0]
    elif comm.rank == 1:
        time.sleep(A_WHILE_S)
        comm.send(np.array([1.0, 2.0]), 0, tag=2)
    time.sleep(A_WHILE_S if comm.rank == 0 else 0)
    sums(comm)


def passes_late_messages_on(comm: Communicator) -> None:
    """Waits among several, one after the other, with collectives in between."""
    for turn in range(3):
        token = np.array([comm.rank + 10.0 * turn])
        if comm.rank > 0:
            comm.recv(token, comm.rank - 1, tag=turn)
            assert token.tolist() == [comm.rank - 1 + 10.0 * turn]
        time.sleep(A_WHILE_S / 2)
        if comm.rank + 1 < comm.size:
            comm.send(np.array([comm.rank + 10.0 * turn]), comm.rank + 1, tag=turn)
        sums(comm)


def sends_before_receiving(comm: Communicator) -> None:
    """In a row whose last receiver is late: each sends to the next one first. And around, as few as fit."""
    previous, following = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    around = comm.transports != "loopback"  # as above
    for size, many, closed in ((LARGE, 1, False), (SMALL, MANY, False), (SMALL, 8, around)):
        got = np.empty(size)
        time.sleep(2 * A_WHILE_S if following == 0 else 0)
        for turn in range(many if closed or following > 0 else 0):
            comm.send(np.full(size, float(turn)), following, tag=7)
        for turn in range(many if closed or comm.rank > 0 else 0):
            comm.recv(got, previous, tag=7)
            assert (got == turn).all()


LEGAL = (
    sends_before_a_sum,
    sends_during_a_sum,
    receives_during_a_sum,
    sends_after_a_broadcast,
    sends_more_than_fits,
    counts_each_peer_and_tag_alone,
    passes_late_messages_on,
    sends_before_receiving,
    nothing_at_all,
)


def run_legal(comm: Communicator) -> None:
    for calls in LEGAL:
        if comm.size > 1 or calls in (nothing_at_all, passes_late_messages_on):
            calls(comm)


def main() -> None:
    comm = lanecast.init(transports=sys.argv[1], timeout_s=60)
    names = [*UNANSWERED, *(UNANSWERED_NATIVE if sys.argv[1] == "mpi" else ())]
    for name in sys.argv[2:] or names:
        child = comm.split(0)
        assert child is not None
        provoke(child, name)
        os.write(1, f"{name} ended as it should\n".encode())  # in one piece, whatever the others print
        sums(comm)  # unharmed
    run_legal(comm)


if __name__ == "__main__":
    main()
