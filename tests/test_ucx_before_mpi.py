# SPDX-License-Identifier: Apache-2.0
"""What carries messages between hosts under mpiexec, where nobody says it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

import lanecast
from ranks import Rank, under_mpiexec

ADAPTERS = [folder for folder in map(Path, ("/sys/class/infiniband", "/sys/class/cxi_user"))
            if folder.is_dir() and any(folder.iterdir())]  # fmt: skip
NICS = [nic for _, nic in socket.if_nameindex() if Path(f"/sys/class/net/{nic}/operstate").read_text().strip() == "up"]


def expect(transports: str, hosts: str) -> None:
    """Among ranks that take themselves for being on `hosts`, a letter each; rank 0 finds out what they took."""
    rank = int(os.environ["PMI_RANK"])
    os.environ["LANECAST_HOST"] = hosts[rank]
    if os.environ.pop("ODD_RANK", "") == str(rank):
        os.environ["LANECAST_UCX_LANES"] = "0"
    comm = lanecast.init()
    assert comm.transports == transports


def over_mpi(_: Rank) -> None:
    expect("mpi", "abc")


def over_ucx(_: Rank) -> None:
    expect("ucx", "abc")


def over_both(_: Rank) -> None:
    expect("shm+ucx", "aabb")


def on_one_host(_: Rank) -> None:
    expect("shm", "aaa")


@pytest.mark.skipif(bool(ADAPTERS), reason="an adapter of this machine goes before lanes over TCP")
def test_lanes_go_before_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANECAST_UCX_LANES", "1")
    under_mpiexec(3, over_ucx)
    under_mpiexec(4, over_both)
    under_mpiexec(3, on_one_host)


@pytest.mark.skipif(bool(ADAPTERS), reason="an adapter of this machine goes before lanes over TCP")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="lanes need a core beside the rank's")
@pytest.mark.skipif(not NICS, reason="no NIC here")
def test_named_nics_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    under_mpiexec(3, over_mpi)
    monkeypatch.setenv("UCX_NET_DEVICES", NICS[0])
    under_mpiexec(3, over_ucx)


def test_mpi_stays_where_any_rank_has_no_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANECAST_UCX_LANES", "0")
    under_mpiexec(3, over_mpi)
    monkeypatch.setenv("LANECAST_UCX_LANES", "1")
    monkeypatch.setenv("ODD_RANK", "2")
    under_mpiexec(3, over_mpi)


def test_mpi_stays_without_ucx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANECAST_UCX_LANES", "1")
    monkeypatch.setenv("LANECAST_UCX_LIBRARY", "/nowhere/libucp.so.0")
    under_mpiexec(3, over_mpi)
