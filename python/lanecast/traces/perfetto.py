# SPDX-License-Identifier: Apache-2.0
"""What each rank did when, for ui.perfetto.dev: sends, receives, reductions, copies and waits, by step and chunk.

In the JSON form of Chrome's trace events, which Perfetto reads: a process for each rank, in it a row of slices for each
thing that a rank does, and arrows from the messages' senders to their receivers.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lanecast._core import UsageError
from lanecast.traces.read import CommunicatorTrace, RankTrace
from lanecast.traces.report import describe

_CALLS, _LAUNCHES, _WAITS, _WORKS, _GROUPS, _MESSAGES = range(6)  # rows from above


@dataclass
class _Slice:
    row: tuple[int, str]  # of which kind, and its name
    name: str
    record: dict[str, Any]
    lane: int = 0  # beside others of its row at the same time
    tid: int = 0  # of the row and lane, from above

    @property
    def thread(self) -> str:
        return self.row[1] + (f" ({self.lane + 1})" if self.lane else "")


def write_perfetto(job: CommunicatorTrace, output: Path) -> None:
    """Write `output`, of which Perfetto shows who was sending, receiving, reducing and waiting. Raises UsageError."""
    if not any(trace.messages or trace.works or trace.launches for trace in job.ranks.values()):
        raise UsageError(f"communicator {job.id} has kept no steps; set LANECAST_TRACE_STEPS=1 where it runs")
    slices = {rank: _numbered(_laid_out(_slices(trace))) for rank, trace in job.ranks.items()}
    origin = min(each.record["begin_ns"] for mine in slices.values() for each in mine)
    events = [event for rank, mine in slices.items() for event in _events(job, rank, mine, origin)]
    output.write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": events + _arrows(slices, origin)}))


def _slices(trace: RankTrace) -> Iterator[_Slice]:
    for call in trace.calls:
        # One that is under way ends, for this picture, where the trace was written.
        end_ns = call["end_ns"] or trace.owner["written_ns"]
        yield _Slice((_CALLS, "calls"), describe(call), {**call, "end_ns": end_ns})
    for launch in trace.launches:
        at = {"begin_ns": launch["at_ns"], "end_ns": launch["at_ns"]}
        yield _Slice((_LAUNCHES, "launches"), f"{launch['kernel']}: {launch['what']}", {**launch, **at})
    for wait in trace.waits:
        yield _Slice((_WAITS, "waits"), "waits", wait)
    for work in trace.works:
        yield _Slice((_WORKS, "reduces and copies"), f"{work['step']}, chunk {work['chunk']}", work)
    levels = [name for name in trace.owner["levels"].split(",") if name]
    for message in trace.messages:
        level, step, chunk = message.get("level", -1), message["step"], message["chunk"]
        if level < 0:
            yield _Slice((_GROUPS, "collectives of libraries"), f"{step}, chunk {chunk}", message)
            continue
        where = f"between {levels[level]}s" if level < len(levels) else "within"
        way = ("sends", "to") if step == "send" else ("receives", "from")
        row = (_MESSAGES + 2 * level + (step != "send"), f"{way[0]} {where}")
        yield _Slice(row, f"{step} {way[1]} {message['peer']}, chunk {chunk}", message)


def _laid_out(slices: Iterable[_Slice]) -> list[_Slice]:
    """All slices, those of one row that overlap in lanes of their own: a thread's slices must not."""
    laid_out = sorted(slices, key=lambda each: (each.row, each.record["begin_ns"]))
    row = None
    free: list[tuple[int, int]] = []  # (free from when, lane)
    for each in laid_out:
        if each.row != row:
            row, free = each.row, []
        if free and free[0][0] <= each.record["begin_ns"]:
            each.lane = heapq.heappop(free)[1]
        else:
            each.lane = len(free)
        heapq.heappush(free, (max(each.record["end_ns"], each.record["begin_ns"] + 1), each.lane))
    return laid_out


def _numbered(slices: list[_Slice]) -> list[_Slice]:
    tids = {thread: tid for tid, thread in enumerate(sorted({(each.row, each.lane) for each in slices}), 1)}
    for each in slices:
        each.tid = tids[each.row, each.lane]
    return slices


def _events(job: CommunicatorTrace, rank: int, slices: list[_Slice], origin: int) -> Iterator[dict[str, Any]]:
    host = job.ranks[rank].owner.get("host", "")
    yield _about("process_name", rank, name=f"rank {rank}" + (f" on {host}" if host else ""))
    yield _about("process_sort_index", rank, sort_index=rank)
    for tid, name in sorted({(each.tid, each.thread) for each in slices}):
        yield _about("thread_name", rank, tid, name=name)
        yield _about("thread_sort_index", rank, tid, sort_index=tid)
    for each in slices:
        record = each.record
        took_ns = max(record["end_ns"] - record["begin_ns"], 0)
        shown = {key: value for key, value in record.items() if key not in ("type", "begin_ns", "end_ns", "at_ns")}
        if took_ns and record.get("bytes"):
            shown["GB/s"] = round(record["bytes"] / took_ns, 3)
        yield {
            **{"ph": "X", "pid": rank, "tid": each.tid, "name": each.name, "args": shown},
            **{"ts": (record["begin_ns"] - origin) / 1e3, "dur": took_ns / 1e3},  # us
        }


def _about(what: str, rank: int, tid: int = 0, **args: str | int) -> dict[str, Any]:
    return {"ph": "M", "pid": rank, "tid": tid, "name": what, "args": args}


def _arrows(slices: dict[int, list[_Slice]], origin: int) -> list[dict[str, Any]]:
    """From each message's sender to its receiver: in a chunk, the k-th send meets the k-th receive."""
    ends: dict[tuple[int, ...], list[tuple[int, int, _Slice]]] = {}
    for rank, mine in slices.items():
        for each in mine:
            if each.row[0] >= _MESSAGES:
                record = each.record
                sends = record["step"] == "send"
                pair = (rank, record["peer"]) if sends else (record["peer"], rank)
                key = (record["sequence"], *pair, record["chunk"], int(sends))
                ends.setdefault(key, []).append((record["index"], rank, each))
    arrows: list[dict[str, Any]] = []
    for key, sent in ends.items():
        received = ends.get((*key[:-1], 0), [])
        if not key[-1] or len(received) != len(sent):  # some have been overwritten by later ones
            continue
        for send, receive in zip(_in_order(sent), _in_order(received), strict=True):
            number = len(arrows) // 2
            for phase, (_, rank, each) in (("s", send), ("f", receive)):
                at_ns = each.record["begin_ns" if phase == "s" else "end_ns"]
                arrows.append(
                    {
                        **{"ph": phase, "bp": "e", "cat": "message", "name": "message", "id": number},
                        **{"pid": rank, "tid": each.tid, "ts": (at_ns - origin) / 1e3},
                    }
                )
    return arrows


def _in_order(ends: list[tuple[int, int, _Slice]]) -> list[tuple[int, int, _Slice]]:
    return sorted(ends, key=lambda end: end[0])
