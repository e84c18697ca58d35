# SPDX-License-Identifier: Apache-2.0
"""Measures what the links between and within nodes carry while nothing else runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from lanecast.bench import network
from lanecast.bench.hiccl.bounds import Limits
from lanecast.bench.measure import Bench
from lanecast.communicator import Communicator
from lanecast.point_to_point import P2POp

MESSAGE_BYTES = {False: 4 << 20, True: 64 << 20}  # by device.queues: on a GPU a launch must not count
_MESSAGES = 4  # each way, of which the best counts

Make = Callable[[int], Any]  # memory of so many bytes


def _on_host(size_bytes: int) -> Any:
    return np.zeros(size_bytes, np.uint8)


class Links:
    """Those of the ranks' nodes; without a level of nodes all ranks are on one."""

    def __init__(self, bench: Bench) -> None:
        """Collective."""
        self._bench, self._comm = bench, bench.ranks.comm
        everyone = list(range(self._comm.size))
        self._nodes = self._comm.topology.partition(everyone, 0) if self._comm.topology.levels else [everyone]
        self._mine = next(node for node in self._nodes if self._comm.rank in node)
        self._place = self._mine.index(self._comm.rank)
        on_gpus = bench.ranks.device.queues
        self._message_bytes = MESSAGE_BYTES[on_gpus]
        # GPUs' messages go among the ranks of one host; between hosts they would pass through the hosts' memory anyhow.
        self._by_gpus = on_gpus and self._comm._core.hosts == 1
        # Who reaches the ranks of this node, and their numbers there.
        self._neighbours: tuple[Communicator, list[int]] = self._comm, self._mine
        if on_gpus and not self._by_gpus:
            own = self._comm.split(min(self._mine))
            assert own is not None, "no color is negative"
            self._neighbours = own, list(range(own.size))

    def measure(self) -> Limits:
        """Between two nodes one way and both ways, and between neighbours of all nodes; collective.

        Between hosts by plain TCP streams where the NICs are known, else by messages of the communicator, every rank of
        a node to the rank at the same place of the other.
        """
        within = self._within() if len(self._mine) > 1 else None
        if len(self._nodes) == 1:
            return Limits(None, None, within)
        between = self._bench.network
        if between is not None:
            control = self._bench.ranks.control
            one_way = network.goodput(control, between, {0: 1})
            both_ways = network.goodput(control, between, {0: 1, 1: 0})
            return Limits(one_way, both_ways, within, "TCP streams through " + "+".join(between.nics))
        to = self._nodes[1][self._place] if self._mine is self._nodes[0] else None
        back = self._nodes[0][self._place] if self._mine is self._nodes[1] else None
        make = self._bench.ranks.plain if self._by_gpus else _on_host
        one_way = self._into_each(self._comm, make, to, back)
        peer = back if to is None else to
        both_ways = self._into_each(self._comm, make, peer, peer)
        by = "of GPUs" if self._by_gpus else f"of {self._comm.transports}"
        return Limits(len(self._mine) * one_way, len(self._mine) * both_ways, within, f"messages {by}")

    def _within(self) -> float:
        comm, numbers = self._neighbours
        after, before = numbers[(self._place + 1) % len(numbers)], numbers[self._place - 1]
        return self._into_each(comm, self._bench.ranks.plain, after, before)

    def _into_each(self, comm: Communicator, make: Make, to: int | None, source: int | None) -> float:
        """Bytes per second into each rank that receives while all do what they are told."""
        sent, received = make(self._message_bytes), make(self._message_bytes)
        messages = [P2POp("isend", sent, to)] if to is not None else []
        messages += [P2POp("irecv", received, source)] if source is not None else []
        call = partial(comm.batch_send_recv, messages) if messages else lambda: None
        times = [self._bench.ranks.timed(call, 1) for _ in range(1 + _MESSAGES)]  # the first one opens connections
        return self._message_bytes / min(each.device_us for each in times) * 1e6
