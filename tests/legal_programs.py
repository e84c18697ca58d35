# SPDX-License-Identifier: Apache-2.0
"""Random programs that can end, for tests that none of them is taken for one that cannot. As a program, one rank of a
job under mpiexec: transports, first seed, number of programs.

Each is made along one order of events in which every message and collective finds its ranks free, also where nothing
is sent before it is received. The exceptions are small messages, made only where the transport takes them early: around
several ranks, each of which sends before it receives, and before one that is received first.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import lanecast
from lanecast import Communicator, P2POp

_EVENTS = 12
_SIZES = (0, 2, 300, 1 << 17)  # elements; the last ones are sent by no transport before their receiver has asked
_TAGS = 3
_AROUND = 8  # messages at a time, for which there is room before anyone takes them
_MANY = 3000  # for which there may be none
# A rank looks around every 20 ms, and some things have to last a while: five looks of two ranks.
_PAUSES_S = (*3 * (0.0, 0.0, 0.0, 0.03, 0.15), 0.4)


class Rank:
    """One rank at work: its communicator, and what it has started."""

    def __init__(self, comm: Communicator) -> None:
        self.comm = comm
        self.works: dict[int, Any] = {}


Op = Callable[[Rank], None]


def send(peer: int, tag: int, size: int, value: float) -> Op:
    def op(rank: Rank) -> None:
        rank.comm.send(np.full(size, value), peer, tag=tag)

    return op


def recv(peer: int, tag: int, size: int, value: float) -> Op:
    def op(rank: Rank) -> None:
        got = np.zeros(size)
        rank.comm.recv(got, peer, tag=tag)
        assert (got == value).all()

    return op


def isend(number: int, peer: int, tag: int, size: int, value: float) -> Op:
    def op(rank: Rank) -> None:
        rank.works[number] = rank.comm.isend(np.full(size, value), peer, tag=tag), None, 0.0

    return op


def irecv(number: int, peer: int, tag: int, size: int, value: float) -> Op:
    def op(rank: Rank) -> None:
        got = np.zeros(size)
        rank.works[number] = rank.comm.irecv(got, peer, tag=tag), got, value

    return op


def start(number: int, ranks: int) -> Op:
    def op(rank: Rank) -> None:
        tensor = np.ones(16)
        rank.works[number] = rank.comm.all_reduce(tensor, async_op=True), tensor, ranks

    return op


def wait(number: int) -> Op:
    def op(rank: Rank) -> None:
        work, got, value = rank.works.pop(number)
        work.wait()
        assert got is None or (got == value).all()

    return op


def collective(which: int, root: int) -> Op:
    def op(rank: Rank) -> None:
        comm = rank.comm
        tensor = np.full(64, float(comm.rank))
        if which == 0:
            comm.all_reduce(tensor)
            assert (tensor == comm.size * (comm.size - 1) / 2).all()
        elif which == 1:
            comm.broadcast(tensor, root)
            assert (tensor == root).all()
        elif which == 2:
            comm.barrier()
        else:
            child = comm.split(comm.rank % 2, -comm.rank)
            assert child is not None
            child.barrier()

    return op


def exchange(peers: list[int], tag: int, size: int) -> Op:
    def op(rank: Rank) -> None:
        got = [np.zeros(size) for _ in peers]
        parts = [P2POp("irecv", into, peer, tag=tag) for into, peer in zip(got, peers, strict=True)]
        mine = np.full(size, float(rank.comm.rank))
        rank.comm.batch_send_recv([*parts, *(P2POp("isend", mine, peer, tag=tag) for peer in peers)])
        assert all((into == peer).all() for into, peer in zip(got, peers, strict=True))

    return op


def pass_around(ranks: list[int], tag: int, size: int) -> Op:
    """In the order of `ranks`, each of which sends to the next one."""

    def op(rank: Rank) -> None:
        place = ranks.index(rank.comm.rank)
        for k in range(_AROUND):
            rank.comm.send(np.full(size, rank.comm.rank + k / _AROUND), ranks[(place + 1) % len(ranks)], tag=tag)
        for k in range(_AROUND):
            got = np.zeros(size)
            rank.comm.recv(got, ranks[place - 1], tag=tag)
            assert (got == ranks[place - 1] + k / _AROUND).all()

    return op


def send_many(peer: int, tag: int, size: int) -> Op:
    def op(rank: Rank) -> None:
        for k in range(_MANY):
            rank.comm.send(np.full(size, float(k)), peer, tag=tag)
        rank.comm.send(np.full(size, 0.5), peer, tag=tag + 1)

    return op


def recv_last_first(peer: int, tag: int, size: int) -> Op:
    def op(rank: Rank) -> None:
        got = np.zeros(size)
        rank.comm.recv(got, peer, tag=tag + 1)
        assert (got == 0.5).all()
        for k in range(_MANY):
            rank.comm.recv(got, peer, tag=tag)
            assert (got == k).all()

    return op


def pause(seconds: float) -> Op:
    return lambda _: time.sleep(seconds)


class Schedule:
    """What each rank does; early: the transport takes small messages before they are received."""

    def __init__(self, seed: int, size: int, *, early: bool) -> None:
        self.early = early
        self.chance = random.Random(seed)
        self.ranks: list[list[Op]] = [[] for _ in range(size)]
        # What is left to do, by which rank, of each thing that has been started.
        self.owed: list[list[tuple[int, Op]]] = []
        for number in range(_EVENTS):
            for program in self.ranks:
                if seconds := self.chance.choice(_PAUSES_S):
                    program.append(pause(seconds))
            (self.between if self.chance.random() < 0.5 else self.among_all)(number)
            if self.owed and self.chance.random() < 0.2:
                self.settle(self.chance.randrange(len(self.owed)))
        self.settle_all()

    def between(self, number: int) -> None:
        """A message, maybe started, and then under a tag of its own since others overtake it."""
        how = self.chance.randrange(5 if self.early else 4)
        one, other = self.chance.sample(range(len(self.ranks)), 2)
        tag = self.chance.randrange(_TAGS) if how in {2, 3} else _TAGS + 2 * number
        message = (tag, self.chance.choice(_SIZES), number + 1.0)
        if how == 0:
            self.ranks[one].append(isend(number, other, *message))
            self.owed.append([(other, recv(one, *message)), (one, wait(number))])
        elif how == 1:
            self.ranks[one].append(irecv(number, other, *message))
            self.owed.append([(other, send(one, *message)), (one, wait(number))])
        elif how == 4:
            self.ranks[one].append(send_many(other, tag, _SIZES[2]))
            self.ranks[other].append(recv_last_first(one, tag, _SIZES[2]))
        else:
            self.ranks[one].append(send(other, *message))
            self.ranks[other].append(recv(one, *message))

    def among_all(self, number: int) -> None:
        size = len(self.ranks)
        how = self.chance.randrange(5 if self.early else 4)
        if how == 0:
            for program in self.ranks:
                program.append(start(number, size))
            self.owed.append([(rank, wait(number)) for rank in self.chance.sample(range(size), size)])
        elif how == 1:
            members = self.chance.sample(range(size), self.chance.randrange(2, size + 1))
            tag, elements = self.chance.randrange(_TAGS), self.chance.choice(_SIZES)
            for rank in members:
                self.ranks[rank].append(exchange([peer for peer in members if peer != rank], tag, elements))
        elif how == 4:
            members = self.chance.sample(range(size), self.chance.randrange(2, size + 1))
            tag, elements = self.chance.randrange(_TAGS), self.chance.choice(_SIZES[:-1])
            for rank in members:
                self.ranks[rank].append(pass_around(members, tag, elements))
        else:
            which, root = self.chance.randrange(4), self.chance.randrange(size)
            if which == 3:  # a split takes no started calls
                self.settle_all()
            for program in self.ranks:
                program.append(collective(which, root))

    def settle(self, which: int) -> None:
        for rank, op in self.owed.pop(which):
            self.ranks[rank].append(op)

    def settle_all(self) -> None:
        while self.owed:
            self.settle(0)


def run(comm: Communicator, seed: int) -> None:
    rank = Rank(comm)
    for op in Schedule(seed, comm.size, early=comm.transports != "loopback").ranks[comm.rank]:
        op(rank)


def run_some(comm: Communicator, first: int, count: int) -> None:
    for seed in range(first, first + count):
        try:
            run(comm, seed)
        except lanecast.Error as error:
            raise AssertionError(f"seed {seed}: {error}") from error


if __name__ == "__main__":
    run_some(lanecast.init(transports=sys.argv[1], timeout_s=60), int(sys.argv[2]), int(sys.argv[3]))
