# SPDX-License-Identifier: Apache-2.0
"""Trace files of ranks, put together by communicator. Their writer is src/runtime/trace_file.cpp."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lanecast._core import UsageError


@dataclass
class RankTrace:
    """One rank's file: who wrote it, its calls and messages, the oldest first. Times are ns since 1970."""

    owner: dict[str, Any]
    calls: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)

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
    for path in sorted(directory.glob("*.jsonl")):
        trace = _read_rank(path)
        owner = trace.owner
        job = found.setdefault(owner["id"], CommunicatorTrace(owner["id"], owner["size"], owner["topology"], {}))
        job.ranks[owner["rank"]] = trace
    if not found:
        raise UsageError(f"{directory} holds no traces; set LANECAST_TRACE_DIR where the program runs")
    for job in found.values():
        job.ranks = dict(sorted(job.ranks.items()))
    return sorted(found.values(), key=lambda job: (-job.size, job.id))


def _read_rank(path: Path) -> RankTrace:
    trace = None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            record = json.loads(line)
            if record["type"] == "communicator":
                trace = RankTrace(record)
            elif trace is not None:
                {"call": trace.calls, "message": trace.messages}[record["type"]].append(record)
        except (ValueError, KeyError) as error:
            raise UsageError(f"{path}, line {number}: no record of a trace ({error})") from None
    if trace is None:
        raise UsageError(f"{path} is empty: no trace")
    return trace
