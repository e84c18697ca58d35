# SPDX-License-Identifier: Apache-2.0
"""Plans as text: what they cost, and what happens in each round."""

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

from lanecast import _core
from lanecast._core import Plan, Topology
from lanecast.plans.flow import Flow, is_composed, level_names, trace
from lanecast.plans.labels import PieceLabels
from lanecast.wording import counted

SHOWN_PER_ROUND = 64


def headline(plans: Sequence[Plan], topology: Topology) -> str:
    """Such as: all_reduce by hierarchical(ring,direct) on 2x4, in-place; composition on 2x4, stripe 4."""
    plan = plans[0].to_dict()
    in_place = ", in-place" if plan["in_place"] else ""
    if is_composed(plan):
        return f"composition on {plans[0].algorithm}{in_place}"  # by the machine's shape
    root = f" at root {plans[0].root}" if _core.has_root(plans[0].collective) else ""
    return f"{plans[0].collective}{root} by {plans[0].algorithm} on {topology}{in_place}"


def show(plans: Sequence[Plan], topology: Topology, transports: Sequence[str] = ()) -> str:
    """The plans of all ranks, in rank order, as text for a terminal; the steps of one rank are str(plan).

    transports: one, or one for each level of the topology.
    """
    flow = trace(plans, topology, transports)
    return "\n".join([headline(plans, topology), *_costs(plans, flow, topology), *_by_round(flow, topology)]) + "\n"


def _costs(plans: Sequence[Plan], flow: Flow, topology: Topology) -> list[str]:
    messages = sum(not t.group for t in flow.transfers)
    lines = [
        f"{counted(len(plans), 'rank')}, {counted(flow.rounds, flow.unit)}, {counted(messages, 'message')}, "
        f"{counted(len(flow.calls), 'group call')}, up to {counted(max(len(plan) for plan in plans), 'step')} and "
        f"{counted(max(plan.slots for plan in plans), 'scratch slot')} a rank"
    ]
    for level, name in enumerate(level_names(topology, flow.transports)):
        sent: dict[int, Fraction] = defaultdict(Fraction)
        for t in flow.transfers:
            if t.level == level:
                sent[t.sender] += flow.share(t.pieces)
        if sent:
            most, total = max(sent.values()), sum(sent.values())
            lines.append(f"{name}: {total} times the buffer is sent, by one rank at most {most} of it")
    return lines


def _by_round(flow: Flow, topology: Topology) -> list[str]:
    names, labels = level_names(topology, flow.transports), PieceLabels(flow)
    events: dict[int, list[str]] = defaultdict(list)
    for t in flow.transfers:
        if not t.group:
            verb = "adds" if t.adds else "gets"
            arrow = f"{t.sender} → {t.receiver}"
            events[t.round].append(f"{arrow:<9} {verb} {labels.of(t.pieces)}  ({names[t.level]})")
    for call in flow.calls:
        members = ",".join(map(str, call.ranks))
        events[call.round].append(f"group {call.kind} among {members}  ({names[call.level]})")
    for step in flow.local:
        events[step.round].append(f"{step.kind} on rank {step.rank}")
    lines = [f"numbers of what moves: {labels.meaning}"]
    for number in sorted(events):
        lines.append(f"{flow.unit} {number}" if number else f"before {flow.unit} 1")
        lines += [f"  {event}" for event in events[number][:SHOWN_PER_ROUND]]
        if (more := len(events[number]) - SHOWN_PER_ROUND) > 0:
            lines.append(f"  … {more} more")
    return lines
