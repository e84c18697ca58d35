# SPDX-License-Identifier: Apache-2.0
"""Small faults put into right plans. A mutator changes a step or two, or returns None where nothing fits."""

import copy
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from plan_memory import PlanDict

Plans = list[PlanDict]
Mutator = Callable[[random.Random, Plans], Plans | None]

MESSAGES = ("send", "recv", "recv_reduce")
FRACTIONS = [(0, 1), (1, 4), (1, 3), (1, 2), (2, 3), (3, 4), (1, 1)]


def renumbered(plan: PlanDict) -> PlanDict:
    """The plan with ordinals counted afresh in list order, as if its author had meant it so."""
    count: dict[Any, int] = defaultdict(int)
    for step in plan["steps"]:
        if step["kind"] == "group":
            line: Any = tuple(plan["groups"][step["group"]]["ranks"])
        elif step["kind"] in MESSAGES:
            line = step["kind"] == "send", step["peer"]
        else:
            continue
        step["ordinal"] = count[line]
        count[line] += 1
    return plan


def reordered(plan: PlanDict, order: Iterable[int]) -> PlanDict:
    """The plan with its steps in another order (or fewer, or some twice); dependencies that point forward are lost."""
    place: dict[int, int] = {}
    steps: list[PlanDict] = []
    for old in order:
        step = copy.deepcopy(plan["steps"][old])
        step["deps"] = sorted(place[d] for d in step["deps"] if d in place)
        place[old] = len(steps)
        steps.append(step)
    return renumbered({**plan, "steps": steps})


def some_step(rng: random.Random, plans: Plans, fits: Callable[[PlanDict], bool] = lambda _: True) -> Any:
    """A rank and the number of one of its steps that fits."""
    found = [(r, i) for r, plan in enumerate(plans) for i, step in enumerate(plan["steps"]) if fits(step)]
    return rng.choice(found) if found else None


def with_plan(plans: Plans, rank: int, plan: PlanDict) -> Plans:
    return [plan if r == rank else other for r, other in enumerate(plans)]


def edit(plans: Plans, rank: int, i: int, **entries: Any) -> Plans:
    plan = copy.deepcopy(plans[rank])
    plan["steps"][i].update(entries)
    return with_plan(plans, rank, renumbered(plan) if "ordinal" not in entries else plan)


def drop_step(rng: random.Random, plans: Plans) -> Plans | None:
    rank, i = some_step(rng, plans)
    return with_plan(plans, rank, reordered(plans[rank], [k for k in range(len(plans[rank]["steps"])) if k != i]))


def duplicate_step(rng: random.Random, plans: Plans) -> Plans | None:
    rank, i = some_step(rng, plans)
    steps = list(range(len(plans[rank]["steps"])))
    return with_plan(plans, rank, reordered(plans[rank], [*steps[: i + 1], i, *steps[i + 1 :]]))


def swap_steps(rng: random.Random, plans: Plans) -> Plans | None:
    rank, i = some_step(rng, plans)
    steps = list(range(len(plans[rank]["steps"])))
    j = rng.choice([i + 1, rng.randrange(len(steps))]) % len(steps)
    if i == j:
        return None
    steps[i], steps[j] = steps[j], steps[i]
    return with_plan(plans, rank, reordered(plans[rank], steps))


def drop_dependency(rng: random.Random, plans: Plans) -> Plans | None:
    if (at := some_step(rng, plans, lambda step: bool(step["deps"]))) is None:
        return None
    deps = list(plans[at[0]]["steps"][at[1]]["deps"])
    deps.remove(rng.choice(deps))
    return edit(plans, *at, deps=deps)


def change_peer(rng: random.Random, plans: Plans) -> Plans | None:
    if (at := some_step(rng, plans, lambda step: step["kind"] in MESSAGES)) is None:
        return None
    return edit(plans, *at, peer=rng.randrange(len(plans)))


def change_ordinal(rng: random.Random, plans: Plans) -> Plans | None:
    if (at := some_step(rng, plans, lambda step: step["kind"] in (*MESSAGES, "group"))) is None:
        return None
    return edit(plans, *at, ordinal=plans[at[0]]["steps"][at[1]]["ordinal"] + rng.choice([1, 2]))


def change_block(rng: random.Random, plans: Plans) -> Plans | None:
    rank, i = some_step(rng, plans)
    side = rng.choice([s for s in ("src", "dst") if plans[rank]["steps"][i][s]])
    blocks = list(plans[rank]["steps"][i][side])
    k = rng.randrange(len(blocks))
    space, part, lo, hi = blocks[k]
    blocks[k] = rng.choice(
        [
            (rng.randrange(2 + len(plans[rank]["regions"])), part, lo, hi),
            (space, rng.randrange(len(plans)), lo, hi),
            (space, part, rng.choice(FRACTIONS), hi),
            (space, part, lo, rng.choice(FRACTIONS)),
        ]
    )
    return edit(plans, rank, i, **{side: blocks})


def flip_completes(rng: random.Random, plans: Plans) -> Plans | None:
    rank, i = some_step(rng, plans)
    return edit(plans, rank, i, completes=not plans[rank]["steps"][i]["completes"])


def add_or_overwrite(rng: random.Random, plans: Plans) -> Plans | None:
    """Turns a receive into one that adds, or the other way round."""
    if (at := some_step(rng, plans, lambda step: step["kind"] in ("recv", "recv_reduce"))) is None:
        return None
    step = plans[at[0]]["steps"][at[1]]
    if step["kind"] == "recv":
        return edit(plans, *at, kind="recv_reduce", src=step["dst"])
    return edit(plans, *at, kind="recv", src=[], completes=False)


def exchange_sources(rng: random.Random, plans: Plans) -> Plans | None:
    if (at := some_step(rng, plans, lambda step: len(step["src"]) > 1)) is None:
        return None
    blocks = list(plans[at[0]]["steps"][at[1]]["src"])
    j, k = rng.sample(range(len(blocks)), 2)
    blocks[j], blocks[k] = blocks[k], blocks[j]
    return edit(plans, *at, src=blocks)


def merge_slots(rng: random.Random, plans: Plans) -> Plans | None:
    rich = [r for r, plan in enumerate(plans) if plan["slots"] > 1]
    if not rich:
        return None
    plan = copy.deepcopy(plans[rank := rng.choice(rich)])
    gone, kept = rng.sample(range(plan["slots"]), 2)
    plan["regions"] = [(part, lo, hi, kept if slot == gone else slot) for part, lo, hi, slot in plan["regions"]]
    return with_plan(plans, rank, plan)


def merge_regions(rng: random.Random, plans: Plans) -> Plans | None:
    """Like merge_slots, but for two values only."""
    rich = [r for r, plan in enumerate(plans) if plan["slots"] > 1]
    if not rich:
        return None
    plan = copy.deepcopy(plans[rank := rng.choice(rich)])
    k = rng.randrange(len(plan["regions"]))
    part, lo, hi, _ = plan["regions"][k]
    plan["regions"][k] = part, lo, hi, rng.randrange(plan["slots"])
    return with_plan(plans, rank, plan)


def reverse_groups(rng: random.Random, plans: Plans) -> Plans | None:
    """One rank enters its group calls the other way round."""
    rank = rng.randrange(len(plans))
    groups = [i for i, step in enumerate(plans[rank]["steps"]) if step["kind"] == "group"]
    if len(groups) < 2:
        return None
    other = dict(zip(groups, reversed(groups), strict=True))
    return with_plan(plans, rank, reordered(plans[rank], [other.get(i, i) for i in range(len(plans[rank]["steps"]))]))


def change_group(rng: random.Random, plans: Plans) -> Plans | None:
    """One rank, or everyone, holds another opinion about who brings what."""
    if not plans[0]["groups"]:
        return None
    changed = copy.deepcopy(plans)
    k = rng.randrange(len(plans[0]["groups"]))
    for rank in rng.choice([range(len(plans)), [rng.randrange(len(plans))]]):
        if k < len(changed[rank]["groups"]):
            group = changed[rank]["groups"][k]
            entry = rng.choice(["own", "ranks"])
            group[entry] = [*group[entry][1:], *group[entry][:1]]
    return [renumbered(plan) for plan in changed]


MUTATORS: list[Mutator] = [
    drop_step,
    duplicate_step,
    swap_steps,
    drop_dependency,
    change_peer,
    change_ordinal,
    change_block,
    flip_completes,
    add_or_overwrite,
    exchange_sources,
    merge_slots,
    merge_regions,
    reverse_groups,
    change_group,
]
