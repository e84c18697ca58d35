# SPDX-License-Identifier: Apache-2.0
"""Jobs of processes without a launcher: ranks that find each other through pipes to the test, and report to it."""

from __future__ import annotations

import faulthandler
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import lanecast
from ranks import fork_server

_CONTEXT = fork_server()
# Longer than the deadline of any job, so that a rank which hangs is heard of in the library's words where it has some.
PATIENCE_S = 200.0
Tell = Callable[[Any], None]
Body = Callable[[lanecast.Communicator, Tell], Any]


def stays_until(ended: Path) -> None:
    """Of a rank for which another waits in vain: it stays until that one says that its wait has ended."""
    while not ended.exists():
        time.sleep(0.02)


def is_interrupted(tell: Tell, wait: Callable[[], object]) -> bool:
    """Does Ctrl-C end a wait? The test is told when to press it."""
    try:
        tell("waiting")
        wait()
    except KeyboardInterrupt:
        return True
    return False


@dataclass(frozen=True)
class Outcome:
    """How a rank's body ended: what it returned, or the name and text of what it raised; at_s as time.monotonic().

    Of a process that has ended without a word: how, and what it has left on stderr.
    """

    value: Any
    error: str
    text: str
    at_s: float


class _PipeGather:
    """What a launcher's store would offer; here a thread of the test serves it."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def __call__(self, mine: bytes) -> bytes:
        self._pipe.send_bytes(mine)
        return self._pipe.recv_bytes()


def _serve(pipes: list[Connection]) -> None:
    while True:
        try:
            everyone = b"".join([pipe.recv_bytes() for pipe in pipes])
            for pipe in pipes:
                pipe.send_bytes(everyone)
        except (EOFError, OSError):  # the ranks have closed their ends
            return


def _rank_main(place: tuple[int, int], gather: Connection, report: Connection, body: Body, options: Any) -> None:
    rank, size = place
    stacks = (Path(options.pop("stacks")) / f"{rank}").open("w")
    for words in (1, 2):  # UCX says on stdout what it knows of a signal
        os.dup2(stacks.fileno(), words)
    faulthandler.enable(stacks)
    faulthandler.register(signal.SIGUSR2, stacks)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore Ctrl-C
    os.environ.update(options.pop("environment", {}))
    if hosts := options.pop("hosts", ""):
        os.environ["LANECAST_HOST"] = hosts[rank]
    try:
        comm = lanecast.from_all_gather(rank, size, _PipeGather(gather), **options)
        gather.close()  # nothing but making a communicator needs it
        value = body(comm, report.send)
        report.send(Outcome(value, "", "", time.monotonic()))
    except BaseException as error:
        text = str(error) or repr(error)  # an assertion has none here
        report.send(Outcome(None, type(error).__name__, text, time.monotonic()))


class PipeJob:
    """Starts body(comm, tell) on `size` processes; tell(x) sends x to the test. hosts="aab": as on two."""

    def __init__(self, size: int, body: Body, **options: Any) -> None:
        self._stacks = tempfile.TemporaryDirectory()
        options["stacks"] = self._stacks.name
        here, there = zip(*(_CONTEXT.Pipe() for _ in range(size)), strict=True)
        self._reports, reports = zip(*(_CONTEXT.Pipe(duplex=False) for _ in range(size)), strict=True)
        self.processes = [
            _CONTEXT.Process(target=_rank_main, args=((rank, size), there[rank], reports[rank], body, options))
            for rank in range(size)
        ]
        for process in self.processes:
            process.start()
        for pipe in (*there, *reports):
            pipe.close()
        threading.Thread(target=_serve, args=(list(here),), daemon=True).start()

    def told(self, rank: int, timeout_s: float = PATIENCE_S) -> Any:
        """The next thing that the rank's body has told; an Outcome when it has ended."""
        assert self._reports[rank].poll(timeout_s), f"rank {rank} has told nothing for {timeout_s} s\n{self._where()}"
        try:
            return self._reports[rank].recv()
        except EOFError:
            process = self.processes[rank]
            process.join(PATIENCE_S)
            return Outcome(None, f"ends with exit code {process.exitcode}", self.words(rank), time.monotonic())

    def words(self, rank: int) -> str:
        """What the rank has printed."""
        return (Path(self._stacks.name) / f"{rank}").read_text(errors="replace")

    def _where(self) -> str:
        """What the threads of all ranks are doing."""
        for process in self.processes:
            if process.is_alive():
                os.kill(process.pid or 0, signal.SIGUSR2)
        time.sleep(1)
        return "\n".join(f"rank {rank}:\n{self.words(rank)}" for rank in range(len(self.processes)))

    def outcome(self, rank: int, timeout_s: float = PATIENCE_S) -> Outcome:
        """How the rank ended, past whatever it still had to tell."""
        while not isinstance(told := self.told(rank, timeout_s), Outcome):
            pass
        return told

    def end(self) -> list[int | None]:
        """Waits for all processes; their exit codes."""
        for process in self.processes:
            process.join(PATIENCE_S)
        return [process.exitcode for process in self.processes]
