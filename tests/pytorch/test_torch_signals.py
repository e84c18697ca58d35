# SPDX-License-Identifier: Apache-2.0
"""Python's handlers of signals run in whatever waits, and what they raise ends the wait."""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import torch_signals
from torch_jobs import free_port, rank_environment

SCRIPT = Path(__file__).parent / "torch_signals.py"
AT_MOST_S = 60.0  # a wait that hears nothing lasts 100


class Ranks:
    """Two of them, and what they say, line by line."""

    def __init__(self) -> None:
        port = free_port()
        self.ranks = [
            subprocess.Popen(
                [sys.executable, str(SCRIPT)], env=rank_environment(rank, 2, port), stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            for rank in range(2)
        ]  # fmt: skip
        self.said = [b"", b""]

    def tell(self, rank: int, line: str) -> None:
        stdin = self.ranks[rank].stdin
        assert stdin is not None
        stdin.write(f"{line}\n".encode())
        stdin.flush()

    def line_of(self, rank: int) -> str:
        out = self.ranks[rank].stdout
        assert out is not None
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            until = time.monotonic() + AT_MOST_S
            while b"\n" not in self.said[rank]:
                assert selector.select(max(until - time.monotonic(), 0)), f"rank {rank} says nothing"
                more = os.read(out.fileno(), 4096)
                assert more, f"rank {rank} has ended: {self.ranks[rank].wait()}"
                self.said[rank] += more
        line, self.said[rank] = self.said[rank].split(b"\n", 1)
        return line.decode()

    def end(self) -> None:
        for rank in self.ranks:
            rank.kill()
            rank.wait()


@pytest.fixture(scope="module")
def kept() -> Iterator[list[Ranks]]:
    ranks: list[Ranks] = []
    yield ranks
    for each in ranks:
        each.end()


@pytest.fixture
def ranks(kept: list[Ranks], request: pytest.FixtureRequest) -> Iterator[Ranks]:
    """The same for all tests, as long as these succeed: importing torch takes seconds."""
    if not kept:
        kept.append(Ranks())
    failed = request.session.testsfailed
    yield kept[0]
    if request.session.testsfailed > failed:
        kept.pop().end()


@pytest.mark.parametrize("way", list(torch_signals.WAYS))
def test_every_wait_hears_signals(ranks: Ranks, way: str) -> None:
    waiting = ranks.ranks[1].pid
    for rank in range(2):
        ranks.tell(rank, way)
    assert ranks.line_of(0) == "away"
    assert ranks.line_of(1) == "waiting"
    time.sleep(0.2)  # most often it is in the call then, and what comes before lets handlers run as well
    os.kill(waiting, signal.SIGUSR1)
    assert ranks.line_of(1) == "heard"
    os.kill(waiting, signal.SIGINT)
    assert ranks.line_of(1) == "interrupted"
    ranks.tell(0, "come")
    if way in torch_signals.HEARD_BY_PEER:
        told = ranks.line_of(0)
        assert told.startswith("told"), told
        assert "rank 1" in told
        assert "KeyboardInterrupt" in told
    ranks.tell(1, "go on")
    assert [ranks.line_of(rank) for rank in range(2)] == ["done", "done"]


def test_handler_that_gives_groups_back(ranks: Ranks, kept: list[Ranks]) -> None:
    """It does not wait for the call that it interrupts, nor does the process."""
    kept.clear()
    try:
        ranks.tell(1, "handler ends all")
        assert ranks.line_of(1) == "waiting"
        time.sleep(0.2)
        os.kill(ranks.ranks[1].pid, signal.SIGTERM)
        assert ranks.line_of(1) == "destroyed"
        assert ranks.ranks[1].wait(AT_MOST_S) == 7
    finally:
        ranks.end()
