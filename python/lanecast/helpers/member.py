# SPDX-License-Identifier: Apache-2.0
"""One helper as its leader knows it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from lanecast.helpers.channel import Channel

_STATES = {"T": "is stopped", "t": "is stopped by a debugger", "Z": "has ended", "D": "waits for a disk"}


@dataclass
class Member:
    """One helper."""

    place: int  # among the processes of its leader, which is 0 itself
    pid: int
    cores: tuple[int, ...]
    channel: Channel
    process: subprocess.Popen[bytes] | None = None  # of those that the library has started

    def end(self, grace_s: float = 0.0) -> None:
        """It hears of no more calls; a process that the library has started is waited for, or killed."""
        self.channel.close()
        if self.process is None:
            return
        try:
            self.process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def processor_time(self) -> float:
        """That it has taken, in ticks; -2 where it is not there."""
        fields = self._stat()
        return float(fields[11]) + float(fields[12]) if fields else -2.0

    def state(self) -> str:
        """What it is doing, for people."""
        fields = self._stat()
        return _STATES.get(fields[0], "sleeps") if fields else "is not there"

    def _stat(self) -> list[str]:
        """/proc/PID/stat from the state on."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return []
