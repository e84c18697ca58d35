# SPDX-License-Identifier: Apache-2.0
"""Start N ranks as threads, as processes or under mpiexec, run one function on each, and collect what they return."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import multiprocessing.context
import os
import pickle
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lanecast import _core

# Without a word from any rank, such as a barrier; far above what any needs in between. A long test says such words as
# it goes on, so that what ends it is work that does not get done, and not a machine that is busy.
DEADLINE_S = 200.0


@dataclass
class Rank:
    """One rank, before it has any transport."""

    rank: int
    size: int
    all_gather: Callable[[bytes], bytes]
    world: _core.LoopbackWorld | None = None  # of ranks that are threads
    mpi: _core.Mpi | None = None  # of ranks that mpiexec started

    def barrier(self) -> None:
        self.all_gather(b".")


RankMain = Callable[[Rank], Any]


def fork_server() -> multiprocessing.context.ForkServerContext:
    """It forks from a process that has no threads and has imported already what every rank needs."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["numpy.random", "pytest", "lanecast.communicator", "lanecast.startup"])
    return context


def in_threads(size: int, main: RankMain, dying: Collection[int] = ()) -> list[Any]:
    """Run main on `size` threads and return their results; raise the first error."""
    assert not dying, "a thread cannot die alone"
    world = _core.make_world(size)
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            results[rank] = main(
                Rank(rank, size, lambda mine: _core.world_all_gather(world, rank, mine), world),
            )
        except BaseException as error:  # raised again by the caller's thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(rank,), name=f"rank {rank}") for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def _process_main(hub: multiprocessing.connection.Connection, rank: int, size: int, main: RankMain) -> None:
    def all_gather(mine: bytes) -> bytes:
        hub.send(("gather", mine))
        gathered: bytes = hub.recv()
        return gathered

    try:
        hub.send(("result", main(Rank(rank, size, all_gather))))
    except BaseException:  # handed to the parent
        hub.send(("error", traceback.format_exc()))
        raise SystemExit(1) from None


def _serve(hubs: list[multiprocessing.connection.Connection], dying: Collection[int]) -> list[Any]:
    """Serve all-gathers until every rank has returned; ranks in `dying` may vanish instead."""
    results: list[Any] = [None] * len(hubs)
    running = dict(enumerate(hubs))
    gathering: dict[int, bytes] = {}
    while running:
        ready = multiprocessing.connection.wait(list(running.values()), DEADLINE_S)
        assert ready, f"ranks {sorted(running)} have said nothing for {DEADLINE_S} s; in a barrier: {sorted(gathering)}"
        for rank in [rank for rank, hub in running.items() if hub in ready]:
            try:
                kind, value = running[rank].recv()
            except EOFError:
                assert rank in dying, f"rank {rank} died"
                del running[rank]
                continue
            assert kind != "error", f"rank {rank}: {value}"
            if kind == "gather":
                gathering[rank] = value
            else:
                results[rank] = value
                del running[rank]
        if gathering and len(gathering) == len(hubs):
            everything = b"".join(gathering[rank] for rank in range(len(hubs)))
            gathering = {}
            for hub in hubs:
                hub.send(everything)
    return results


def in_processes(size: int, main: RankMain, dying: Collection[int] = ()) -> list[Any]:
    """Run main, which must pickle, on `size` processes of this host and return their results."""
    context = fork_server()
    hubs, processes = [], []
    for rank in range(size):
        here, there = context.Pipe()
        process = context.Process(target=_process_main, args=(there, rank, size, main), name=f"rank {rank}")
        process.start()
        there.close()  # so that a dead child shows as an end of file here
        hubs.append(here)
        processes.append(process)
    try:
        return _serve(hubs, dying)
    finally:
        for process in processes:
            if sys.exc_info()[0] is not None:
                process.kill()
            process.join()


def under_mpiexec(size: int, main: RankMain, dying: Collection[int] = ()) -> list[Any]:
    """Run main, which must pickle, on `size` ranks of the MPI that belongs to this Python; results stay there."""
    assert not dying, "an MPI job ends with its first rank"
    mpiexec = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
    assert mpiexec, "no mpiexec beside this Python"
    code = f"import ranks; ranks.mpi_rank_main(bytes.fromhex('{pickle.dumps(main).hex()}'))"
    # More ranks than cores: MPICH's polling of shared memory would starve whoever has to send.
    environment = os.environ | {"MPIR_CVAR_NOLOCAL": "1"}
    command = [mpiexec, "-n", str(size), sys.executable, "-c", code]
    with tempfile.TemporaryFile() as errors:
        job = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, cwd=Path(__file__).parent, env=environment
        )
        with job, contextlib.ExitStack() as stack:
            stack.callback(job.kill)
            assert job.stdout is not None
            words: bytes | None = None
            while words != b"":
                assert select.select([job.stdout], [], [], DEADLINE_S)[0], f"no rank has come far in {DEADLINE_S} s"
                words = os.read(job.stdout.fileno(), 1 << 16)
            job.wait(DEADLINE_S)
        errors.seek(0)
        assert job.returncode == 0, errors.read().decode()
    return [None] * size


def mpi_rank_main(pickled_main: bytes) -> None:
    """Be one rank of under_mpiexec, which hears of its barriers."""
    from lanecast.startup import mpi

    rank, size, over_mpi = _core.mpi_world(mpi())

    def all_gather(mine: bytes) -> bytes:
        print(".", end="", flush=True)
        return over_mpi(mine)

    try:
        pickle.loads(pickled_main)(Rank(rank, size, all_gather, mpi=mpi()))
    except BaseException:  # leaving without MPI_Finalize makes mpiexec end the other ranks
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
