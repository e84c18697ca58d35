# SPDX-License-Identifier: Apache-2.0
"""Networks of emulated NICs for tests: one with a rate and hosts that a test needs lives as long as its worker."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Mapping
from pathlib import Path

import pytest

from lanecast import _core
from lanecast.cluster.gpu_nics import Network, parse
from ranks import Rank

HOST = "node"


@functools.cache
def _network(nics: str, hosts: int, nics_of_host: int, environment: tuple[tuple[str, str], ...]) -> Network:
    network = Network(parse(nics), [f"{HOST}{index}" for index in range(hosts)], nics_of_host)
    atexit.register(network.stop)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment:
            patch.setenv(name, value)
        network.start()
    return network


def network(nics: str, hosts: int = 1, nics_of_host: int = 8, environment: Mapping[str, str] | None = None) -> Network:
    """Its NIC processes see these variables; by default no GPU."""
    return _network(nics, hosts, nics_of_host, tuple(sorted((environment or {}).items())))


def host_of(rank: int, network: Network) -> str:
    return network.hosts[rank // network.nics_of_host]


def open_emulated(folder: Path, me: Rank) -> _core.Transport:
    """All ranks on the first host, which has a NIC for each: between them the wire is the same."""
    return _core.open_emulated(me.rank, me.size, me.all_gather, str(folder), f"{HOST}0")
