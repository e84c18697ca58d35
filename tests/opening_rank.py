# SPDX-License-Identifier: Apache-2.0
"""Rank 0 starts a collective, for which it waits until its host's MPI group has come, and sends to rank 2 after that:
rank 2 may wait for the message before its own call. A program for mpiexec, of four ranks as on two hosts."""

from __future__ import annotations

import time

import numpy as np

import lanecast

A_WHILE_S = 0.3  # longer than a rank waits before it is sure that nothing will come of it

comm = lanecast.init(transports="mpi", timeout_s=60, topology="2x2")
tensor = np.full(64, comm.rank + 1.0)
if comm.rank == 2:
    got = np.empty(2)
    comm.recv(got, 0, tag=7)
    assert got.tolist() == [1.0, 2.0]
elif comm.rank == 1:
    time.sleep(A_WHILE_S)
work = comm.all_reduce(tensor, algorithm="hierarchical(ring,mpi)", async_op=True)
if comm.rank == 0:
    comm.send(np.array([1.0, 2.0]), 2, tag=7)
assert work is not None
work.wait()
assert (tensor == 10).all()
