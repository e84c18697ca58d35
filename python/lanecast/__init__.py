# SPDX-License-Identifier: Apache-2.0
"""Hierarchical collective communication: plans that are proven before they run.

import lanecast, numpy
comm = lanecast.init()                  # under mpirun or srun: all ranks; otherwise one rank
comm.all_reduce(numpy.ones(1 << 20))
"""

from lanecast._core import VERSION as __version__
from lanecast._core import (
    Error,
    InternalError,
    PlanError,
    TimeoutError,
    Topology,
    TransportError,
    UsageError,
)
from lanecast.communicator import Communicator, Work
from lanecast.startup import from_all_gather, from_mpi, init, run_threads

__all__ = [
    "Communicator",
    "Error",
    "InternalError",
    "PlanError",
    "TimeoutError",
    "Topology",
    "TransportError",
    "UsageError",
    "Work",
    "__version__",
    "from_all_gather",
    "from_mpi",
    "init",
    "run_threads",
]
