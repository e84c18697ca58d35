# SPDX-License-Identifier: Apache-2.0
"""The MPI library of this process: found and opened, not started."""

from __future__ import annotations

import functools
import sys
from contextlib import suppress
from pathlib import Path

from lanecast import _core, nics


@functools.cache
def find_mpi() -> _core.Mpi:
    """The MPI library of this process, opened; TransportError says where it was looked for."""
    nics.pin()  # MPI libraries, and UCX, read their settings when they are opened
    folders = dict.fromkeys(str(Path(prefix) / "lib") for prefix in (sys.prefix, sys.base_prefix))
    return _core.load_mpi(list(folders))


def open_if_it_runs() -> None:
    """An MPI that was opened before a fork is known to be the parent's; mpi4py may have started it without us."""
    if "mpi4py.MPI" in sys.modules and sys.modules["mpi4py.MPI"].Is_initialized():
        with suppress(_core.Error):
            find_mpi()
