# SPDX-License-Identifier: Apache-2.0
"""What a process inherits and nobody expects: limits of files and threads, ignored signals, folders that are shut."""

from __future__ import annotations

import functools
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lanecast import Communicator
from pipe_jobs import Outcome, PipeJob, Tell

BETWEEN_HOSTS = {"hosts": "ab", "transports": "ucx"}
USER = 47110  # nobody has this number, so nobody has a thread of it


def split_within(comm: Communicator, _: Tell, *, limit: int, most: int) -> None:
    """Rank 0 has reached a limit when it makes one more communicator."""
    if comm.rank == 0:
        if limit == resource.RLIMIT_NOFILE:
            most += sum(1 for _ in Path("/proc/self/fd").iterdir())
        resource.setrlimit(limit, (most, most))
    comm.split(0)


def outcomes(body: functools.partial[None]) -> list[Outcome]:
    job = PipeJob(2, body, timeout_s=60, **BETWEEN_HOSTS)
    found = [job.outcome(rank) for rank in range(2)]
    job.end()
    return found


@pytest.mark.parametrize(
    ("limit", "most", "words"),
    [
        (resource.RLIMIT_NOFILE, 2, "files open and may have"),
        (resource.RLIMIT_FSIZE, 4096, "files may have 4096 bytes: raise the limit (ulimit -f)"),
    ],
)
def test_a_limit_that_ucx_meets_is_named_on_all_ranks(limit: int, most: int, words: str) -> None:
    """UCX says "Input/output error" of either."""
    for outcome in outcomes(functools.partial(split_within, limit=limit, most=most)):
        assert "rank 0: UCX" in outcome.text
        assert words in outcome.text
        assert "raise the limit (ulimit" in outcome.text


def starts_without_threads(comm: Communicator, _: Tell) -> None:
    if comm.rank == 0:
        os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    work = comm.all_reduce(np.ones(3), async_op=True)
    assert work is not None
    work.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user, whose threads are counted")
def test_a_thread_that_cannot_be_started_is_an_error_with_what_to_do() -> None:
    first, second = outcomes(functools.partial(starts_without_threads))
    assert first.error == "TransportError"
    assert "a thread of the library cannot be started: Resource temporarily unavailable" in first.text
    assert "ulimit -u" in first.text
    assert second.error == "TransportError"
    assert "rank 0" in second.text


def printed(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_commands_hear_how_their_jobs_end_where_sigchld_is_ignored() -> None:
    lines = printed("""
import contextlib, signal, subprocess, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print(subprocess.run(["false"]).returncode)
from lanecast.cli import main
sys.argv = ["lanecast", "--version"]
with contextlib.suppress(SystemExit):
    main()
print(subprocess.run(["false"]).returncode)
""").split()
    assert (lines[0], lines[-1]) == ("0", "1")


def test_a_compiler_that_makes_nothing_has_failed_where_sigchld_is_ignored(tmp_path: Path) -> None:
    assert (
        printed(f"""
import pathlib, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
from lanecast import compiler
print(compiler.run(["false"], pathlib.Path({str(tmp_path / "made")!r})).returncode)
""")
        == "1\n"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can shut a folder to another user by becoming one")
def test_folders_of_python_that_are_shut_do_no_harm(tmp_path: Path) -> None:
    shut = tmp_path / "shut"
    (shut / "packages").mkdir(parents=True)
    shut.chmod(0o700)
    assert (
        printed(f"""
import os, sys
from lanecast import gpu_libraries
sys.path = [{str(shut / "packages")!r}]
os.setresuid({USER}, {USER}, {USER})
print(gpu_libraries.folders())
""")
        == "[]\n"
    )
