# SPDX-License-Identifier: Apache-2.0
"""Random faults on one rank, in the middle of random calls: every other rank ends in an error that names it."""

from __future__ import annotations

import contextlib
import faulthandler
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
from fault_rank import KINDS, PLACES, Fault, Outcome, again, drawn, meets_a_message, run
from lanecast import Communicator
from launch import MPICH, OPENMPI
from pipe_jobs import PipeJob
from test_faults import ours_in_dev_shm

FAULTS = int(os.environ.get("LONG_FAULTS", "240"))
AMONG_THREADS = ("slow", "mismatch", "exception", "destroyed")  # a thread cannot be killed
DEADLINE_S = 3.0  # of the campaign
BUSY_S = 8.0  # where a machine may be: within a quarter of it ranks are asked for whom they wait, and answer
ANSWERED_S = DEADLINE_S / 4  # how much longer an answer may take that was asked for late
GONE_S = 2.0  # until UCX gives up a connection to a process that has ended
SOON_S = 1.0  # hundredths of it where notes travel; the campaign looks at it, which has the machine for itself
PATIENT_S = (
    40.0  # the deadline of what must show before it, which the kind of the error tells on a machine that is busy
)
TYPICALLY_S = 0.3  # the median over many faults
ENDED = "ended by MPICH"  # when a peer of its messages is killed: see docs/reference/when-ranks-fail.md
MAY_SEND = "may send"  # a mismatch that none can tell before the deadline: see docs/reference/different-calls.md
FRAME = re.compile(r"^ *\d+ +\S*/(\w+)[^/\s]*\.so[.\d]*\(", re.MULTILINE)  # of the stack that UCX prints at such an end


class Figures:
    """Seconds from fault to error, by transport and kind, and everything that was wrong; `timed`: late errors, too."""

    def __init__(self, timed: bool = False) -> None:
        self.timed = timed
        self.seconds: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self.faults: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.ended = 0  # by MPICH, before they could say anything
        self.wrong: list[str] = []

    def judge(self, transport: str, fault: Fault, happened_s: float, outcomes: dict[int, Outcome]) -> None:
        kind = kind_of(fault)
        self.faults[transport, kind] += 1
        others = [outcome.text for rank, outcome in outcomes.items() if rank != fault.victim]
        if fault.kind == "stop" and not any(_names(fault, text) for text in others):
            self.wrong.append(f"{transport}, {fault}: nobody names the rank; {outcomes}")
        all_here = all(outcome.error != ENDED for outcome in outcomes.values())
        for rank, outcome in outcomes.items():
            took_s = outcome.at_s - happened_s
            if outcome.error == ENDED:
                self.ended += 1
                continue
            if fault.kind != "slow" and rank != fault.victim:
                self.seconds[transport, kind].append(took_s)
            if not all_here:
                outcome.again = ""  # it waits for the one that has been ended as well
            complaint = complaints(transport, fault, rank, outcome)
            if not complaint and self.timed and took_s > due_s(transport, fault, rank) + SOON_S:
                complaint = f"too late, after {took_s:.1f} s"
            if complaint:
                self.wrong.append(f"{transport}, {fault}, rank {rank}: {complaint}; {outcome}")

    def judge_medians(self) -> None:
        for (transport, kind), seconds in self.seconds.items():
            median = sorted(seconds)[len(seconds) // 2]
            if median > (DEADLINE_S + ANSWERED_S if kind in unseen(transport) else 0) + TYPICALLY_S:
                self.wrong.append(f"{transport}, {kind}: the errors come late: half of them after {median:.3f} s")

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


def due_s(transport: str, fault: Fault, rank: int) -> float:
    """From the fault to the error of that rank, at most; of the victim itself nothing is said."""
    if rank == fault.victim or fault.kind == "slow":
        return float("inf")
    if kind_of(fault) in unseen(transport):
        return DEADLINE_S + ANSWERED_S
    return GONE_S if (transport, fault.kind) == ("ucx", "kill") else 0


def complaints(transport: str, fault: Fault, rank: int, outcome: Outcome) -> str:
    """What is wrong with how one rank ended; empty when nothing is."""
    if fault.kind == "slow":
        return "an error, though everybody came in time" if outcome.error else ""
    if rank == fault.victim:
        due = {"interrupt": "KeyboardInterrupt", "exception": "RuntimeError", "mismatch": "TransportError"}
        also = "TimeoutError" if kind_of(fault) == MAY_SEND else ""
        return "" if outcome.error in {due.get(fault.kind, ""), also} else "the victim ends otherwise"
    late = kind_of(fault) in unseen(transport)
    if outcome.error not in ({"TimeoutError", "TransportError"} if late else {"TransportError"}):
        return "another error than due"
    if not _names(fault, outcome.text):
        return "does not name the rank"
    return "" if outcome.again in {"", "works"} else "the survivors cannot go on"


def unseen(transport: str) -> set[str]:
    """Faults that only the deadline shows. MPI does not tell who has gone; what a rank says before it is heard."""
    late = {"kill", "stop", "exception", "destroyed", "interrupt"} if transport == "mpi" else {"stop"}
    return late | {MAY_SEND}


def deadline_s(transport: str, fault: Fault) -> float:
    """Of a single fault: short where only the deadline shows it."""
    return BUSY_S if kind_of(fault) in unseen(transport) else PATIENT_S


def kind_of(fault: Fault) -> str:
    """Its row of the figures."""
    return MAY_SEND if meets_a_message(fault) else fault.kind


def _names(fault: Fault, text: str) -> bool:
    if kind_of(fault) == "mismatch":
        call = f"call {fault.call + 2} of this communicator"
        against_a_message = rf"neither can end: .*rank {fault.victim} calls [^;]*\({call}\)"
        return f"{call} differs" in text or re.search(against_a_message, text) is not None
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

    lanecast.run_threads(fault.size, body, topology=PLACES[fault.size], timeout_s=DEADLINE_S)
    return happened[0], outcomes


def in_process(comm: Communicator, tell: Callable[[Any], None], fault: Fault, folder: Path) -> Outcome:
    child = [comm.split(0)]
    outcome = run(child.pop, fault, lambda: tell(time.monotonic()))
    if fault.kind in {"kill", "stop"}:
        outcome.again = again(fault, comm.rank, folder)
    return outcome


def among_processes(
    fault: Fault, folder: Path, hosts: str = "", timeout_s: float = DEADLINE_S
) -> tuple[float, dict[int, Outcome]]:
    body = functools.partial(in_process, fault=fault, folder=folder)
    job = PipeJob(fault.size, body, hosts=hosts, topology=PLACES[fault.size], timeout_s=timeout_s)
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

    def command(self, size: int, folder: Path) -> list[str]:
        if self.openmpi:
            return [str(OPENMPI / "mpiexec"), "--oversubscribe", "-n", str(size), str(OPENMPI / "python")]
        # Without its clean-up, MPICH's launcher sends SIGUSR1 to the others when a rank has died, which would end them:
        # a shell takes it for them, and keeps how they end.
        ends = 'echo $status >"$0/ended.$PMI_RANK"; mv "$0/ended.$PMI_RANK" "$0/status.$PMI_RANK"'  # whole at once
        keep = f'"$@" >"$0/log.$PMI_RANK" 2>&1; status=$?; {ends}; exit $status'
        shell = ["sh", "-c", f'trap "" USR1; {keep}', str(folder)]
        return [str(MPICH), "-disable-auto-cleanup", "-n", str(size), *shell, sys.executable]

    def environment(self) -> dict[str, str]:
        path = OPENMPI if self.openmpi else MPICH.parent
        return {
            **os.environ,
            "PATH": f"{path}:{os.environ['PATH']}",
            "MPIR_CVAR_NOLOCAL": "1",
            "UCX_HANDLE_ERRORS": "bt",
        }


def ended_in(log: str) -> str:
    """The library in which a signal has met a rank, below UCX's own handler of it."""
    return next((library for library in FRAME.findall(log) if library not in {"libucs", "libc"}), "")


def silent(folder: Path, rank: int, may_end: bool) -> Outcome:
    """Of a rank that has left no outcome."""
    status = folder / f"status.{rank}"
    if not status.exists():
        return Outcome("hangs", at_s=time.monotonic())
    log = (folder / f"log.{rank}").read_text(errors="replace")
    by_mpich = may_end and ended_in(log) in {"libmpi", "libucp", "libuct", "libuct_cma"}
    return Outcome(
        ENDED if by_mpich else f"ends with status {status.read_text().strip()}", log[-2000:], time.monotonic()
    )


def over_mpi(
    fault: Fault, folder: Path, launch: Launch = Launch(), timeout_s: float = DEADLINE_S
) -> tuple[float, dict[int, Outcome]]:
    program = [str(Path(__file__).parent / "fault_rank.py"), json.dumps(asdict(fault))]
    job = subprocess.Popen(
        [*launch.command(fault.size, folder), *program, str(folder), str(timeout_s), *launch.places],
        env=launch.environment(), stdin=subprocess.DEVNULL, stdout=(folder / "log").open("w"),
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    due = [rank for rank in range(fault.size) if rank != fault.victim or fault.kind not in {"kill", "stop"}]
    deadline = time.monotonic() + 200

    def heard_of(rank: int) -> bool:
        return (folder / f"outcome.{rank}").exists() or (folder / f"status.{rank}").exists()

    while not all(heard_of(rank) for rank in due) and time.monotonic() < deadline:
        time.sleep(0.02)
    may_end = fault.kind == "kill" and launch.places[1] == "mpi"
    outcomes = {}
    for rank in due:
        path = folder / f"outcome.{rank}"
        has_said = path.exists()
        outcomes[rank] = Outcome(**json.loads(path.read_text())) if has_said else silent(folder, rank, may_end)
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
    figures = Figures(timed=True)
    before = ours_in_dev_shm()
    for number in range(FAULTS):
        # pytest's own is for a whole test, and this one takes longer on a busy machine.
        faulthandler.dump_traceback_later(300, exit=True, file=2)
        folder = tmp_path / str(number)
        folder.mkdir()
        size = 2 + (number + number // 6) % 3  # all sizes over each transport
        provoke: Callable[[Fault, Path], tuple[float, dict[int, Outcome]]]
        if number % 6 == 0:
            launch = Launch(places=(PLACES[size], "mpi"))
            transport, fault, provoke = "mpi", drawn(number // 6, size), functools.partial(over_mpi, launch=launch)
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
    figures.judge_medians()
    print(f"\n{figures}")
    if "FAULT_FIGURES" in os.environ:
        Path(os.environ["FAULT_FIGURES"]).write_text(f"{figures}\n" + "\n".join(figures.wrong) + "\n")
    assert figures.wrong == [], "\n".join(figures.wrong)
    assert ours_in_dev_shm() == before


@pytest.mark.parametrize("kind", KINDS)
def test_one_of_each_kind(kind: str, tmp_path: Path) -> None:
    figures = Figures()
    fault = drawn(KINDS.index(kind), 3)
    figures.judge("shm", fault, *among_processes(fault, tmp_path, timeout_s=deadline_s("shm", fault)))
    assert figures.wrong == [], figures.wrong


@pytest.mark.parametrize(
    "launch",
    [Launch(), Launch(places=("2x2", "mpi,shm")), Launch(openmpi=True), Launch(True, ("2x2", "mpi,shm"))],
    ids=["mpich", "mpich+shm", "openmpi", "openmpi+shm"],
)
def test_stopped_rank_is_named_by_all_others_over_mpi(launch: Launch, tmp_path: Path) -> None:
    # With this seed that call and two more go by ring: only two ranks have anything to do with the stopped one.
    fault = Fault("stop", seed=5407, size=4, victim=1, call=3, delay_ms=1.0, async_op=False)
    figures = Figures()
    figures.judge("mpi", fault, *over_mpi(fault, tmp_path, launch, BUSY_S))
    assert figures.wrong == [], figures.wrong


@pytest.mark.parametrize(("seed", "size"), [(0, 2), (1, 3), (2, 3)])
def test_killed_rank_is_named_over_ucx_under_mpich(seed: int, size: int, tmp_path: Path) -> None:
    """Where its messages went over MPI, MPICH itself might end the survivors."""
    fault = Fault("kill", seed=seed, size=size, victim=1, call=5, delay_ms=0.3, async_op=False)
    figures = Figures()
    figures.judge("ucx", fault, *over_mpi(fault, tmp_path, Launch(places=("", "ucx")), deadline_s("ucx", fault)))
    assert figures.wrong == [], figures.wrong
