# SPDX-License-Identifier: Apache-2.0
"""Words to write plans by hand, right and wrong ones, in the form of Plan.to_dict."""

from collections.abc import Sequence
from typing import Any

from lanecast._core import Plan
from plan_memory import IN, OUT, SCRATCH, Block, PlanDict
from plan_mutants import renumbered

HALF = (1, 2)


def block(space: int, part: int, lo: tuple[int, int] = (0, 1), hi: tuple[int, int] = (1, 1)) -> Block:
    return space, part, lo, hi


def own(part: int) -> Block:
    return block(IN, part)


def output(part: int) -> Block:
    return block(OUT, part)


def scratch(region: int, part: int = 0) -> Block:
    return block(SCRATCH + region, part)


def step(kind: str, src: Sequence[Block] = (), dst: Sequence[Block] = (), **entries: Any) -> PlanDict:
    """after: the steps it depends on; completes, peer, group, sources as in a plan."""
    return {
        "kind": kind,
        "peer": entries.get("peer", -1),
        "group": entries.get("group", -1),
        "ordinal": 0,
        "sources": entries.get("sources", 1),
        "completes": entries.get("completes", False),
        "src": list(src),
        "dst": list(dst),
        "deps": list(entries.get("after", ())),
    }


def send(peer: int, *src: Block, after: Sequence[int] = ()) -> PlanDict:
    return step("send", src, peer=peer, after=after)


def recv(peer: int, *dst: Block, after: Sequence[int] = ()) -> PlanDict:
    return step("recv", (), dst, peer=peer, after=after)


def add(peer: int, src: Block, dst: Block, *, after: Sequence[int] = (), completes: bool = True) -> PlanDict:
    return step("recv_reduce", [src], [dst], peer=peer, after=after, completes=completes)


def copy(src: Block, dst: Block, after: Sequence[int] = ()) -> PlanDict:
    return step("copy", [src], [dst], after=after)


def gather_group(ranks: Sequence[int]) -> PlanDict:
    """An all-gather in which each member brings its own part."""
    own_lists = [[(rank, (0, 1), (1, 1))] for rank in ranks]
    return {"kind": "all_gather", "ranks": list(ranks), "own": own_lists, "root": 0}


def group(number: int, src: Sequence[Block], dst: Sequence[Block], after: Sequence[int] = ()) -> PlanDict:
    return step("group", src, dst, group=number, after=after)


def by_hand(collective: str, *steps: Sequence[PlanDict], in_place: bool = False, **entries: Any) -> list[Plan]:
    """One list of steps per rank. regions, groups, slots: the same on every rank."""
    return [
        Plan.from_dict(
            renumbered(
                {
                    "collective": collective,
                    "size": len(steps),
                    "in_place": in_place,
                    "root": entries.get("root", 0),
                    "rank": rank,
                    "algorithm": "handmade",
                    "slots": entries.get("slots", 0),
                    "regions": entries.get("regions", []),
                    "groups": entries.get("groups", []),
                    "steps": list(mine),
                }
            )
        )
        for rank, mine in enumerate(steps)
    ]
