# SPDX-License-Identifier: Apache-2.0
"""Hierarchical collective communication: plans that are proven before they run.

import lanecast, numpy
comm = lanecast.init()                  # under mpirun or srun: all ranks; otherwise one rank
comm.all_reduce(numpy.ones(1 << 20))
"""

import importlib
import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
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

# Where the rest is, imported with the first use: groups of torch need none of it, and it takes longer than to make one.
_MODULES = {
    "communicator": ("Communicator",),
    "device_calls": ("DeviceWork",),
    "point_to_point": ("P2POp",),
    "startup": ("from_all_gather", "from_mpi", "init", "run_threads"),
    "work": ("PersistentCall", "Work"),
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        for module, names in _MODULES.items():
            if name in names:
                globals()[name] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
                return globals()[name]
        if importlib.util.find_spec(f"{__name__}.{name}"):  # programs name modules without importing them
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "compose"})


def _before_fork() -> None:
    if "mpi4py.MPI" in sys.modules:
        from lanecast import mpi_library  # not startup, which brings numpy: programs fork often

        mpi_library.open_if_it_runs()


os.register_at_fork(before=_before_fork)
