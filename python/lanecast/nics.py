# SPDX-License-Identifier: Apache-2.0
"""Which network interface (NIC) each rank of a host sends and receives through, and how much went through each."""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from lanecast import _core, job

VARIABLE = "LANECAST_NICS"
MAPS = ("packed", "round_robin", "one_to_one")

# Where MPI libraries look for the interface to use: UCX (MPICH, Open MPI), libfabric's tcp provider (MPICH), Open MPI's
# own TCP transport. All are read when the library starts, which is why they are set here and not by the launcher.
_UCX, _UCX_RAILS = "UCX_NET_DEVICES", "UCX_MAX_RNDV_RAILS"
_UCX_LANES = "LANECAST_UCX_LANES"
_RAILS = 2  # that UCX spreads a message over unless it is told
_LIBFABRIC, _OPEN_MPI = "FI_TCP_IFACE", "OMPI_MCA_btl_tcp_if_include"  # the former takes one NIC only


@dataclass(frozen=True)
class Pinning:
    """The NIC of this rank, several where its host has more NICs than ranks, or why it has none of its own."""

    nics: tuple[str, ...] = ()  # of this host
    nic: str = ""
    refusal: str = ""
    variables: dict[str, str] = field(default_factory=dict)  # that the MPI library has to heed

    def __str__(self) -> str:
        if not self.nics:
            return f"{VARIABLE} is not set: the MPI library chooses"
        if self.refusal:
            return f"not pinned to one of {', '.join(self.nics)}: {self.refusal}"
        heeded = ", ".join(f"{name}={value}" for name, value in self.variables.items())
        return f"{self.nic} of {', '.join(self.nics)}, by {heeded}"


def parse(text: str) -> tuple[tuple[str, ...], str]:
    """NICs and map of "eth0,eth1" or "mlx5_0:1,mlx5_1:1:round_robin"; packed where none is named."""
    names, _, last = text.rpartition(":")
    how = last if last in MAPS else "packed"
    nics = tuple(name.strip() for name in (names if last in MAPS else text).split(",") if name.strip())
    return nics, how


def check(nics: tuple[str, ...]) -> None:
    """Raise UsageError for a NIC that this host does not have; names are those of TCP or of InfiniBand devices."""
    tcp, infiniband = (sorted(at.name for at in Path("/sys/class", kind).glob("*")) for kind in ("net", "infiniband"))
    for nic in nics:
        device, colon, port = nic.partition(":")
        if device not in tcp + infiniband:
            raise _core.UsageError(f"{VARIABLE}: this host has no {nic!r}; it has {', '.join(tcp + infiniband)}")
        if colon and not (device in infiniband and port.isdecimal()):
            raise _core.UsageError(f"{VARIABLE}: {port!r} in {nic!r} is no map; known: {', '.join(MAPS)}")


def place_of(found: job.Job | None) -> tuple[int, int] | None:
    """A rank among the ranks of its host, and how many there are; None where its launcher does not tell."""
    if found is None or found.local_rank is None:
        return None
    ranks = found.local_size
    if ranks is None and found.size and found.hosts and found.size % found.hosts == 0:
        ranks = found.size // found.hosts  # flux says no more, and deals tasks out evenly unless it is told otherwise
    return (found.local_rank, ranks) if ranks is not None and found.local_rank < ranks else None


def own_of(nics: tuple[str, ...], how: str, place: int, ranks: int) -> tuple[str, ...]:
    """Those of the rank at this place among so many of a host: one, or a share of them where there are more than ranks.

    Raises UsageError for one_to_one with other than as many NICs as ranks.
    """
    if len(nics) <= ranks or how == "one_to_one":
        return (nics[_core.assign_nics(ranks, len(nics), how)[place]],)
    owners = _core.assign_nics(len(nics), ranks, how)
    return tuple(nic for nic, owner in zip(nics, owners, strict=True) if owner == place)


@functools.cache
def pin() -> Pinning:
    """Tell the MPI library which of the NICs in LANECAST_NICS this rank uses; without effect once MPI has started."""
    nics, how = parse(os.environ.get(VARIABLE, ""))
    if not nics:
        return Pinning()
    check(nics)
    if "mpi4py.MPI" in sys.modules:
        return Pinning(nics, refusal="mpi4py has started MPI already; import it after lanecast.init()")
    found = job.detect()
    place = place_of(found)
    if place is None:
        whose = "no launcher says" if found is None else f"{found.launcher} does not say"
        return Pinning(nics, refusal=f"{whose} which of its host's ranks this is, and how many there are")
    try:
        own = own_of(nics, how, *place)
    except _core.UsageError as error:
        raise _core.UsageError(f"{VARIABLE}: {error}") from None
    wanted = _settings(own)
    taken = [f"{name}={os.environ[name]}" for name, value in wanted.items() if os.environ.get(name, value) != value]
    if taken:
        return Pinning(nics, refusal=f"{' '.join(taken)} was set by the caller")
    os.environ.update(wanted)
    return Pinning(nics, ",".join(own), variables=wanted)


def variables_of_helper(place: int, processes: int, leader_has: int) -> dict[str, str]:
    """What a helper sets that has inherited its leader's variables. It has this place among a host's processes.

    Where leaders move several NICs at once it does, too: bound to one of them, it would put more bytes on that one than
    the others carry. leader_has: so many.
    """
    if leader_has > 1:
        return {_UCX_LANES: str(leader_has)}
    nics, how = parse(os.environ.get(VARIABLE, ""))
    return _settings(own_of(nics, how, place, processes)) if nics else {}


def _settings(own: tuple[str, ...]) -> dict[str, str]:
    """By which libraries are told of these NICs."""
    wanted = {_UCX: ",".join(own)}
    if len(own) > _RAILS:
        wanted[_UCX_RAILS] = str(len(own))
    if Path("/sys/class/net", own[0]).exists():
        wanted |= {_LIBFABRIC: own[0], _OPEN_MPI: ",".join(own)}
    return wanted


def traffic(text: str) -> dict[str, tuple[int, int]]:
    """Bytes received and sent through each interface but lo, of the text of a /proc/PID/net/dev."""
    found = {}
    for line in text.splitlines()[2:]:
        name, _, columns = line.partition(":")
        numbers = columns.split()
        found[name.strip()] = (int(numbers[0]), int(numbers[8]))
    found.pop("lo", None)
    return found
