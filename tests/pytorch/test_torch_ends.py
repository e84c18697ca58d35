# SPDX-License-Identifier: Apache-2.0
"""Bad input, faults and ends: torch's exceptions with the engine's words, on every rank that lives."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from torch_jobs import NO_GPU, free_port, rank_environment

SCRIPT = Path(__file__).parent / "torch_ends.py"


def end_codes(name: str) -> list[int]:
    """Exit codes of two ranks."""
    port = free_port()
    ranks = [
        subprocess.Popen([sys.executable, str(SCRIPT), name], env=rank_environment(rank, 2, port) | NO_GPU)
        for rank in range(2)
    ]
    try:
        return [rank.wait(100) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()


@pytest.mark.parametrize(
    "name",
    [
        "wrong_tensors",
        "different_calls",
        "splits_on_one_rank",
        "late_rank",
        "work_timeout",
        "abort",
        "nobody_comes_to_gloo",
        "abort_while_gloo_is_awaited",
        "blocking_without_threads",
        "threads_take_no_signals",
        "message_beside_blocking",
        "shutdown_while_blocked",
        "forked",
        "process_ends_with_works",
        "process_ends_beside_daemon_threads",
        "daemon_thread_is_joined",
    ],
)
def test_end(name: str) -> None:
    assert end_codes(name) == [0, 0]


def test_shrunk_when_a_rank_is_killed() -> None:
    assert end_codes("shrunk_when_a_rank_is_killed") == [0, -signal.SIGKILL]


def test_killed_in_backward() -> None:
    assert end_codes("killed_in_backward") == [0, -signal.SIGKILL]
