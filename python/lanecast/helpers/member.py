# SPDX-License-Identifier: Apache-2.0
"""One helper as its leader knows it."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lanecast.helpers.channel import Channel, Closed

_STATES = {"T": "is stopped", "t": "is stopped by a debugger", "Z": "has ended", "D": "waits for a disk"}


class StartedProcess:
    """A helper's process that the library has started; it ends with the last communicator whose calls it helps in."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process, self._users = process, 1

    def one_more_user(self) -> StartedProcess:
        self._users += 1
        return self

    def status(self, grace_s: float) -> int:
        """With which it has ended. Raises subprocess.TimeoutExpired."""
        return self._process.wait(grace_s)

    def let_go(self, grace_s: float) -> None:
        """By one user; the last one waits for its end, or kills it."""
        self._users -= 1
        if self._users > 0:
            return
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@dataclass
class Member:
    """One helper."""

    place: int  # among the processes of its leader, which is 0 itself
    pid: int
    cores: tuple[int, ...]
    channel: Channel
    process: StartedProcess | None = None  # of those that the library has started

    def for_child(self, **split: Any) -> Member:
        """The same helper, told to split its communicator, and heard by a channel of the child's own."""
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs, suppress(Closed):  # the child's first question says so
            self.channel.send(theirs.fileno(), do="split", leader=os.getpid(), **split)
        process = self.process and self.process.one_more_user()
        return Member(self.place, self.pid, self.cores, Channel(mine), process)

    def end(self, grace_s: float = 0.0) -> None:
        """It hears of no more calls; a process that the library has started is waited for, or killed."""
        self.channel.close()
        if self.process is not None:
            self.process.let_go(grace_s)

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
