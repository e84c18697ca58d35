# SPDX-License-Identifier: Apache-2.0
"""What the plans of all ranks do together: who sends what to whom, in which round, over which level."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from itertools import permutations
from typing import Any

from lanecast._core import Plan, Topology, UsageError

Piece = tuple[int, Fraction, Fraction]  # part, from, to


@dataclass(frozen=True)
class Transfer:
    """Pieces that go from rank to rank, by a message or inside a group call."""

    sender: int
    receiver: int
    pieces: tuple[Piece, ...]
    adds: bool  # the receiver adds them to its own
    round: int
    level: int  # number of the outermost level at which the ranks part; one more where they part at none
    group: bool  # the group's library decides how they really go


@dataclass(frozen=True)
class GroupCall:
    kind: str
    ranks: tuple[int, ...]
    round: int
    level: int

    @property
    def initials(self) -> str:
        """AG for all_gather."""
        return "".join(word[0] for word in self.kind.split("_")).upper()


@dataclass(frozen=True)
class LocalStep:
    kind: str
    rank: int
    round: int  # after which it runs


@dataclass(frozen=True)
class Flow:
    """A round is the length of the longest chain of messages and group calls that leads to one, itself included.

    In a composition's plans it is a stage of the lowering instead; stages in which nothing moves are not counted.
    """

    transfers: list[Transfer]  # by round
    calls: list[GroupCall]
    local: list[LocalStep]
    rounds: int
    parts: int  # as parts_of()
    unit: str = "round"  # or "stage"
    transports: tuple[str, ...] = ()  # by the numbers of levels, where known

    def share(self, pieces: Iterable[Piece]) -> Fraction:
        """Of the full buffer, parts being equally large."""
        return sum((hi - lo for _, lo, hi in pieces), start=Fraction(0)) / self.parts


def level_names(topology: Topology, transports: Sequence[str] = ()) -> list[str]:
    """For people, by the numbers that Transfer.level uses: "across nodes", "within a node by shm"."""
    names = [name for name, _ in topology.levels]
    if len(set(names)) == len(names):
        texts = [*(f"across {name}s" for name in names), f"within a {names[-1]}" if names else "between ranks"]
    else:  # of factors
        texts = [*(f"across level {k}" for k in range(1, len(names) + 1)), f"within level {len(names)}"]
    by = [f" by {transport}" for transport in transports] or [""] * len(texts)
    return [text + carrier for text, carrier in zip(texts, by, strict=True)]


def trace(plans: Sequence[Plan], topology: Topology, transports: Sequence[str] = ()) -> Flow:
    """Follows the plans of all ranks, in rank order. transports: one, or one for each level, the outermost first.

    Raises UsageError where the plans' dependencies form a circle, or the transports are not as many.
    """
    described = [plan.to_dict() for plan in plans]
    if [plan["rank"] for plan in described] != list(range(topology.size)):
        raise UsageError(f"plans: needs those of all {topology.size} ranks of the topology, in rank order")
    tracer = _Tracer(described, topology)
    by_round = sorted(tracer.transfers, key=lambda t: (t.round, t.level, t.sender, t.receiver))
    return Flow(
        *(by_round, tracer.calls, tracer.local, max(tracer.round.values(), default=0), parts_of(described[0])),
        unit="stage" if is_composed(described[0]) else "round",
        transports=_for_each_level(transports, len(level_names(topology))),
    )


def is_composed(plan: dict[str, Any]) -> bool:
    """Does this plan, as a dict, come from a composition?"""
    return "composition" in plan


def parts_of(plan: dict[str, Any]) -> int:
    """Of which the full buffer, or everything that a composition names, consists; of a plan as a dict."""
    if is_composed(plan):
        lists = [*plan["composition"]["inputs"], *plan["composition"]["outputs"]]
        return len({part for parts in lists for part in parts}) or 1
    whole = plan["collective"] in ("all_reduce", "broadcast", "reduce")
    return 1 if whole else int(plan["size"])  # of an all-to-all: what one rank brings


def _for_each_level(transports: Sequence[str], levels: int) -> tuple[str, ...]:
    if len(transports) not in (0, 1, levels):
        raise UsageError(f"transports {','.join(transports)}: expected one, or one for each of {levels} levels")
    return tuple(transports) * (levels if len(transports) == 1 else 1)


class _Tracer:
    def __init__(self, plans: list[dict[str, Any]], topology: Topology) -> None:
        self._topology = topology
        self.transfers: list[Transfer] = []
        self.calls: list[GroupCall] = []
        self.local: list[LocalStep] = []
        self.round = _rounds(plans)
        for plan in plans:
            for i, step in enumerate(plan["steps"]):
                event = _event(plan, i)
                if step["kind"] == "group":
                    group = plan["groups"][step["group"]]
                    if plan["rank"] == group["ranks"][0]:
                        self._call(group, self.round[event])
                    if group["kind"] == "all_to_all":  # each member knows its own share only
                        self._exchange(group, plan["rank"], self.round[event])
                elif step["kind"] in ("recv", "recv_reduce"):
                    ranks = step["peer"], plan["rank"]
                    pieces = _pieces((part, lo, hi) for _, part, lo, hi in step["dst"])
                    self._transfer(ranks, pieces, self.round[event], adds=step["kind"] == "recv_reduce")
                elif step["kind"] != "send":
                    self.local.append(LocalStep(step["kind"], plan["rank"], self.round[event]))

    def _transfer(
        self, ranks: tuple[int, int], pieces: tuple[Piece, ...], number: int, *, adds: bool, group: bool = False
    ) -> None:
        self.transfers.append(Transfer(*ranks, pieces, adds, number, self._topology.parting_level(*ranks), group))

    def _call(self, group: dict[str, Any], number: int) -> None:
        ranks = tuple(group["ranks"])
        level = min(self._topology.parting_level(ranks[0], rank) for rank in ranks)
        self.calls.append(GroupCall(group["kind"], ranks, number, level))
        own = [_pieces(pieces) for pieces in group["own"]]
        root = group["root"]
        # As the cheapest of libraries would: what is whole is scattered evenly, then gathered.
        if group["kind"] in ("all_reduce", "broadcast", "reduce"):
            own = [_cut(sum(own, start=()), k, len(ranks)) for k in range(len(ranks))]
        for a, b in permutations(range(len(ranks)), 2):
            to_share = {"reduce_scatter": True, "all_reduce": True, "reduce": True, "scatter": a == root,
                        "broadcast": a == root}  # fmt: skip
            from_share = {"all_gather": True, "all_reduce": True, "broadcast": True, "gather": b == root,
                          "reduce": b == root}  # fmt: skip
            adds = group["kind"] in ("reduce_scatter", "all_reduce", "reduce")
            if to_share.get(group["kind"]) and own[b]:
                self._transfer((ranks[a], ranks[b]), own[b], number, adds=adds, group=True)
            if from_share.get(group["kind"]) and own[a]:
                self._transfer((ranks[a], ranks[b]), own[a], number, adds=False, group=True)

    def _exchange(self, group: dict[str, Any], sender: int, number: int) -> None:
        for receiver, pieces in zip(group["ranks"], group["own"], strict=False):
            if receiver != sender and pieces:
                self._transfer((sender, receiver), _pieces(pieces), number, adds=False, group=True)


def _pieces(pieces: Iterable[Any]) -> tuple[Piece, ...]:
    return tuple((part, Fraction(*lo), Fraction(*hi)) for part, lo, hi in pieces)


def _cut(pieces: tuple[Piece, ...], k: int, n: int) -> tuple[Piece, ...]:
    return tuple((part, lo + (hi - lo) * k / n, lo + (hi - lo) * (k + 1) / n) for part, lo, hi in pieces)


def _event(plan: dict[str, Any], i: int) -> tuple[Any, ...]:
    """The same for both sides of a message, and for all members of a group call."""
    step = plan["steps"][i]
    match step["kind"]:
        case "group":
            return "group", tuple(plan["groups"][step["group"]]["ranks"]), step["ordinal"]
        case "send":
            return "message", plan["rank"], step["peer"], step["ordinal"]
        case "recv" | "recv_reduce":
            return "message", step["peer"], plan["rank"], step["ordinal"]
    return "local", plan["rank"], i


def _stages(plans: list[dict[str, Any]]) -> dict[tuple[Any, ...], int]:
    """The stages of messages, where they come from a composition, counted from 1."""
    composed = [plan for plan in plans if plan["collective"] == "composition"]
    found = {_event(p, i): step["stage"] for p in composed for i, step in enumerate(p["steps"]) if "stage" in step}
    messages = {event: stage for event, stage in found.items() if event[0] == "message"}
    number = {stage: k for k, stage in enumerate(sorted(set(messages.values())), 1)}
    return {event: number[stage] for event, stage in messages.items()}


def _rounds(plans: list[dict[str, Any]]) -> dict[tuple[Any, ...], int]:
    """Round of each event; a local step counts to the round before it."""
    before: dict[tuple[Any, ...], set[tuple[Any, ...]]] = defaultdict(set)
    for plan in plans:
        for i, step in enumerate(plan["steps"]):
            before[_event(plan, i)].update(_event(plan, dependency) for dependency in step["deps"])
    stages = _stages(plans)
    rounds: dict[tuple[Any, ...], int] = {}
    try:
        for event in TopologicalSorter(before).static_order():
            reached = max((rounds[e] for e in before[event]), default=0)
            rounds[event] = stages.get(event, (event[0] != "local") + reached)
    except CycleError as error:
        raise UsageError("plans: steps wait for each other in a circle; verify() names them") from error
    return rounds
