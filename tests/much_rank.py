# SPDX-License-Identifier: Apache-2.0
"""One of two ranks that move more than 2 GiB over MPI: messages, and the library's own collectives."""

import numpy as np

import lanecast

SHARE = (1 << 31) + 4099
comm = lanecast.init(transports="mpi", timeout_s=300.0)
gathered = np.zeros(2 * SHARE, np.uint8)
for algorithm in ("ring", "mpi"):
    gathered[:] = 0
    mine = gathered[comm.rank * SHARE : (comm.rank + 1) * SHARE]
    mine[::4097] = comm.rank + 1
    mine[-1] = 77
    comm.all_gather_into_tensor(gathered, mine, algorithm=algorithm)
    for other in range(comm.size):
        part = gathered[other * SHARE : (other + 1) * SHARE]
        assert (part[: SHARE - 1 : 4097] == other + 1).all()
        assert part[-1] == 77
    comm.all_reduce(gathered, "max", algorithm=algorithm)
    assert int(gathered[SHARE]) == 2
print(comm.rank)
