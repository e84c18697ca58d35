# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that uses mpi4py and Lanecast side by side, with its own communicator, and deadlines given in code
and in the environment. Prints "good", or says what is wrong."""

import numpy as np
from mpi4py import MPI

import lanecast
from message_cases import all_cases


def main() -> None:
    world = MPI.COMM_WORLD
    half = world.Split(world.rank % 2, -world.rank)
    # A receive of the user's that would take any message, if ours went over the user's communicator.
    caught = np.zeros(1, np.int64)
    greedy = half.Irecv(caught, MPI.ANY_SOURCE, MPI.ANY_TAG)

    refused = ""
    try:
        lanecast.from_mpi(world.rank)
    except lanecast.UsageError as error:
        refused = str(error)
    assert "comm is a int, expected an mpi4py communicator" in refused

    given = lanecast.from_mpi(half, transports="mpi", timeout_s=300.0)
    unset = lanecast.from_mpi(world)
    assert (given.rank, given.size) == (half.rank, half.size), given
    assert (given._core.timeout_s, unset._core.timeout_s) == (300.0, 47.0)  # the environment says 47
    child = unset.split(0)
    assert child is not None
    assert child._core.timeout_s == 47.0
    for comm in (given, unset):
        wrong, _ = all_cases(comm)
        assert not wrong, wrong
        total = np.full(5000, float(comm.rank))
        work = comm.all_reduce(total, async_op=True)
        assert world.allreduce(1) == world.size  # both at a time
        assert work is not None
        work.wait()
        assert (total == comm.size * (comm.size - 1) / 2).all()

    half.Send(np.array([half.rank + 10]), (half.rank + 1) % half.size, 3)
    greedy.Wait()
    assert caught[0] == (half.rank - 1) % half.size + 10, caught
    del given, unset, comm, child
    half.Free()
    print("good", flush=True)


main()
