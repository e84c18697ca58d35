# SPDX-License-Identifier: Apache-2.0
"""What a call sends and receives through each NIC of each node, counted in the plans of all ranks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from lanecast import _core
from lanecast.plans.flow import trace
from lanecast.scale.contenders import Case


@dataclass(frozen=True)
class Through:
    """One NIC of one node."""

    node: int
    nic: int
    sent_bytes: int
    received_bytes: int


def nic_bytes(case: Case, algorithm: str) -> list[Through]:
    """Of every NIC, node by node; each rank sends and receives by its own. Chunks do not change it.

    Raises UsageError for an algorithm that the case cannot take, and for a machine without NICs.
    """
    machine = case.machine
    if not machine.nic_of_rank:
        raise _core.UsageError(f"machine {machine.name}: node.nics: its file names none")
    topology = case.topology
    flow = trace(_core.make_plans(case.collective, topology, algorithm, in_place=True), topology)
    inside = machine.ranks_per_node
    sent: Counter[tuple[int, int]] = Counter()
    received: Counter[tuple[int, int]] = Counter()
    for transfer in flow.transfers:
        ends = [divmod(rank, inside) for rank in (transfer.sender, transfer.receiver)]
        (sender_node, sender), (receiver_node, receiver) = ends
        if sender_node != receiver_node:
            moved = round(flow.share(transfer.pieces) * case.bytes)
            sent[sender_node, machine.nic_of_rank[sender]] += moved
            received[receiver_node, machine.nic_of_rank[receiver]] += moved
    nodes = -(-case.ranks // inside)
    places = [(node, nic) for node in range(nodes) for nic in range(machine.node.nics)]
    return [Through(*place, sent[place], received[place]) for place in places]
