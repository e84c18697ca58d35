# SPDX-License-Identifier: Apache-2.0
"""Where each rank stands, who is behind, which calls differ, and what went over which transport."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

from lanecast.traces.read import CommunicatorTrace, RankTrace
from lanecast.wording import counted, for_a_terminal

_COMPARED = ("collective", "op", "dtype", "root", "bytes", "algorithm", "chunks")
_MORE = 8  # ranks that are named one by one


def report(job: CommunicatorTrace) -> str:
    """A text for people."""
    lines = [f"communicator {job.id}: {counted(job.size, 'rank')}, topology {job.topology}"]
    lines += [f"  rank {rank}: {_standing(trace)}" for rank, trace in job.ranks.items()]
    lines += _missing(job) + _behind(job) + _different(job) + _traffic(job) + _launches(job)
    return for_a_terminal("\n".join(lines) + "\n")


def describe(call: dict[str, Any]) -> str:
    """Such as: call 7, all_reduce sum of float32, 4096 bytes, by ring in 1 chunk."""
    name = f"{call['collective']} {call['op']}".rstrip()
    root = f", root {call['root']}" if call["root"] >= 0 else ""
    return (
        f"call {call['sequence']}, {name} of {call['dtype']}, {call['bytes']} bytes{root}, "
        f"by {call['algorithm']} in {counted(call['chunks'], 'chunk')}"
    )


def _standing(trace: RankTrace) -> str:
    failure, waiting = trace.owner["failure"], trace.owner["waiting"]
    waits = f"; waits in {waiting}" if waiting else ""
    end = f"; failed: {failure}" if failure else waits
    if not trace.calls:
        return f"no calls{' but those of GPUs within a host' if trace.launches else ''}{end}"
    call = trace.calls[-1]
    if call["state"] == "running":
        ran_s = (trace.owner["written_ns"] - call["begin_ns"]) / 1e9
        return f"in {describe(call)}, for {ran_s:.3f} s{waits}"
    return f"{call['state']}: {describe(call)}{end}"


def _names(ranks: Iterable[int], count: int) -> str:
    named = ", ".join(str(rank) for rank in islice(ranks, _MORE))
    return f"rank {named}" + (f" and {count - _MORE} more" if count > _MORE else "")


def _missing(job: CommunicatorTrace) -> list[str]:
    count = job.size - len(job.ranks)
    # One by one, since the size comes from the file and may be any number.
    missing = (rank for rank in range(job.size) if rank not in job.ranks)
    return [f"no trace: {_names(missing, count)}; killed, or stopped, or writing elsewhere"] if count > 0 else []


def _behind(job: CommunicatorTrace) -> list[str]:
    last = {rank: trace.last_sequence for rank, trace in job.ranks.items()}
    first, latest = min(last.values()), max(last.values())
    if first == latest:
        return []
    ahead = next(trace for trace in job.ranks.values() if trace.last_sequence == latest)
    behind = [rank for rank, sequence in last.items() if sequence == first]
    # Who is through with a call has not come to the next one; who is in it, or failed in it, has waited for others.
    states = {rank: job.ranks[rank].calls[-1]["state"] if first else "done" for rank in behind}
    through = [rank for rank in behind if states[rank] == "done"]
    named = through or behind
    where = {"failed": "failed in", "running": "still in"}.get(states[named[0]], "through with")
    text = f"behind: {_names(named, len(named))}, {where} call {first}, while others are in {describe(ahead.calls[-1])}"
    return [text + ("" if through or len(job.ranks) == job.size else "; or whoever has left no trace")]


def _different(job: CommunicatorTrace) -> list[str]:
    """The first call that is not the same on all ranks."""
    seen: dict[int, dict[tuple[Any, ...], list[int]]] = {}
    texts: dict[tuple[Any, ...], str] = {}
    for rank, trace in job.ranks.items():
        for call in trace.calls:
            key = (call["sequence"], *(call[name] for name in _COMPARED))
            texts[key] = describe(call)
            seen.setdefault(call["sequence"], {}).setdefault(key, []).append(rank)
    for sequence in sorted(seen):
        if len(seen[sequence]) > 1:
            return ["differs:"] + [
                f"  {_names(ranks, len(ranks))}: {texts[key]}" for key, ranks in seen[sequence].items()
            ]
    return []


def _traffic(job: CommunicatorTrace) -> list[str]:
    """What was sent, by level and transport. A message counts once, at its sender."""
    count: Counter[tuple[int, str, str]] = Counter()
    sizes: Counter[tuple[int, str, str]] = Counter()
    for trace in job.ranks.values():
        for message in trace.messages:
            kind = {"send": "point-to-point", "group": "library's collective"}.get(message["step"])
            if kind:
                key = (message.get("level", -1), message["transport"], kind)
                count[key] += 1
                sizes[key] += message["bytes"]
    names = [name for name in next(iter(job.ranks.values())).owner["levels"].split(",") if name]
    lines = ["messages:"] if count else []
    for key in sorted(count):
        level, transport, kind = key
        where = "groups" if level < 0 else f"between {names[level]}s" if level < len(names) else "within"
        at_once = f", up to {_at_once(job, level)} ranks at once" if level >= 0 else ""
        lines.append(f"  {where}: {transport}, {kind}: {count[key]}, {sizes[key]} bytes in all{at_once}")
    return lines


def _launches(job: CommunicatorTrace) -> list[str]:
    """What calls on GPUs within a host have launched, equal calls of all ranks together."""
    calls: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for rank, trace in job.ranks.items():
        for launch in trace.launches:
            calls.setdefault((rank, launch["call"]), []).append(launch)
    kinds: dict[tuple[str, int, tuple[str, ...]], list[int]] = {}
    for (rank, _), launches in calls.items():
        kernels = tuple(f"{each['kernel']} in {counted(each['blocks'], 'block')}" for each in launches)
        kinds.setdefault((launches[0]["what"], launches[0]["bytes"], kernels), []).append(rank)
    lines = ["launches:"] if kinds else []
    for (what, size, kernels), ranks in kinds.items():
        each = "one launch" if len(kernels) == 1 else f"{len(kernels)} launches"
        who = f"{counted(len(ranks), 'call')} of {counted(len(set(ranks)), 'rank')}"
        lines.append(f"  {what}, {size} bytes: {who}, each {each}: {', '.join(kernels)}")
    return lines


def _at_once(job: CommunicatorTrace, level: int) -> int:
    """How many ranks had messages of this level under way at the same moment, at most: the lanes in use."""
    edges = []
    for rank, trace in job.ranks.items():
        for message in trace.messages:
            if message.get("level", -1) == level:
                edges += [(message["begin_ns"], 1, rank), (message["end_ns"], 0, rank)]
    open_messages: Counter[int] = Counter()
    most = 0
    for _, begins, rank in sorted(edges):
        open_messages[rank] += 1 if begins else -1
        most = max(most, sum(1 for number in open_messages.values() if number > 0))
    return most
