# SPDX-License-Identifier: Apache-2.0
"""One of the ranks whose helpers the library starts, on an emulated host."""

from __future__ import annotations

import numpy as np

import lanecast
from gpu_stand_in import another
from lanecast.helpers.leading import Leader

COUNT = 2 << 20

world = lanecast.init(links="assume")  # whoever looks at the NICs counts what is sent below alone
comm = another(world, processes_per_gpu=2, allow_shared_cores=True, transports="ucx", links="assume")
assert isinstance(comm, Leader)
comm.use_processes(2)
vector = np.full(COUNT, comm.rank + 1, np.float32)
comm.all_reduce(vector)
assert set(vector) == {3.0}
