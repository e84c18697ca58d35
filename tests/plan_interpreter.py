# SPDX-License-Identifier: Apache-2.0
"""Runs the plans of all ranks with data, under random schedules, to give a second opinion on the prover.

Any ready step may start at any time: only dependencies hold it back. A message moves some time after both sides have
started, or is buffered. Scratch memory is addressed by slot and poisoned when a slot changes its tenant, so a race or a
slot given away too early shows up as a wrong element. Shares no code with the library.
"""

import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from collective_cases import UFUNCS
from composition_oracle import outcome
from plan_memory import REDUCING, Data, Memory, PlanDict, Schedule, WrongPlan, parts_out

SUMMING = ("recv_reduce", "reduce", "group")


def adding(step: PlanDict) -> np.ufunc:
    """What a step adds by; plans of collectives leave that to the call."""
    return UFUNCS[step.get("op") or "sum"]


class Event(NamedTuple):
    """What may happen next: a step starts, or a message or group call moves after all its sides have started."""

    rank: int
    chunk: int
    step: int
    moves: bool = False


class Interpreter:
    """One run of the plans of all ranks."""

    def __init__(self, plans: Sequence[PlanDict], schedule: Schedule) -> None:
        self._plans, self._schedule = plans, schedule
        self._random = random.Random(schedule.seed)
        self.memory = [Memory(plan, schedule) for plan in plans]
        self._waiting: dict[Event, int] = {}
        self._dependents: dict[tuple[int, int], list[int]] = defaultdict(list)
        self._posted: dict[Any, dict[int, int]] = defaultdict(dict)  # message or group call → rank → step
        self._buffered: dict[Any, Data] = {}
        self._unfinished = [list(range(schedule.chunks * len(plan["steps"]))) for plan in plans]
        self._pool: list[Event] = []
        for rank, plan in enumerate(plans):
            for i, step in enumerate(plan["steps"]):
                for dependency in step["deps"]:
                    self._dependents[rank, dependency].append(i)
                for chunk in range(schedule.chunks):
                    self._waiting[Event(rank, chunk, i)] = len(step["deps"])
                    if not step["deps"]:
                        self._pool.append(Event(rank, chunk, i))

    def run(self) -> None:
        while self._pool:
            k = self._pick()
            if k is None:
                break
            self._pool[k], self._pool[-1] = self._pool[-1], self._pool[k]
            event = self._pool.pop()
            if event.moves:
                self._move(event)
            else:
                self._start(event)
        for rank, left in enumerate(self._unfinished):
            if left:
                raise WrongPlan(f"rank {rank} hangs in step {left[0] % len(self._plans[rank]['steps'])}")

    def _pick(self) -> int | None:
        if self._schedule.window is None:
            return self._random.randrange(len(self._pool))
        near = [k for k, event in enumerate(self._pool) if event.moves or self._distance(event) < self._schedule.window]
        return self._random.choice(near) if near else None

    def _distance(self, event: Event) -> int:
        """Unfinished steps of the rank that come before this one."""
        place = event.chunk * len(self._plans[event.rank]["steps"]) + event.step
        return bisect_left(self._unfinished[event.rank], place)

    def _start(self, event: Event) -> None:
        rank, chunk, i, _ = event
        step = self._plans[rank]["steps"][i]
        if step["kind"] in ("copy", "reduce"):
            data = self.memory[rank].read(chunk, step["src"])
            if step["kind"] == "reduce":
                data = adding(step).reduce(data.reshape(step["sources"], -1), axis=0)
            self._write(event, data)
            self._finish(event)
            return
        call = self._call(event)
        posted = self._posted[call]
        if rank in posted:
            raise WrongPlan(f"rank {rank} step {i} posts what it posted before")
        posted[rank] = i
        buffers = self._schedule.window is None and self._random.random() < 0.5
        if step["kind"] == "send" and buffers:
            self._buffered[call] = self.memory[rank].read(chunk, step["src"])
            self._finish(event)
        members = 2 if step["kind"] != "group" else len(self._plans[rank]["groups"][step["group"]]["ranks"])
        if len(posted) == members:
            self._pool.append(Event(rank, chunk, i, moves=True))

    def _call(self, event: Event) -> Any:
        rank, chunk, i, _ = event
        step = self._plans[rank]["steps"][i]
        if step["kind"] == "group":
            return tuple(self._plans[rank]["groups"][step["group"]]["ranks"]), step["ordinal"], chunk
        pair = (rank, step["peer"]) if step["kind"] == "send" else (step["peer"], rank)
        return "message", pair, step["ordinal"], chunk

    def _move(self, event: Event) -> None:
        call = self._call(event)
        posted = self._posted[call]
        if call[0] != "message":
            self._move_group(event, call[0], posted)
            return
        sender, receiver = call[1]
        there, here = Event(sender, event.chunk, posted[sender]), Event(receiver, event.chunk, posted[receiver])
        step = self._plans[receiver]["steps"][here.step]
        buffered = call in self._buffered
        source = self._plans[sender]["steps"][there.step]["src"]
        data = self._buffered[call] if buffered else self.memory[sender].read(event.chunk, source)
        if step["kind"] == "recv_reduce":
            own = self.memory[receiver].read(event.chunk, step["src"])
            if len(own) != len(data):
                raise WrongPlan(f"rank {receiver} step {here.step}: adds {len(data)} elements to {len(own)}")
            data = adding(step)(data, own)
        self._write(here, data)
        self._finish(here)
        if not buffered:
            self._finish(there)

    def _move_group(self, event: Event, ranks: Sequence[int], posted: dict[int, int]) -> None:
        """As a library would: by position in contiguous buffers, with the members' sizes."""
        calls = [Event(rank, event.chunk, posted[rank]) for rank in ranks]
        first = self._plans[ranks[0]]
        group = first["groups"][first["steps"][calls[0].step]["group"]]
        sources = [self._plans[c.rank]["steps"][c.step]["src"] for c in calls]
        brought = [self.memory[c.rank].read(event.chunk, src) for c, src in zip(calls, sources, strict=True)]
        own = [self._plans[c.rank]["groups"][self._plans[c.rank]["steps"][c.step]["group"]]["own"] for c in calls]
        sizes = [[self.memory[ranks[0]].elements(event.chunk, pieces) for pieces in lists] for lists in own]
        for call, result in zip(calls, _group_results(group, brought, sizes), strict=True):
            self._write(call, result)
            self._finish(call)

    def _write(self, event: Event, data: Data) -> None:
        plan = self._plans[event.rank]
        step = plan["steps"][event.step]
        average = step["op"] == "avg" if step.get("op") else self._schedule.average
        if step["completes"] and average and step["kind"] in SUMMING:
            data = data // (step.get("divisor") or plan["size"])
        self.memory[event.rank].write(event.chunk, step["dst"], data)

    def _finish(self, event: Event) -> None:
        rank, chunk, i, _ = event
        unfinished = self._unfinished[rank]
        del unfinished[bisect_left(unfinished, chunk * len(self._plans[rank]["steps"]) + i)]
        for dependent in self._dependents[rank, i]:
            later = Event(rank, chunk, dependent)
            self._waiting[later] -= 1
            if self._waiting[later] == 0:
                self._pool.append(later)


def _group_results(group: PlanDict, brought: list[Data], sizes: list[list[int]]) -> list[Data]:
    """What each member gets. sizes: of each list that the member names."""
    n, root, nothing = len(brought), group["root"], np.empty(0, np.int64)

    def cut(data: Data, parts: Sequence[int]) -> list[Data]:
        if sum(parts) != len(data):
            raise WrongPlan("a member of a group brings more or less than its share")
        return np.split(data, np.cumsum(parts)[:-1])

    match group["kind"]:
        case "all_to_all":
            rows = [cut(data, sizes[k][:n]) for k, data in enumerate(brought)]
            return [np.concatenate([rows[k][me] for k in range(n)]) for me in range(n)]
        case "scatter":
            return cut(brought[root], sizes[root])
        case "broadcast":
            return [nothing if k == root else brought[root] for k in range(n)]
    if group["kind"] in ("all_gather", "gather"):
        total = np.concatenate([cut(data, [sizes[k][k]])[0] for k, data in enumerate(brought)])
    else:
        total = np.sum(brought, axis=0)
    if group["kind"] in ("reduce", "gather"):
        return [total if k == root else nothing for k in range(n)]
    return cut(total, sizes[0]) if group["kind"] == "reduce_scatter" else [total] * n


def run_and_check(plans: Sequence[PlanDict], schedule: Schedule) -> None:
    """Runs the plans once; raises WrongPlan unless every rank ends with what the collective promises."""
    run = Interpreter(plans, schedule)
    run.run()
    if plans[0]["collective"] == "composition":
        promised = outcome(plans[0]["composition"], [memory.before for memory in run.memory])
    for plan, memory in zip(plans, run.memory, strict=True):
        for part in parts_out(plan):
            if plan["collective"] == "composition":
                if not np.array_equal(memory.output(part), promised[plan["rank"]][part]):
                    raise WrongPlan(f"rank {plan['rank']}: output part {part} is wrong")
                continue
            brought = [other.before[part] for other in run.memory if part in other.before]
            expected = sum(brought[1:], start=brought[0])
            if schedule.average and plan["collective"] in REDUCING:
                expected = expected // plan["size"]
            if not np.array_equal(memory.output(part), expected):
                raise WrongPlan(f"rank {plan['rank']}: output part {part} is wrong")
        for part, before in memory.before.items():
            aliased = plan["in_place"] and part in parts_out(plan)
            if not aliased and not np.array_equal(memory.input(part), before):
                raise WrongPlan(f"rank {plan['rank']}: input part {part} was written")
