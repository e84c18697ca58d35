# SPDX-License-Identifier: Apache-2.0
"""Ranks as threads: what the conformance suite cannot ask of every transport."""

from __future__ import annotations

import pytest

from lanecast import _core
from ranks import Rank, in_threads
from transport_endpoint import Endpoint, Item


def test_channels_are_apart() -> None:
    def main(me: Rank) -> None:
        assert me.world is not None
        first, second = (Endpoint(_core.open_loopback(me.world, me.rank, channel), me) for channel in (0, 2**63))
        peer = 1 - me.rank
        first.send(peer, Item(1, 1, 1000))
        second.send(peer, Item(1, 2, 1000))
        second.receive(peer, Item(1, 2, 1000))
        second.wait()
        me.barrier()
        first.transport.abort()
        me.barrier()
        assert first.transport.lost(peer)
        assert not second.transport.lost(peer)
        me.barrier()

    in_threads(2, main)


def test_a_rank_has_one_transport_per_channel() -> None:
    world = _core.make_world(1)
    first = _core.open_loopback(world, 0)
    with pytest.raises(_core.UsageError, match="already has a transport"):
        _core.open_loopback(world, 0)
    first.close()


def test_ranks_outside_the_world() -> None:
    world = _core.make_world(2)
    with pytest.raises(_core.UsageError, match="rank 2 is outside"):
        _core.open_loopback(world, 2)
    with pytest.raises(_core.UsageError, match="at least one rank"):
        _core.make_world(0)


def test_a_missing_rank_ends_the_bootstrap() -> None:
    world = _core.make_world(3, deadline_s=0.05)
    with pytest.raises(_core.TransportError, match=r"rank 1 waited 50 ms .* rank\(s\) 0, 2"):
        _core.world_all_gather(world, 1, b"here")
    with pytest.raises(_core.TransportError, match=r"rank 1 waited 50 ms"):
        _core.world_all_gather(world, 0, b"late")


def test_different_bootstrap_calls_are_named() -> None:
    def main(me: Rank) -> None:
        with pytest.raises(_core.TransportError, match="different calls"):
            me.all_gather(b"." * (1 + me.rank))

    in_threads(2, main)
