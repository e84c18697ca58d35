# SPDX-License-Identifier: Apache-2.0
"""One rank of a job under mpiexec: every form of Table II over every mix of transports, compared with the oracle, and
the collectives among them with the MPI library's own."""

from __future__ import annotations

import numpy as np

import lanecast
from composed_cases import FORMS, all_forms, form
from lanecast import Communicator
from lanecast.compose import Knobs

OF_MPI = {"all_gather": "all_gather_into_tensor", "reduce_scatter": "reduce_scatter_tensor"}


def against_mpi(comm: Communicator, knobs: Knobs) -> list[str]:
    """What differs from the library's collectives, of which three run through the same call."""
    wrong = []
    for name in FORMS:
        collective = name.split("_by_")[0]
        if collective not in ("all_reduce", *OF_MPI):
            continue
        composition = form(name, comm.size)
        counts = [11 + 3 * (part % 3) for part in range(composition.parts)]
        inputs, outputs = composition._core.inputs(comm.rank), composition._core.outputs(comm.rank)
        x = np.arange(sum(counts[part] for part in inputs)) * 1000 + comm.rank * 7919
        mine, theirs = (np.empty(sum(counts[part] for part in outputs), int) for _ in range(2))
        comm.compile(composition, mine, x, counts=counts, **vars(knobs)).run()
        if collective == "all_reduce":
            theirs[:] = x
            comm.all_reduce(theirs, algorithm="mpi")
        else:
            getattr(comm, OF_MPI[collective])(theirs, x, counts=counts, algorithm="mpi")
        if not np.array_equal(mine, theirs):
            wrong.append(f"rank {comm.rank}: {name} differs from MPI's with {knobs}")
    return wrong


def main() -> None:
    comm = lanecast.init(timeout_s=60.0)
    size = comm.size
    knobs_of = [Knobs(), Knobs([size], transports="mpi"), Knobs([size], ring=size, chunks=3)]
    if size % 2 == 0:
        knobs_of.append(Knobs([2, size // 2], transports=("mpi", "shm"), stripe=size // 2, chunks=2))
    wrong = all_forms(comm, knobs_of, seed=size)
    wrong += [line for knobs in knobs_of for line in against_mpi(comm, knobs)]
    print("\n".join(wrong) if wrong else f"rank-{comm.rank}-agrees", flush=True)


if __name__ == "__main__":
    main()
