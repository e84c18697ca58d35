# SPDX-License-Identifier: Apache-2.0
"""The network of an emulated cluster: one switch, and veth pairs that tbf slows down in both directions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lanecast.cluster.shape import Shape, address, port_name

_SWITCH = "switch"
_MTU = 9000
_BURST_BYTES = 64 << 10  # the largest packet that a NIC with segmentation offload takes from TCP
_QUEUE_BYTES = 2 << 20
_SUBNET, _PREFIX = "10.77.0.0", 16
_TABLE = 100  # of the routes for what comes from NIC 0; the next for NIC 1
_NO_PREFIX_ROUTE = 0x200  # IFA_F_NOPREFIXROUTE


def _index(ip: Any, name: str) -> int:
    return int(ip.link_lookup(ifname=name)[0])


def _limit(ip: Any, index: int, rate_bps: int) -> None:
    """Delay what leaves through this device to its rate."""
    ip.tc("add", "tbf", index, 0x10000, rate=f"{rate_bps}bit", burst=_BURST_BYTES, limit=_QUEUE_BYTES)


def _netlink() -> Any:
    """A connection to the kernel's network configuration of this namespace."""
    from pyroute2 import IPRoute  # only what starts a cluster needs it

    return IPRoute()


def _set(name: str, value: int) -> None:
    file = Path("/proc/sys/net") / name
    if file.exists():
        file.write_text(str(value))


def build_switch() -> None:
    """In the namespace of the cluster's init."""
    _set("ipv6/conf/default/disable_ipv6", 1)
    with _netlink() as ip:
        ip.link("add", ifname=_SWITCH, kind="bridge")
        ip.link("set", index=_index(ip, _SWITCH), mtu=_MTU, state="up")


def plug_in(shape: Shape) -> None:
    """Join the hosts' cables to the switch, and limit what comes out towards each NIC."""
    with _netlink() as ip:
        switch = _index(ip, _SWITCH)
        for host in range(shape.hosts):
            for nic in range(shape.nics):
                port = _index(ip, port_name(host, nic))
                ip.link("set", index=port, master=switch, mtu=_MTU, state="up")
                _limit(ip, port, shape.rate_bps)


def add_nics(host: int, shape: Shape) -> None:
    """In the namespace of a host: its NICs, each the only way for what is sent from its address.

    All NICs share one subnet, so that each reaches every NIC of every host. By default a packet leaves through the NIC
    with the number of the one it goes to; a socket bound to a NIC's address uses that NIC whatever it reaches.
    """
    _set("ipv6/conf/default/disable_ipv6", 1)
    for scope in ("all", "default"):
        _set(f"ipv4/conf/{scope}/rp_filter", 0)
        # A NIC answers for its own address only; else peers would learn one NIC for the addresses of all.
        _set(f"ipv4/conf/{scope}/arp_ignore", 1)
        _set(f"ipv4/conf/{scope}/arp_announce", 2)
    with _netlink() as ip:
        ip.link("set", index=_index(ip, "lo"), state="up")
        for nic, name in enumerate(shape.nic_names):
            init = os.getppid()
            ip.link("add", ifname=name, kind="veth", peer={"ifname": port_name(host, nic), "net_ns_pid": init})
            index = _index(ip, name)
            mine = address(host, nic)
            ip.link("set", index=index, mtu=_MTU, state="up")
            ip.addr("add", index=index, address=mine, prefixlen=_PREFIX, flags=_NO_PREFIX_ROUTE)
            _limit(ip, index, shape.rate_bps)
            for far, _ in enumerate(shape.nic_names):
                # All of one length: UCX takes a NIC for cut off from addresses to which another has a longer prefix.
                metric = _TABLE + (nic if far != nic else -1)
                ip.route("add", dst=f"10.77.{far}.0/24", oif=index, prefsrc=mine, priority=metric)
            ip.route("add", dst=f"{_SUBNET}/{_PREFIX}", oif=index, prefsrc=mine, table=_TABLE + nic)
            ip.rule("add", src=mine, src_len=32, table=_TABLE + nic, priority=_TABLE + nic)
