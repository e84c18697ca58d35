# SPDX-License-Identifier: Apache-2.0
"""Random faults on one rank, in the middle of random calls: every other rank ends in an error that names it."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

import lanecast
from fault_rank import KINDS, Fault, Outcome, again, drawn, run
from lanecast import Communicator
from launch import MPICH, OPENMPI
from pipe_jobs import PipeJob
from test_faults import ours_in_dev_shm

FAULTS = int(os.environ.get("LONG_FAULTS", "240"))
AMONG_THREADS = ("slow", "mismatch", "exception", "destroyed")  # a thread cannot be killed
DEADLINE_S = 3.0  # who waits for whom is asked in a quarter of it, on a machine that may be busy
SOON_S = 3.0  # a fault that a peer can see; much of it is this machine's load
# What a shell says of a rank that MPICH ends when a peer of its messages is killed: see docs/errors.md.
ENDED_BY_MPICH = re.compile("Aborted|Segmentation fault")


class Figures:
    """Seconds from fault to error, by transport and kind, and everything that was wrong."""

    def __init__(self) -> None:
        self.seconds: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self.faults: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.ended = 0  # by MPICH, before they could say anything
        self.wrong: list[str] = []

    def judge(self, transport: str, fault: Fault, happened_s: float, outcomes: dict[int, Outcome]) -> None:
        self.faults[transport, fault.kind] += 1
        others = [outcome.text for rank, outcome in outcomes.items() if rank != fault.victim]
        if fault.kind == "stop" and not any(_names(fault, text) for text in others):
            self.wrong.append(f"{transport}, {fault}: nobody names the rank; {outcomes}")
        for rank, outcome in outcomes.items():
            took_s = outcome.at_s - happened_s
            if outcome.error == ENDED_BY_MPICH.pattern:
                self.ended += 1
                continue
            if fault.kind != "slow" and rank != fault.victim:
                self.seconds[transport, fault.kind].append(took_s)
            if complaint := complaints(transport, fault, rank, outcome, took_s):
                self.wrong.append(f"{transport}, {fault}, rank {rank}: {complaint}; {outcome}")

    def __str__(self) -> str:
        lines = ["transport  kind        faults  errors  median s  longest s"]
        for key in sorted(self.faults):
            seconds = sorted(self.seconds[key]) or [0.0]
            lines.append(
                f"{key[0]:9}  {key[1]:10}  {self.faults[key]:6}  {len(self.seconds[key]):6}  "
                f"{seconds[len(seconds) // 2]:8.3f}  {seconds[-1]:9.3f}"
            )
        last = f"{sum(self.faults.values())} faults, {len(self.wrong)} wrong, {self.ended} ranks ended by MPICH"
        return "\n".join([*lines, last])


def complaints(transport: str, fault: Fault, rank: int, outcome: Outcome, took_s: float) -> str:
    """What is wrong with how one rank ended; empty when nothing is."""
    if fault.kind == "slow":
        return "an error, though everybody came in time" if outcome.error else ""
    if rank == fault.victim:
        due = {"interrupt": "KeyboardInterrupt", "exception": "RuntimeError", "mismatch": "TransportError"}
        return "" if outcome.error == due.get(fault.kind, "") else "the victim ends otherwise"
    # MPI does not tell who has gone: those ranks run into the deadline. What a rank says before it gives up is heard.
    unseen = {"kill", "stop", "exception", "destroyed", "interrupt"} if transport == "mpi" else {"stop"}
    if outcome.error not in ({"TimeoutError", "TransportError"} if fault.kind in unseen else {"TransportError"}):
        return "another error than due"
    if not _names(fault, outcome.text):
        return "does not name the rank"
    if took_s > SOON_S + (3 * DEADLINE_S if fault.kind in unseen else 0):
        return f"too late, after {took_s:.1f} s"
    return "" if outcome.again in {"", "works"} else "the survivors cannot go on"


def _names(fault: Fault, text: str) -> bool:
    if fault.kind == "mismatch":
        return f"call {fault.call + 1} of this communicator differs" in text
    if fault.kind == "stop":  # a step may name any peer
        waited_for = rf"for rank [\d, ]*\b{fault.victim}\b[\d, ]* in |rank {fault.victim},? (which )?has not answered"
        return re.search(waited_for, text) is not None
    return re.search(rf"rank {fault.victim}\b|for rank [\d, ]*\b{fault.victim}\b", text) is not None


def among_threads(fault: Fault, _: Path) -> tuple[float, dict[int, Outcome]]:
    happened: list[float] = []
    outcomes: dict[int, Outcome] = {}

    def body(comm: Communicator) -> None:
        child = [comm.split(0)]  # the fault may destroy it: nobody else may hold it
        outcomes[comm.rank] = run(child.pop, fault, lambda: happened.append(time.monotonic()))

    lanecast.run_threads(fault.size, body, timeout_s=DEADLINE_S)
    return happened[0], outcomes


def in_process(comm: Communicator, tell: Callable[[Any], None], fault: Fault, folder: Path) -> Outcome:
    child = [comm.split(0)]
    outcome = run(child.pop, fault, lambda: tell(time.monotonic()))
    if fault.kind in {"kill", "stop"}:
        outcome.again = again(fault, comm.rank, folder)
    return outcome


def among_processes(fault: Fault, folder: Path, hosts: str = "") -> tuple[float, dict[int, Outcome]]:
    body = functools.partial(in_process, fault=fault, folder=folder)
    job = PipeJob(fault.size, body, hosts=hosts, timeout_s=DEADLINE_S)
    happened_s = job.told(fault.victim)
    assert isinstance(happened_s, float), f"{fault}: before it happened, its victim ended with {happened_s}"
    dead = {fault.victim} if fault.kind in {"kill", "stop"} else set()
    ended = {rank: job.outcome(rank) for rank in range(fault.size) if rank not in dead}
    for rank in dead:
        job.processes[rank].kill()
    job.end()
    return happened_s, {
        rank: Outcome(end.error, end.text, end.at_s) if end.error else end.value for rank, end in ended.items()
    }


@dataclass(frozen=True)
class Launch:
    """How ranks come to be under mpiexec; `places`: their topology, and what carries messages on each of its levels."""

    openmpi: bool = False
    places: tuple[str, str] = ("", "mpi")

    def command(self, size: int) -> list[str]:
        if self.openmpi:
            return [str(OPENMPI / "mpiexec"), "--oversubscribe", "-n", str(size), str(OPENMPI / "python")]
        # Without its clean-up, MPICH's launcher sends SIGUSR1 to the others when a rank has died, which would end them:
        # a shell takes it for them.
        ignore = ["sh", "-c", 'trap "" USR1; "$@"; exit $?', "sh"]
        return [str(MPICH), "-disable-auto-cleanup", "-n", str(size), *ignore, sys.executable]

    def environment(self) -> dict[str, str]:
        path = OPENMPI if self.openmpi else MPICH.parent
        return {**os.environ, "PATH": f"{path}:{os.environ['PATH']}", "MPIR_CVAR_NOLOCAL": "1"}


def over_mpi(fault: Fault, folder: Path, launch: Launch = Launch()) -> tuple[float, dict[int, Outcome]]:
    program = [str(Path(__file__).parent / "fault_rank.py"), json.dumps(asdict(fault))]
    job = subprocess.Popen(
        [*launch.command(fault.size), *program, str(folder), str(DEADLINE_S), *launch.places],
        env=launch.environment(), stdin=subprocess.DEVNULL, stdout=(folder / "log").open("w"),
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    due = [rank for rank in range(fault.size) if rank != fault.victim or fault.kind not in {"kill", "stop"}]
    deadline = time.monotonic() + 60
    log = folder / "log"
    may_end = fault.kind == "kill" and not launch.openmpi and launch.places[1] == "mpi"

    def ended() -> int:
        return len(ENDED_BY_MPICH.findall(log.read_text())) if may_end else 0

    def heard_of() -> int:
        return sum((folder / f"outcome.{rank}").exists() for rank in due)

    while heard_of() + ended() < len(due) and time.monotonic() < deadline:
        time.sleep(0.02)
    silent = Outcome(ENDED_BY_MPICH.pattern if ended() else "hangs", at_s=deadline)
    outcomes = {}
    for rank in due:
        path = folder / f"outcome.{rank}"
        outcomes[rank] = Outcome(**json.loads(path.read_text())) if path.exists() else silent
    (folder / "judged").touch()
    happened_s, pid = (folder / "happened").read_text().split()
    if fault.kind == "stop":  # Open MPI's ranks are no part of their launcher's process group
        with contextlib.suppress(ProcessLookupError):  # it may have ended them already
            os.kill(int(pid), signal.SIGKILL)
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    return float(happened_s), outcomes


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_campaign(tmp_path: Path) -> None:
    figures = Figures()
    before = ours_in_dev_shm()
    for number in range(FAULTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        size = 2 + number % 3
        provoke: Callable[[Fault, Path], tuple[float, dict[int, Outcome]]]
        if number % 6 == 0:
            transport, fault, provoke = "mpi", drawn(number // 6, size), over_mpi
        elif number % 2 == 0:
            transport, fault, provoke = "loopback", drawn(number // 2, size, AMONG_THREADS), among_threads
        elif number % 6 == 1:
            transport, fault, provoke = (
                "ucx",
                drawn(number // 6, size),
                functools.partial(among_processes, hosts="abcd"),
            )
        else:
            transport, fault, provoke = "shm", drawn(number // 2, size), among_processes
        figures.judge(transport, fault, *provoke(fault, folder))
    print(f"\n{figures}")
    if "FAULT_FIGURES" in os.environ:
        Path(os.environ["FAULT_FIGURES"]).write_text(f"{figures}\n" + "\n".join(figures.wrong) + "\n")
    assert figures.wrong == [], "\n".join(figures.wrong)
    assert ours_in_dev_shm() == before


@pytest.mark.parametrize("kind", KINDS)
def test_one_of_each_kind(kind: str, tmp_path: Path) -> None:
    figures = Figures()
    fault = drawn(KINDS.index(kind), 3)
    figures.judge("shm", fault, *among_processes(fault, tmp_path))
    assert figures.wrong == [], figures.wrong


@pytest.mark.parametrize(
    "launch",
    [Launch(), Launch(places=("2x2", "mpi,shm")), Launch(openmpi=True), Launch(True, ("2x2", "mpi,shm"))],
    ids=["mpich", "mpich+shm", "openmpi", "openmpi+shm"],
)
def test_stopped_rank_is_named_by_all_others_over_mpi(launch: Launch, tmp_path: Path) -> None:
    # With this seed the calls from that one on go by ring: only two ranks have anything to do with the stopped one.
    fault = Fault("stop", seed=1113, size=4, victim=1, call=3, delay_ms=1.0, async_op=False)
    figures = Figures()
    figures.judge("mpi", fault, *over_mpi(fault, tmp_path, launch))
    assert figures.wrong == [], figures.wrong


@pytest.mark.parametrize(("seed", "size"), [(0, 2), (1, 3), (2, 3)])
def test_killed_rank_is_named_over_ucx_under_mpich(seed: int, size: int, tmp_path: Path) -> None:
    """Where its messages went over MPI, MPICH itself might end the survivors."""
    fault = Fault("kill", seed=seed, size=size, victim=1, call=5, delay_ms=0.3, async_op=False)
    figures = Figures()
    figures.judge("ucx", fault, *over_mpi(fault, tmp_path, Launch(places=("", "ucx"))))
    assert figures.wrong == [], figures.wrong
