# SPDX-License-Identifier: Apache-2.0
"""Times a grid of configurations on the ranks of a job, side by side, into a database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lanecast import _core
from lanecast.communicator import Communicator
from lanecast.learn.contenders import MPI, contenders
from lanecast.learn.database import Configuration, Database, Timed
from lanecast.profiles.scope import scope_of
from lanecast.profiles.shape import shape_of
from lanecast.tune.measure import Effort, Stopwatch, calls_for

Say = Callable[[str], None]


@dataclass(frozen=True)
class Grid:
    """What of these ranks is timed: sizes in bytes of the full buffer; mpi: MPI's own collectives as well."""

    collectives: Sequence[str]
    sizes: Sequence[int]
    rounds: int
    longest_call_s: float
    mpi: bool
    first: Sequence[tuple[str, int]] = ()  # collectives and sizes that are timed again, whatever is known of them


def measure(comm: Communicator, grid: Grid, path: Path, software: dict[str, Any], say: Say = lambda _: None) -> int:
    """Time what the database lacks; how many configurations that were. Collective, and nothing else may run.

    A collective's larger sizes are left out once its fastest algorithm takes longer than longest_call_s. Only rank 0
    opens the database. Raises UsageError where rank 0 cannot use it, there only.
    """
    scope = scope_of(shape_of(comm._core))
    again = [Configuration(name, comm.size, size) for name, size in grid.first]
    usual = [Configuration(name, comm.size, size) for name in grid.collectives for size in grid.sizes]
    wanted = list(dict.fromkeys([*again, *usual]))
    database = Database(path, create=True) if comm.rank == 0 else None
    known = database.read(scope) if database is not None else {}
    missing = np.array([one in again or one not in known for one in wanted], np.int32)
    comm.broadcast(missing, 0)
    run = database.add_run(scope, software) if database is not None and missing.any() else 0
    watch = Stopwatch(comm, Effort(tuple(grid.sizes), grid.rounds, grid.longest_call_s))
    too_long: set[str] = set()
    done = 0
    for configuration in (one for one, is_missing in zip(wanted, missing, strict=True) if is_missing):
        if configuration.collective in too_long:
            continue
        say(f"{configuration.collective} of {configuration.bytes} B on {comm.size} ranks")
        times = _time(watch, configuration, grid.mpi)
        if database is not None:
            database.add(run, configuration, times)
        if min(min(timed.seconds) for timed in times) > grid.longest_call_s and configuration not in again:
            too_long.add(configuration.collective)
        done += 1
    if database is not None:
        database.close()
    return done


def _time(watch: Stopwatch, configuration: Configuration, mpi: bool) -> list[Timed]:
    comm, collective, size = watch.world, configuration.collective, configuration.bytes
    predicted = {
        each["algorithm"]: each for each in _core.candidates(collective, size, comm.topology, comm._core.models)
    }
    ways = [
        (name, 1 if name == MPI else predicted[name]["chunks"]) for name in contenders(collective, comm.topology, mpi)
    ]
    rounds = watch.rounds(calls_for(comm, collective, size, ways))
    return [
        Timed(name, chunks, predicted[name]["seconds"] if name in predicted else None, tuple(times))
        for (name, chunks), times in zip(ways, rounds, strict=True)
    ]
