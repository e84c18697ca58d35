# SPDX-License-Identifier: Apache-2.0
"""Hierarchical collective communication: plans that are proven before they run.

import lanecast, numpy
comm = lanecast.init()                  # under mpirun or srun: all ranks; otherwise one rank
comm.all_reduce(numpy.ones(1 << 20))
"""

import importlib.util

if importlib.util.find_spec("lanecast._core") is None:
    raise ImportError(
        f"{__file__} is Lanecast's source without its compiled core: run `make install`, or `pip install .`, in the "
        "project's folder, and start the Python that it was installed for"
    )

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
from lanecast.communicator import Communicator
from lanecast.device_calls import DeviceWork
from lanecast.point_to_point import P2POp
from lanecast.startup import from_all_gather, from_mpi, init, run_threads
from lanecast.work import PersistentCall, Work

for _error in (Error, InternalError, PlanError, TimeoutError, TransportError, UsageError):
    _error.__module__ = __name__  # what tracebacks say, and users catch
del _error

__all__ = [
    "Communicator",
    "DeviceWork",
    "Error",
    "InternalError",
    "P2POp",
    "PersistentCall",
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
