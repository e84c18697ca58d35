# SPDX-License-Identifier: Apache-2.0
"""The conformance suite: every transport passes every scenario. A new transport is one more row of KINDS."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import emulated_network
import transport_scenarios as scenarios
from lanecast import _core
from ranks import Rank, RankMain, in_processes, in_threads, under_mpiexec
from transport_endpoint import Endpoint

Scenario = Callable[[Endpoint], None]


def open_loopback(me: Rank) -> _core.Transport:
    assert me.world is not None
    return _core.open_loopback(me.world, me.rank)


def open_shm(me: Rank, **options: int) -> _core.Transport:
    return _core.open_shm(me.rank, me.size, me.all_gather, list(range(me.size)), options)


def open_ucx(me: Rank) -> _core.Transport:
    return _core.open_ucx(me.rank, me.size, me.all_gather)


def open_emulated(me: Rank) -> _core.Transport:
    return emulated_network.open_emulated(Path(os.environ["LANECAST_GPU_NICS"]), me)


def in_emulated_network(size: int, main: RankMain) -> None:
    folder = emulated_network.network("10GBps,10us").folder
    in_processes(size, functools.partial(_in_network, str(folder), main))


def _in_network(folder: str, main: RankMain, me: Rank) -> None:
    os.environ["LANECAST_GPU_NICS"] = folder
    main(me)


def open_mpi(me: Rank) -> _core.Transport:
    assert me.mpi is not None
    return _core.open_mpi(me.mpi)


@dataclass(frozen=True)
class Kind:
    start: Callable[..., object]  # (size, function of a Rank)
    open: Callable[[Rank], _core.Transport]
    sizes: tuple[int, ...] = (1, 2, 3, 7)
    long_sizes: tuple[int, ...] = ()  # which take longer than they are likely to show
    knows_lost_peers: bool = True
    one_job: bool = False  # starting one takes longer than all that is tried in it


KINDS = {
    "loopback": Kind(in_threads, open_loopback, long_sizes=(4,)),
    "shm": Kind(in_processes, open_shm, long_sizes=(4,)),
    # These two differ in how two ranks copy, so what many ranks show, shm shows.
    "shm-streams": Kind(in_processes, functools.partial(open_shm, single_copy=0), sizes=(2, 3), long_sizes=(7,)),
    "shm-far": Kind(in_processes, functools.partial(open_shm, all_far=1), sizes=(2, 3), long_sizes=(7,)),
    "shm-single-copy": Kind(in_processes, functools.partial(open_shm, single_copy=1), sizes=(2, 3), long_sizes=(7,)),
    # As with 64 ranks on a host: rings that are always full, fragments that never fit twice.
    "shm-smallest": Kind(
        in_processes, functools.partial(open_shm, ring_bytes=16384, fragment_bytes=4096), sizes=(2, 3, 7)
    ),
    "mpi": Kind(under_mpiexec, open_mpi, sizes=(2, 3), knows_lost_peers=False, one_job=True),
    "ucx": Kind(in_processes, open_ucx, sizes=(1, 2, 3)),
    "emulated": Kind(in_emulated_network, open_emulated, sizes=(1, 2, 3), long_sizes=(7,)),
}


def _rank_main(open_transport: Callable[[Rank], _core.Transport], tried: tuple[Scenario, ...], me: Rank) -> None:
    for scenario in tried:
        transport = open_transport(me)
        try:
            scenario(Endpoint(transport, me))
            me.barrier()
        finally:
            transport.close()


def run(kind: str, size: int, *tried: Scenario) -> None:
    KINDS[kind].start(size, functools.partial(_rank_main, KINDS[kind].open, tried))


def rows() -> Iterator[Any]:
    for name, kind in KINDS.items():
        for size in (*kind.sizes, *kind.long_sizes):
            marks = [pytest.mark.long] if size in kind.long_sizes else []
            if kind.one_job:
                yield pytest.param(name, size, scenarios.EVERY_TRANSPORT, marks=marks, id=f"{name}-{size}")
                continue
            for each in scenarios.EVERY_TRANSPORT:
                yield pytest.param(name, size, (each,), marks=marks, id=f"{name}-{size}-{each.__name__}")


@pytest.mark.parametrize(("kind", "size", "tried"), [*rows()])
def test_messages(kind: str, size: int, tried: tuple[Scenario, ...]) -> None:
    run(kind, size, *tried)


@pytest.mark.parametrize("scenario", scenarios.OF_THREE, ids=lambda s: s.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_messages_among_three(kind: str, scenario: Scenario) -> None:
    run(kind, 3, scenario)


@pytest.mark.parametrize("scenario", scenarios.MISMATCHES, ids=lambda s: s.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_unequal_sizes_are_named(kind: str, scenario: Scenario) -> None:
    run(kind, 2, scenario)


@pytest.mark.parametrize("scenario", scenarios.DEPARTURES, ids=lambda s: s.__name__)
@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.knows_lost_peers])
def test_departures_are_noticed(kind: str, scenario: Scenario) -> None:
    run(kind, 3, scenario)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scenario", scenarios.EXTREMES, ids=lambda s: s.__name__)
@pytest.mark.parametrize("kind", [name for name in KINDS if name != "shm-smallest"])
def test_extremes(kind: str, scenario: Scenario) -> None:
    run(kind, 2, scenario)
