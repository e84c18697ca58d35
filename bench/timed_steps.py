# SPDX-License-Identifier: Apache-2.0
"""Programs one after the other within a time given for all: a slow or broken one costs only its own results."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_GRACE_S = 5.0  # for a program that is told to end, until all of it is killed
_LINE = 160  # characters of a summary
_TAIL = 3000  # characters of its output, kept where it fails


@dataclass(frozen=True)
class Step:
    """One program. tags: put into each of the rows that it leaves; weight: its part of the time, beside the others'."""

    name: str
    command: tuple[str, ...]
    weight: float
    tags: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    leaves_rows: bool = True  # in the file that it gets as --json FILE


@dataclass(frozen=True)
class Outcome:
    """What became of a step; problem: empty where it ended well."""

    step: Step
    seconds: float
    rows: list[dict[str, Any]]
    problem: str = ""
    output: str = ""  # the end of it where there is a problem, else the last line

    @property
    def summary(self) -> str:
        """The problem with the last error that the program names; of one that leaves no rows, its last line."""
        lines = self.output.splitlines() or [""]
        said = lines[-1] if self.problem or not self.step.leaves_rows else ""
        if self.problem:
            said = next((line for line in reversed(lines) if "Error" in line), said)
        return ": ".join(text for text in (self.problem, said[:_LINE]) if text) or "done"

    def facts(self) -> dict[str, Any]:
        """All but the rows, for a file."""
        said = {"name": self.step.name, "command": list(self.step.command), "environment": self.step.environment}
        return {**said, "seconds": self.seconds, "rows": len(self.rows), "problem": self.problem, "output": self.output}


def shares(steps: Sequence[Step], limit_s: float) -> Iterator[tuple[Step, float]]:
    """Each step with the seconds that it may take; what one leaves of them goes to those behind it."""
    end = time.monotonic() + limit_s
    for k, step in enumerate(steps):
        yield step, (end - time.monotonic()) * step.weight / sum(later.weight for later in steps[k:])


def run(step: Step, limit_s: float, folder: Path) -> Outcome:
    """Run it, and end all of it after so many seconds; rows that were written by then count. folder: for its files."""
    file, log = folder / "rows.json", folder / "output.txt"
    file.unlink(missing_ok=True)
    command = [*step.command, *(["--json", str(file)] if step.leaves_rows else [])]
    begun = time.monotonic()
    with log.open("w") as output:
        problem = _status(command, {**os.environ, **step.environment}, output.fileno(), limit_s)
    text = log.read_text(errors="replace")[-_TAIL:].strip()
    text = text if problem else text.rpartition("\n")[2]
    rows = [{**row, **step.tags} for row in _rows(file)]
    return Outcome(step, time.monotonic() - begun, rows, problem, text)


def _status(command: list[str], environment: dict[str, str], output: int, limit_s: float) -> str:
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
    )
    try:
        status = process.wait(max(1.0, limit_s - _GRACE_S))
        return f"ended with status {status}" if status else ""
    except subprocess.TimeoutExpired:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        return f"took longer than its {limit_s:.0f} s"
    finally:
        with contextlib.suppress(ProcessLookupError):  # where nothing of it is left
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _rows(file: Path) -> list[dict[str, Any]]:
    """A list, or what stands under "rows"; none where the file is missing or was being written at the end."""
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return []
    rows: list[dict[str, Any]] = found if isinstance(found, list) else found["rows"]
    return rows
