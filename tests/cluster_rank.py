# SPDX-License-Identifier: Apache-2.0
"""One rank on an emulated host: it checks collectives and says where it is. Arguments: algorithm, MiB."""

import json
import socket
import sys
from pathlib import Path

import numpy as np

import lanecast
from lanecast import nics
from lanecast.startup import mpi

algorithm, mebibytes = sys.argv[1], int(sys.argv[2])
comm = lanecast.init(links="assume")  # whoever looks at the NICs counts what is sent below alone
mine = np.arange(mebibytes << 17, dtype=np.int64) // comm.size + comm.rank * 10**9
mine = mine[: mine.size // comm.size]
whole = np.empty(mine.size * comm.size, np.int64)
comm.all_gather_into_tensor(whole, mine, algorithm=algorithm)
parts = whole.reshape(comm.size, -1)
right = all((part == mine + (rank - comm.rank) * 10**9).all() for rank, part in enumerate(parts))
total = mine.copy()
comm.all_reduce(total)
right &= bool((total == parts.sum(axis=0)).all())
shared = Path("/dev/shm", f"of-{socket.gethostname()}")
shared.touch()
comm.all_reduce(np.zeros(1))
facts = {
    "rank": comm.rank,
    "host": socket.gethostname(),
    "topology": str(comm.topology),
    "transports": comm.transports,
    "right": right,
    "nic": nics.pin().nic,
    "shared": sorted(path.name for path in Path("/dev/shm").glob("of-*")),
    "mpi": mpi().version,
}
sys.stdout.write(json.dumps(facts) + "\n")
