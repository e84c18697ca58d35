# SPDX-License-Identifier: Apache-2.0
"""What an emulated cluster looks like: how many hosts and NICs, how fast, and how they are named and numbered."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lanecast import _core
from lanecast.wording import counted

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)bit(?:/s|ps)?", re.IGNORECASE)
_UNIT = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_MOST_HOSTS, _MOST_NICS = 250, 16


@dataclass(frozen=True)
class Shape:
    """Hosts node0, node1, … with NICs eth0, eth1, …; NIC k of host h has the address 10.77.k.(h+1)."""

    hosts: int = 2
    nics: int = 1
    rate_bps: int = 10**9  # of each NIC, in each direction

    def __post_init__(self) -> None:
        if not 1 <= self.hosts <= _MOST_HOSTS:
            raise _core.UsageError(f"hosts: {self.hosts} is not between 1 and {_MOST_HOSTS}")
        if not 1 <= self.nics <= _MOST_NICS:
            raise _core.UsageError(f"nics: {self.nics} is not between 1 and {_MOST_NICS}")
        if not 10**6 <= self.rate_bps <= 32 * 10**9:
            raise _core.UsageError(f"rate: {rate_text(self.rate_bps)} is not between 1mbit and 32gbit")

    @property
    def host_names(self) -> list[str]:
        return [f"node{host}" for host in range(self.hosts)]

    @property
    def nic_names(self) -> list[str]:
        return [f"eth{nic}" for nic in range(self.nics)]

    def __str__(self) -> str:
        return f"{counted(self.hosts, 'host')} with {counted(self.nics, 'NIC')} of {rate_text(self.rate_bps)}"


def address(host: int, nic: int) -> str:
    return f"10.77.{nic}.{host + 1}"


def port_name(host: int, nic: int) -> str:
    """The other end of a NIC's cable, at the switch, where no job comes."""
    return f"node{host}-eth{nic}"


def host_pid(host: int) -> int:
    """The process that holds a host: a fresh pid namespace numbers from 1, and the hosts start right after its init."""
    return host + 2


def parse_rate(text: str) -> int:
    """Bits per second of "500mbit" or "10gbit"; units are powers of 1000, as in tc."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise _core.UsageError(f"rate {text!r}: expected bits per second such as 500mbit or 10gbit")
    return int(float(match[1]) * _UNIT[match[2].lower()])


def rate_text(bps: int) -> str:
    for unit in ("g", "m", "k"):
        if bps >= _UNIT[unit]:
            return f"{bps / _UNIT[unit]:g}{unit}bit"
    return f"{bps}bit"
