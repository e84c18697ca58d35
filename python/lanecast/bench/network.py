# SPDX-License-Identifier: Apache-2.0
"""What the network between the hosts really carries: plain TCP streams through every NIC, and the bytes of each NIC."""

from __future__ import annotations

import fcntl
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lanecast import _core, nics
from lanecast.buffers import Array
from lanecast.communicator import Communicator

_STREAM_S = 0.5
_WARM_UP_S = 0.2  # until TCP has found the rate
_DEADLINE_S = 10.0
_BLOCK_BYTES = 1 << 20
_SIOCGIFADDR = 0x8915
_NAME_BYTES = 256


@dataclass(frozen=True)
class Network:
    """The hosts of a job and the NICs that LANECAST_NICS names on each, equally many everywhere."""

    host_of: tuple[int, ...]  # of each rank, numbered by first appearance
    nics: tuple[str, ...]  # of this host
    pinned: bool  # is every rank?

    @property
    def hosts(self) -> int:
        return max(self.host_of) + 1

    def neighbours(self, rank: int) -> list[int]:
        """The ranks on the host of `rank`."""
        return [other for other, host in enumerate(self.host_of) if host == self.host_of[rank]]

    def bound_bytes(self, collective: str, full_bytes: int) -> float | None:
        """What must enter the busiest host: all that is not its own, and to reduce all of a vector twice that.

        None for other collectives, whose roots or pairs bound them in other ways.
        """
        passes = {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2}.get(collective)
        if passes is None:
            return None
        smallest = min(self.host_of.count(host) for host in range(self.hosts))
        return passes * full_bytes * (1 - smallest / len(self.host_of))


def find(comm: Communicator) -> Network | None:
    """The network between this job's hosts. Collective.

    None on one host, where a host names no NICs of TCP, and where messages take emulated NICs, whose rate is given.
    """
    own = nics.pin()
    by_tcp = "emulated" not in comm.transports and all(address_of(nic) for nic in own.nics)
    usable = own.nics if by_tcp else ()
    mine = np.zeros(_NAME_BYTES + 2, np.uint8)
    identity = _core.host_identity().encode()[-_NAME_BYTES:]
    mine[: len(identity)] = np.frombuffer(identity, np.uint8)
    mine[_NAME_BYTES:] = [len(usable), bool(own.nic)]
    everyone = np.zeros((comm.size, mine.size), np.uint8)
    comm.all_gather_into_tensor(everyone, mine)
    names = [row[:_NAME_BYTES].tobytes() for row in everyone]
    hosts = {name: host for host, name in enumerate(dict.fromkeys(names))}
    counts = set(everyone[:, _NAME_BYTES].tolist())
    if len(hosts) < 2 or len(counts) > 1 or counts == {0}:
        return None
    return Network(tuple(hosts[name] for name in names), usable, bool(everyone[:, -1].all()))


def address_of(nic: str) -> str:
    """Its IPv4 address; empty where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket, _SIOCGIFADDR, struct.pack("256s", nic.encode()[:15]))
        except OSError:
            return ""
    return socket.inet_ntoa(answer[20:24])


def goodput(comm: Communicator, network: Network, flows: Mapping[int, int] | None = None) -> float:
    """Bytes per second that reach a host through all its NICs at once; collective.

    flows: to which other host a host sends, every NIC to the NIC of that number; no two send to one. Default: everyone
    to the next, so that each host sends as much as it receives. Mean over the hosts that receive.
    """
    flows = {host: (host + 1) % network.hosts for host in range(network.hosts)} if flows is None else flows
    host = network.host_of[comm.rank]
    neighbours = network.neighbours(comm.rank)
    mine = range(neighbours.index(comm.rank), len(network.nics), len(neighbours))
    listening = mine if host in flows.values() else ()
    listeners = {nic: socket.create_server((address_of(network.nics[nic]), 0)) for nic in listening}
    where = np.zeros((network.hosts, len(network.nics), 2), np.int64)
    for nic, listener in listeners.items():
        ip, port = listener.getsockname()
        where[host, nic] = struct.unpack("!I", socket.inet_aton(ip))[0], port
    comm.all_reduce(where)
    rates = np.zeros(network.hosts)
    with ThreadPoolExecutor(2 * len(network.nics)) as streams:
        received = []
        for nic in mine:
            here = address_of(network.nics[nic])
            if nic in listeners:
                received.append(streams.submit(_receive, here, listeners[nic]))
            if host in flows:
                ip_number, port = (int(number) for number in where[flows[host], nic])
                streams.submit(_send, here, (socket.inet_ntoa(struct.pack("!I", ip_number)), port))
        rates[host] = sum(rate.result() for rate in received)
    comm.all_reduce(rates)
    return float(rates.sum() / len(flows))


@contextmanager
def bounding(comm: Communicator, network: Network | None) -> Iterator[list[dict[str, Any]]]:
    """A list for the rows of what is measured within; in the end they have goodput and bound. Collective.

    The better goodput of before and after counts: neighbours on the machine may have slowed one of them down. Without
    a network between hosts nothing is measured.
    """
    rows: list[dict[str, Any]] = []
    if network is None:
        yield rows
        return
    before = goodput(comm, network)
    yield rows
    best = max(before, goodput(comm, network))
    for row in rows:
        entering = network.bound_bytes(row["collective"], row["bytes"])
        row["goodput_GBps"] = best / 1e9
        row["bound_us"] = None if entering is None else entering / best * 1e6


def _send(here: str, there: tuple[str, int]) -> None:
    block = bytes(_BLOCK_BYTES // 16)
    with socket.create_connection(there, timeout=_DEADLINE_S, source_address=(here, 0)) as stream:
        end = time.perf_counter() + _WARM_UP_S + _STREAM_S
        while time.perf_counter() < end:
            stream.sendall(block)


def _receive(here: str, listener: socket.socket) -> float:
    """Bytes per second of the one stream that comes in here."""
    listener.settimeout(_DEADLINE_S)
    try:
        with listener, listener.accept()[0] as stream:
            stream.settimeout(_DEADLINE_S)
            return _rate_of(stream)
    except OSError as error:
        raise _core.TransportError(
            f"no TCP stream came to the NIC at {here} ({error}), so there is no goodput to compare with; "
            "with LANECAST_NICS unset no bound is measured"
        ) from None


def _rate_of(stream: socket.socket) -> float:
    block = bytearray(_BLOCK_BYTES)
    begin = time.perf_counter()
    first = last = 0.0
    count = 0
    while size := stream.recv_into(block):
        now = time.perf_counter()
        if now - begin < _WARM_UP_S:
            continue
        if first:
            count += size
        else:
            first = now
        last = now
    return count / (last - first) if last > first else 0.0


class Meter:
    """The bytes of each NIC while something runs, added up over its runs."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.bytes = np.zeros((len(network.nics), 2), np.int64)  # received, sent

    def _now(self) -> Array:
        counted = nics.traffic(Path("/proc/self/net/dev").read_text())
        return np.array([counted[nic] for nic in self.network.nics])

    def __enter__(self) -> None:
        self.bytes -= self._now()

    def __exit__(self, *_: object) -> None:
        self.bytes += self._now()

    def per_call(self, comm: Communicator, calls: int) -> dict[str, dict[str, float]]:
        """Mean over the hosts, for each NIC; collective."""
        first = self.network.neighbours(comm.rank)[0] == comm.rank
        everywhere = self.bytes * int(first)
        comm.all_reduce(everywhere)
        share = everywhere / (self.network.hosts * calls)
        return {
            nic: {"received": float(received), "sent": float(sent)}
            for nic, (received, sent) in zip(self.network.nics, share, strict=True)
        }
