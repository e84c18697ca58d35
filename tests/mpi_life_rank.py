# SPDX-License-Identifier: Apache-2.0
"""One rank under mpiexec that ends in the way its argument names. Exit code 0 when all was as it should be."""

import ctypes
import gc
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import lanecast
from lanecast import Communicator, startup


def must(condition: object, said: object) -> None:
    if not condition:
        sys.exit(f"{said}")  # the launcher reports the exit code


def usable(comm: Communicator) -> None:
    tensor = np.full(1000, float(comm.rank))
    comm.all_reduce(tensor)
    must((tensor == comm.size * (comm.size - 1) / 2).all(), "wrong sum")


def communicators() -> list[Communicator]:
    world = lanecast.init(timeout_s=60.0)
    half, again = world.split(world.rank % 2), world.split(0)
    assert half is not None
    assert again is not None
    made = [world, half, again, lanecast.init(transports="mpi", algorithm="mpi", timeout_s=60.0)]
    for comm in made:
        usable(comm)
    return made


def destroyed_in_any_order() -> None:
    made = communicators()
    order = np.random.default_rng(made[0].rank).permutation(len(made))
    for at in order:
        made[at] = made[at - 1]
        gc.collect()


def destroyed_after_mpi_has_ended() -> None:
    made = communicators()
    startup.mpi().finalize()
    made.clear()
    gc.collect()


def never_destroyed() -> None:
    globals()["kept"] = communicators()


def never_waited_for() -> None:
    globals()["kept"] = made = communicators()
    for comm in made:
        comm.all_reduce(np.ones(300_000), async_op=True)


def timed_out() -> None:
    comm = lanecast.init(transports="mpi", timeout_s=10.0)
    fresh = lanecast.init(timeout_s=60.0)
    if comm.rank == 0:
        time.sleep(12)
    else:
        try:
            comm.all_reduce(np.ones(100_000), algorithm="ring")
            sys.exit("no timeout")
        except lanecast.TimeoutError as error:
            must(
                re.search(r"waited \d+\.\d s", str(error)) is not None, error
            )  # this rank, or a peer that has given up and said so
            must("all_reduce by ring over mpi" in str(error), error)
    usable(fresh)


def left_alone_in_a_collective_of_the_library() -> None:
    """Its first call makes an MPI communicator, for which MPI waits without a deadline: the roll is called before."""
    comm = lanecast.init(transports="mpi", timeout_s=10.0, check_calls=False)
    fresh = lanecast.init(timeout_s=60.0)
    if comm.rank == 0:
        time.sleep(12)
    else:
        try:
            comm.all_reduce(np.ones(100), algorithm="mpi")
            sys.exit("no timeout")
        except lanecast.TimeoutError as error:
            must(re.search(r"waited \d+\.\d s", str(error)) is not None, error)
            must("the roll call before a library's own collective" in str(error), error)
    usable(fresh)


def must_be_interrupted(waits: Callable[[], Any]) -> None:
    try:
        threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
        waits()
        sys.exit("not interrupted")
    except KeyboardInterrupt:
        pass


def interrupted_while_others_come() -> None:
    fresh = lanecast.init(timeout_s=60.0)
    if fresh.rank == 0:
        must_be_interrupted(lambda: lanecast.init(timeout_s=60.0))
    usable(fresh)  # the others wait for rank 0 here, for less than it would have waited for them


def interrupted_while_a_library_makes_a_group() -> None:
    """Which a start waits for: whoever starts MPI's calls on two communicators makes their groups in that order."""
    comm = lanecast.init(transports="mpi", timeout_s=60.0)
    fresh = lanecast.init(timeout_s=60.0)
    if comm.rank == 0:
        must_be_interrupted(lambda: comm.all_reduce(np.ones(100), algorithm="mpi", async_op=True))
    usable(fresh)


def while_daemon_threads_wait() -> None:
    """Many, so that one of them is in MPI when it ends; each on a communicator of its own, for what never comes."""
    world = lanecast.init(transports="mpi", timeout_s=60.0)
    for k in range(24):
        comm = world.split(0)
        assert comm is not None
        if k % comm.size == comm.rank:
            waits = (np.ones(3), (comm.rank + 1) % comm.size)
            threading.Thread(target=comm.recv, args=waits, daemon=True).start()
        globals()[f"kept{k}"] = comm
    time.sleep(0.2)


def without_thread_support() -> None:
    """The program starts MPI itself, for one thread, and ends it while communicators are still there."""
    mpi = ctypes.CDLL(sys.argv[2], ctypes.RTLD_GLOBAL)
    mpi.MPI_Init(None, None)
    comm = lanecast.init(timeout_s=60.0)
    try:
        comm.all_reduce(np.ones(10), async_op=True)
        sys.exit("started without thread support")
    except lanecast.UsageError as error:
        must("MPI_THREAD_MULTIPLE" in str(error) and f"rank {comm.rank}" in str(error), error)
    usable(comm)
    mpi.MPI_Finalize()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("as it should be")
