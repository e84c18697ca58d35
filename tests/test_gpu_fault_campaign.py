# SPDX-License-Identifier: Apache-2.0
"""Random faults amid calls between hosts on GPUs, without a GPU: all others name who it was, and nothing is left."""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import os
import random
import re
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import gpu_host_library
from emulated_gpu import STAND_IN
from emulated_network import network
from gpu_fault_rank import WHY, GpuFault, GpuOutcome, Rest, body
from lanecast.cluster.gpu_nics import Network, await_ready, command, parse
from pipe_jobs import Outcome, PipeJob

FAULTS = int(os.environ.get("LONG_FAULTS", "200"))
DEADLINE_S = 3.0
# Of what shows before it, or not at all: the kind of the error tells, on a machine that is busy.
PATIENT_S = 60.0
PAUSE = 0.4  # of the deadline
# The hosts of ranks: one each; uneven ones, of which the smaller one comes first or last; hosts of pairs of ranks.
PLACES = {"2x1": "ab", "1+2": "abb", "3+1": "aaab", "2x2": "aabb", "2x2x2": "aaaabbbb"}


@dataclass(frozen=True)
class Way:
    """What carries messages between hosts."""

    name: str
    variables: tuple[tuple[str, str], ...] = ()
    nics: str = ""  # emulated ones


WAYS = {
    way.name: way
    for way in (
        Way("ucx", (("UCX_TLS", "tcp,self"),)),
        Way("ucx lanes", (("UCX_TLS", "tcp,self"), ("LANECAST_UCX_LANES", "2"))),
        Way("emulated", (("LANECAST_GPU_MESSAGES", "staged"),), "2GBps,20us"),
        Way("emulated, direct", (("LANECAST_GPU_MESSAGES", "direct"),), "2GBps,20us"),
    )
}


def drawn(number: int, place: str, kinds: Sequence[str]) -> list[GpuFault]:
    """For one job, of which the last kind may end a rank."""
    hosts = tuple(f"node{'ab'.index(host)}" for host in PLACES[place])
    faults = []
    for k, kind in enumerate(kinds):
        draw = random.Random(1000 * number + k)
        victim, call, delay_ms = draw.randrange(len(hosts)), draw.randrange(6), draw.random() * 40
        deadline_s = DEADLINE_S if kind == "stop" else PATIENT_S
        faults.append(GpuFault(kind, 1000 * number + k, place, hosts, victim, call, delay_ms, deadline_s))
    return faults


def most_of_a_host(fault: GpuFault) -> int:
    return max(fault.hosts.count(host) for host in fault.hosts)


def revive(network: Network, index: int) -> None:
    """The NIC process of a host starts again where one has been killed."""
    host = network.hosts[index]
    network.processes[index].wait()
    process = subprocess.Popen(
        command(network.folder, host, index), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, **STAND_IN},
    )  # fmt: skip
    network.processes[index] = process
    await_ready(process, host)


@contextlib.contextmanager
def network_of(way: Way, faults: Sequence[GpuFault]) -> Iterator[Network | None]:
    """Of its own where a NIC process is to end."""
    hosts = sorted(set(faults[0].hosts))
    if not way.nics or all(fault.kind != "nic" for fault in faults):
        yield network(way.nics, len(hosts), most_of_a_host(faults[0]), STAND_IN) if way.nics else None
        return
    with Network(parse(way.nics), hosts, most_of_a_host(faults[0])) as own, pytest.MonkeyPatch.context() as patch:
        for name, value in STAND_IN.items():
            patch.setenv(name, value)
        own.start()
        yield own


@dataclass(frozen=True)
class Ran:
    """What became of a fault: when it happened, and how each rank's communicator ended."""

    fault: GpuFault
    happened_s: float
    outcomes: dict[int, GpuOutcome]


def provoke(faults: Sequence[GpuFault], way: Way, folder: Path, kernel_cache: str) -> tuple[list[Ran], dict[int, Rest]]:
    with network_of(way, faults) as nics:
        environment = {
            **gpu_host_library.environment(), **dict(way.variables), **(nics.environment() if nics else {}),
        }  # fmt: skip
        last = faults[-1]
        job = PipeJob(
            last.size, functools.partial(body, faults, folder, kernel_cache), hosts=last.hosts,
            topology=last.topology, environment=environment, timeout_s=PATIENT_S,
        )  # fmt: skip
        try:
            ran = [happens(number, fault, job, nics, folder) for number, fault in enumerate(faults)]
            if last.kind == "stop":
                goes_on(last, job, ran[-1], folder)
            ends = {rank: job.outcome(rank) for rank in last.survivors}
            job.end()
        finally:
            for process in job.processes:
                process.kill()
    assert all(isinstance(end.value, Rest) for end in ends.values()), f"{way.name}, {faults}: {ends}"
    return ran, {rank: end.value for rank, end in ends.items()}


def told(job: PipeJob, rank: int) -> Any:
    words = job.told(rank)
    assert not isinstance(words, Outcome), f"rank {rank} has ended: {words}"
    return words


def happens(number: int, fault: GpuFault, job: PipeJob, nics: Network | None, folder: Path) -> Ran:
    happened_s = told(job, fault.victim)
    assert isinstance(happened_s, float), f"{fault}: before it happened, its victim ended with {happened_s}"
    index = sorted(set(fault.hosts)).index(fault.hosts[fault.victim])
    if fault.kind == "pause":
        time.sleep(PAUSE * DEADLINE_S)
        os.kill(job.processes[fault.victim].pid or 0, signal.SIGCONT)
    if fault.kind == "nic" and nics:
        nics.processes[index].kill()
    outcomes = {rank: told(job, rank) for rank in fault.survivors}
    if fault.kind == "nic" and nics:
        revive(nics, index)
    (folder / f"mended.{number}").touch()
    return Ran(fault, happened_s, outcomes)


def goes_on(last: GpuFault, job: PipeJob, ran: Ran, folder: Path) -> None:
    """A stopped rank does, when all others have given up, and have gone on without it."""
    rests = [told(job, rank) for rank in last.survivors]
    assert all(isinstance(rest, Rest) for rest in rests), rests
    os.kill(job.processes[last.victim].pid or 0, signal.SIGCONT)
    ran.outcomes[last.victim] = told(job, last.victim)
    job.outcome(last.victim)
    job.processes[last.victim].join()
    (folder / "goes on").touch()


def complaint(fault: GpuFault, way: Way, rank: int, outcome: GpuOutcome) -> str:
    """What is wrong with how one rank's communicator ended; empty when nothing is."""
    if outcome.wrong:
        return f"wrong results: {outcome.wrong[:2]}"
    if fault.kind == "pause":
        return "an error, though everybody came in time" if outcome.error else ""
    if outcome.error not in {"TransportError", *(["TimeoutError"] if fault.kind == "stop" else [])}:
        return "another error than due"
    if rank == fault.victim and fault.kind == "stop":
        return ""
    if fault.kind == "abort" and WHY not in outcome.text:
        return "does not say why"
    names = rf"rank {fault.victim}\b|for rank [\d, ]*\b{fault.victim}\b"
    if fault.kind == "nic" and way.nics:
        names = f"NIC process of .*{fault.hosts[fault.victim]}|NIC process of its host"
    return "" if re.search(names, outcome.text) else "does not name the culprit"


class Figures:
    """Seconds from fault to error, by way and kind, and everything that was wrong."""

    def __init__(self) -> None:
        self.seconds: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self.wrong: list[str] = []

    def judge(self, way: Way, ran: Sequence[Ran], rests: dict[int, Rest]) -> None:
        for each in ran:
            fault = each.fault
            for rank, outcome in each.outcomes.items():
                if found := complaint(fault, way, rank, outcome):
                    self.wrong.append(f"{way.name}, {fault}, rank {rank}: {found}; {outcome}")
                if fault.kind != "pause" and rank in fault.survivors:
                    self.seconds[way.name, fault.kind].append(outcome.at_s - each.happened_s)
        for rank, rest in rests.items():
            if rest != Rest():
                self.wrong.append(f"{way.name}, after {ran[-1].fault}, rank {rank}: {rest}")

    def __str__(self) -> str:
        lines = ["way               kind   errors  median s  longest s"]
        for (way, kind), seconds in sorted(self.seconds.items()):
            median_s, longest_s = sorted(seconds)[len(seconds) // 2], max(seconds)
            lines.append(f"{way:16}  {kind:5}  {len(seconds):6}  {median_s:8.3f}  {longest_s:9.3f}")
        return "\n".join([*lines, f"{len(self.wrong)} wrong"])


# Of each job the ranks live on but for the last fault.
FEW = {
    "ucx": ("2x1", ("nic", "abort", "pause", "abort", "kill")),
    "ucx lanes": ("1+2", ("abort", "nic", "pause", "nic", "kill")),
    "emulated": ("1+2", ("pause", "nic", "abort", "nic", "stop")),
    "emulated, direct": ("2x1", ("abort", "nic", "pause", "abort", "kill")),
}


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "way",
    ["ucx", "emulated, direct", *(pytest.param(way, marks=pytest.mark.slow) for way in ("emulated", "ucx lanes"))],
)
def test_faults_amid_calls(way: str, kernel_cache: str, tmp_path: Path) -> None:
    figures, (place, kinds) = Figures(), FEW[way]
    figures.judge(WAYS[way], *provoke(drawn(1, place, kinds), WAYS[way], tmp_path, kernel_cache))
    assert figures.wrong == [], "\n".join(figures.wrong)


def job_of(number: int) -> tuple[Way, list[GpuFault]]:
    """One of the campaign's, of five faults."""
    draw, ways = random.Random(number), list(WAYS.values())
    kinds = [*draw.choices(("pause", "abort", "nic"), k=4), ("kill", "stop")[number // len(ways) % 2]]
    return ways[number % len(ways)], drawn(number, list(PLACES)[number % len(PLACES)], kinds)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_campaign(kernel_cache: str, tmp_path: Path) -> None:
    figures = Figures()
    for number in range(FAULTS // 5):
        # pytest's own is for a whole test, and this one takes longer on a busy machine.
        faulthandler.dump_traceback_later(600, exit=True, file=2)
        folder = tmp_path / str(number)
        folder.mkdir()
        way, faults = job_of(number)
        figures.judge(way, *provoke(faults, way, folder, kernel_cache))
    print(f"\n{figures}")
    assert figures.wrong == [], "\n".join(figures.wrong)
