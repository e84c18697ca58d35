# SPDX-License-Identifier: Apache-2.0
"""Trace files of ranks, put together by communicator. Their writer is src/runtime/watch/trace_file.cpp."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lanecast._core import UsageError
from lanecast.fields import FieldError

_CALL = {
    **{"sequence": int, "collective": str, "op": str, "dtype": str, "root": int, "bytes": int},
    **{"algorithm": str, "chunks": int, "state": str, "begin_ns": int, "end_ns": int},
}
_WAIT: dict[str, type] = {"sequence": int, "begin_ns": int, "end_ns": int}
_WORK = {**_WAIT, "step": str, "index": int, "chunk": int, "bytes": int}
_MESSAGE = {**_WORK, "peer": int, "transport": str}
_OWNER = {
    **{"id": str, "rank": int, "size": int, "topology": str, "levels": str},
    **{"written_ns": int, "waiting": str, "failure": str},
}
_LAUNCH = {"call": int, "what": str, "bytes": int, "kernel": str, "blocks": int, "at_ns": int}
_FIELDS = {
    "communicator": _OWNER,
    "call": _CALL,
    "message": _MESSAGE,
    "work": _WORK,
    "wait": _WAIT,
    "launch": _LAUNCH,
}
_LISTS = {"launch": "launches"}  # of a RankTrace, where an s does not make them


@dataclass
class RankTrace:
    """One rank's file: who wrote it, its calls, and what it did for their steps, in order. Times are ns since 1970.

    messages: sent, received, or moved by a library's collective; works: reductions and copies of its own; waits: when
    none of its messages moved and it had nothing else to do; launches: of kernels, by calls on GPUs within a host.
    """

    owner: dict[str, Any]
    calls: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    works: list[dict[str, Any]] = field(default_factory=list)
    waits: list[dict[str, Any]] = field(default_factory=list)
    launches: list[dict[str, Any]] = field(default_factory=list)

    @property
    def last_sequence(self) -> int:
        """The number of the last call that this rank began."""
        return self.calls[-1]["sequence"] if self.calls else 0


@dataclass
class CommunicatorTrace:
    """The files of one communicator's ranks; some may have left none."""

    id: str
    size: int
    topology: str
    ranks: dict[int, RankTrace]


def read(directory: Path) -> list[CommunicatorTrace]:
    """All communicators of which `directory` holds traces, the largest first. Raises UsageError (file, line)."""
    found: dict[str, CommunicatorTrace] = {}
    # Where others may write, a pipe or a device could lie there, and be read for ever.
    for path in sorted(each for each in directory.glob("*.jsonl") if each.is_file()):
        trace = _read_rank(path)
        owner = trace.owner
        job = found.setdefault(owner["id"], CommunicatorTrace(owner["id"], owner["size"], owner["topology"], {}))
        if owner["size"] != job.size:
            raise UsageError(f"{path}: of {owner['size']} ranks, while other files of {job.id} are of {job.size}")
        job.ranks[owner["rank"]] = trace
    if not found:
        raise UsageError(f"{directory} holds no traces; set LANECAST_TRACE_DIR where the program runs")
    for job in found.values():
        job.ranks = dict(sorted(job.ranks.items()))
    return sorted(found.values(), key=lambda job: (-job.size, job.id))


def _read_rank(path: Path) -> RankTrace:
    trace = None
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        try:
            record = _checked(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{path}, line {number}: no record of a trace ({error})") from None
        if record["type"] == "communicator":
            trace = RankTrace(record)
        elif trace is not None:
            getattr(trace, _LISTS.get(record["type"], record["type"] + "s")).append(record)
    if trace is None:
        raise UsageError(f"{path} is empty: no trace")
    return trace


def _checked(record: Any) -> dict[str, Any]:
    """The record, when it has the fields of its type. A whole number is one that the writer's 64 bits hold."""
    if not isinstance(record, dict):
        raise FieldError("record", "expected named fields")
    kind = record.get("type")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise FieldError("type", f"expected one of {', '.join(_FIELDS)}")
    optional = {"level": int} if "level" in record else {}
    for name, expected in (_FIELDS[kind] | optional).items():
        value = record.get(name)
        if type(value) is not expected:
            raise FieldError(name, f"{value!r} is no {'text' if expected is str else 'whole number'}")
        if isinstance(value, int) and abs(value) >= 2**63:
            raise FieldError(name, "is out of range")
    if kind == "communicator" and not 0 <= record["rank"] < record["size"]:
        raise FieldError("rank", f"{record['rank']} of {record['size']} ranks")
    return record
