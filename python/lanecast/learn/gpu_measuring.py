# SPDX-License-Identifier: Apache-2.0
"""`lanecast learn measure --device cuda`: all ways of calls on GPUs, side by side, into a database.

Within a host the ways are engines (NCCL's calls among them), each one by one and from a CUDA graph. Between hosts they
are the algorithms that the ranks could take.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lanecast import _core, job
from lanecast.bench import gpu_processes, machine
from lanecast.bench.arenas import Arenas
from lanecast.bench.device import require_torch
from lanecast.bench.gpu_ranks import GpuRanks
from lanecast.bench.measure import EAGER, Bench, Contender, Row
from lanecast.bench.settings import PLAIN, Backend, Settings
from lanecast.bench.software import software
from lanecast.explanation import Candidate
from lanecast.learn.database import Configuration, Database, Timed
from lanecast.learn.gpu_grid import GpuGrid, configurations, predicted, scopes, ways_between_hosts
from lanecast.profiles.shape import shape_of
from lanecast.tune.gpu_tuner import TuneBench, engines_of, first_call
from lanecast.wording import counted

_FEW_CTAS = 32  # half of the most that a kernel takes
Say = Callable[[str], None]
Wanted = tuple[Configuration, str]  # and a type
Found = dict[tuple[str, str], list[Timed]]  # by type and mode


def run(database: Path, grid: GpuGrid, counts: Sequence[int]) -> None:
    """On as many GPUs of this host as `counts` says, one job after the other, or on the ranks of a launcher."""
    if job.detect() is not None:
        options: dict[str, Any] = {"max_ctas": grid.max_ctas} if grid.max_ctas else {}
        ranks = GpuRanks(**options)
        measure(ranks, grid, database, lambda what: _say(ranks.rank, what))
        return
    found = require_torch().cuda.device_count()
    if found < 2 and not counts:
        raise _core.UsageError("device cuda: this host has one GPU, and times want two ranks or more")
    for count in counts or sorted({*(1 << k for k in range(1, found.bit_length())), found} - {1}):
        if count > found or count < 2:
            raise _core.UsageError(f"topologies: {count} ranks, and this host has {counted(found, 'GPU')}; each rank "
                                   "needs its own, and times want two ranks or more")  # fmt: skip
        status = gpu_processes.run_ranks([sys.executable, "-m", "lanecast", *sys.argv[1:]], count)
        if status:
            sys.exit(status)


def measure(ranks: GpuRanks, grid: GpuGrid, path: Path, say: Say = lambda _: None) -> int:
    """Time what the database lacks; how many configurations that were. Collective, and nothing else may run.

    Only rank 0 opens the database. In the end the ranks part. Raises UsageError where it cannot be used.
    """
    shape = shape_of(ranks.comm._core)
    if shape.hosts > 1 and grid.max_ctas:
        raise _core.UsageError("max-ctas: of calls within a host; between hosts programs have lanes of their own")
    of = scopes(shape, _one_kind_of_gpu(ranks), 0 < grid.max_ctas <= _FEW_CTAS)
    arenas = Arenas(ranks, max(grid.sizes))
    timer = _WithinHost(ranks, grid, arenas) if shape.hosts == 1 else _BetweenHosts(ranks, grid, arenas)
    wanted = [(Configuration(name, ranks.size, size), dtype)
              for size, name, dtype in configurations(grid, shape.hosts == 1)]  # fmt: skip
    database = Database(path, create=True) if ranks.rank == 0 else None
    left = _missing(ranks, wanted, {calls: database.read(scope) for calls, scope in of.items()} if database else {})
    about = {**software(), **timer.about()}
    runs = {calls: database.add_run(scope, about) for calls, scope in of.items()} if database and left else {}
    done = 0
    for configuration, dtype in _while_there_is_time(ranks, grid.seconds, left, say):
        found = timer.time(configuration, dtype)
        if database is not None:
            for calls, times in found.items():
                database.add(runs[calls], configuration, times)
        done += 1
    if database is not None:
        database.close()
    arenas.close()
    ranks.close()
    where = "of one host" if shape.hosts == 1 else f"of {shape.hosts} hosts"
    say(f"{counted(ranks.size, 'GPU')} {where}: {counted(done, 'configuration')} more in {path}, "
        f"{len(left) - done} left")  # fmt: skip
    return done


def _one_kind_of_gpu(ranks: GpuRanks) -> str:
    """Its name. Raises UsageError where times would be of nothing."""
    if ranks.size < 2:
        raise _core.UsageError("ranks: one has nobody to talk to; measure on two GPUs or more")
    first_call(ranks, ranks.comm, "")  # opens the GPU
    kind: str = ranks.comm._core.kind_of_gpu
    if not kind:
        raise _core.UsageError("device cuda: the GPUs are of several kinds, and times are kept for one")
    return kind


def _missing(
    ranks: GpuRanks, wanted: Sequence[Wanted], known: Mapping[tuple[str, str], Container[Configuration]]
) -> list[Wanted]:
    """What is to be timed, as rank 0 knows; known: by type and mode."""
    missing = np.array([any(one not in some for (of, _), some in known.items() if of == dtype)
                        for one, dtype in wanted], np.int32)  # fmt: skip
    ranks.control.broadcast(missing, 0)
    return [each for each, is_missing in zip(wanted, missing, strict=True) if is_missing]


def _while_there_is_time(ranks: GpuRanks, seconds: float, left: Sequence[Wanted], say: Say) -> Iterator[Wanted]:
    """The same on all ranks. Says of each size how far it is."""
    begin, size = time.monotonic(), 0
    for done, each in enumerate(left):
        spent = ranks.latest(time.monotonic() - begin)
        if done and spent * (1 + 1 / done) > seconds:
            return
        if each[0].bytes != size:
            size = each[0].bytes
            rest = f", about {spent / done * (len(left) - done):.0f} s to go" if done else ""
            say(f"{size} B on {counted(ranks.size, 'GPU')}: {done} of {len(left)} done{rest}")
        yield each


class _CheckedOnce(Bench):
    """Compares the elements of each way's first result, and not those of replays and of the end."""

    def _check(self, contender: Contender) -> None:
        if contender.mode == EAGER and not contender.times:
            super()._check(contender)


class _Engines(_CheckedOnce, TuneBench):
    """Those of one host."""


@dataclass
class _Timer:
    """What both places have in common."""

    ranks: GpuRanks
    grid: GpuGrid
    arenas: Arenas

    def about(self) -> dict[str, Any]:
        """With what times are taken."""
        found = machine.describe(self.ranks)
        return {name: found[name] for name in ("driver", "torch", "cuda", "nccl", "environment")}

    def settings(self, configuration: Configuration, **changed: Any) -> Settings:
        return Settings((configuration.collective,), (configuration.bytes,), rounds=self.grid.rounds, warmup=2,
                        round_s=self.grid.round_s, **{"backends": (), **changed})  # fmt: skip

    def rows(self, bench: Bench, configuration: Configuration) -> list[Row]:
        rows = bench.measure(configuration.collective, configuration.bytes, lambda _: None)
        wrong = [row["backend"] for row in rows if row["wrong"]]
        if wrong:
            raise _core.InternalError(f"wrong results: {', '.join(wrong)}: {configuration.collective} of "
                                      f"{configuration.bytes} bytes")  # fmt: skip
        return rows


class _WithinHost(_Timer):
    def __init__(self, ranks: GpuRanks, grid: GpuGrid, arenas: Arenas) -> None:
        super().__init__(ranks, grid, arenas)
        self.gpu, self.engines = ranks.comm._core.kind_of_gpu, engines_of(ranks)

    def time(self, configuration: Configuration, dtype: str) -> Found:
        settings = self.settings(configuration, dtype=dtype, graph=True)
        bench = _Engines(self.ranks, settings, self.arenas.memory, self.engines).of(configuration.collective)
        found: Found = {}
        for row in self.rows(bench, configuration):
            calls, engine = (dtype, row["mode"]), row["algorithm"]
            known = predicted(configuration.collective, configuration.bytes, self.ranks.size, self.gpu, calls)
            found.setdefault(calls, []).append(Timed(engine, 1, known.get(engine), _seconds(row)))
        return found


class _BetweenHosts(_Timer):
    def time(self, configuration: Configuration, dtype: str) -> Found:
        ways = ways_between_hosts(self.ranks.comm, configuration.collective, configuration.bytes)
        backends = tuple(Backend(f"lanecast:{name}", name, memory=PLAIN) for name in ways)
        settings = self.settings(configuration, dtype=dtype, backends=backends)
        rows = self.rows(_CheckedOnce(self.ranks, settings, self.arenas.memory), configuration)
        return {(dtype, EAGER): [_timed(ways[row["algorithm"]], row) for row in rows]}


def _timed(way: Candidate, row: Row) -> Timed:
    return Timed(way.algorithm, way.chunks, way.seconds, _seconds(row))


def _seconds(row: Row) -> tuple[float, ...]:
    return tuple(us * 1e-6 for us in row["time_us_rounds"])


def _say(rank: int, what: str) -> None:
    if rank == 0:
        print(what, file=sys.stderr, flush=True)
