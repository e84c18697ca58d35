# SPDX-License-Identifier: Apache-2.0
"""Measures what the links between and within nodes carry while nothing else runs."""

from __future__ import annotations

from functools import partial

import numpy as np

from lanecast.bench import network
from lanecast.bench.hiccl.bounds import Limits
from lanecast.bench.measure import Bench
from lanecast.point_to_point import P2POp

_MESSAGE_BYTES = 4 << 20
_MESSAGES = 4  # each way, of which the best counts


def measure(bench: Bench) -> Limits:
    """Between two nodes one way and both ways, and between neighbours of all nodes; collective.

    Between hosts by plain TCP streams where the NICs are known, else by messages of the communicator, every rank of a
    node to the rank at the same place of the other.
    """
    comm = bench.ranks.comm
    everyone = list(range(comm.size))
    nodes = comm.topology.partition(everyone, 0) if comm.topology.levels else [everyone]
    mine = next(node for node in nodes if comm.rank in node)
    place = mine.index(comm.rank)
    within = _into_each(bench, mine[(place + 1) % len(mine)], mine[place - 1]) if len(mine) > 1 else None
    if len(nodes) == 1:
        return Limits(None, None, within)
    if bench.network is not None:
        one_way = network.goodput(comm, bench.network, {0: 1})
        both_ways = network.goodput(comm, bench.network, {0: 1, 1: 0})
        return Limits(one_way, both_ways, within, "TCP streams through " + "+".join(bench.network.nics))
    to = nodes[1][place] if mine is nodes[0] else None
    back = nodes[0][place] if mine is nodes[1] else None
    one_way = _into_each(bench, to, back)
    peer = back if to is None else to
    both_ways = _into_each(bench, peer, peer)
    return Limits(len(mine) * one_way, len(mine) * both_ways, within, "messages of " + comm.transports)


def _into_each(bench: Bench, to: int | None, source: int | None) -> float:
    """Bytes per second into each rank that receives while all do what they are told; collective."""
    sent, received = np.zeros(_MESSAGE_BYTES, np.uint8), np.zeros(_MESSAGE_BYTES, np.uint8)
    messages = [P2POp("isend", sent, to)] if to is not None else []
    messages += [P2POp("irecv", received, source)] if source is not None else []
    call = partial(bench.ranks.comm.batch_send_recv, messages) if messages else lambda: None
    times = [bench.ranks.timed(call, 1) for _ in range(1 + _MESSAGES)]  # the first one opens connections
    return _MESSAGE_BYTES / min(each.device_us for each in times) * 1e6
