# SPDX-License-Identifier: Apache-2.0
"""Which profile a communicator chooses by: the one that the user names, else the one in the user's cache that fits."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from lanecast import _core
from lanecast.communicator import Communicator
from lanecast.tune.profile import Profile, Shape, default_folder, file_name, load
from lanecast.tune.shape import shape_of

NONE = "none"
VARIABLE = "LANECAST_PROFILE"


def wanted(option: str | Path | None) -> str:
    """What the code asks for, else the environment: a file, a folder of profiles, "none", or "" for the cache."""
    return str(option) if option is not None else os.environ.get(VARIABLE, "")


def find(shape: Shape, where: str) -> tuple[Path, Profile] | None:
    """The profile for this shape; None where there is none.

    Raises UsageError for a named file that is missing, corrupt (file and field), stale or of another machine or shape,
    and for a corrupt one in a folder.
    """
    if where == NONE:
        return None
    path = Path(where) if where else default_folder()
    is_folder = not where or path.is_dir()
    if is_folder:
        path /= file_name(shape)
        if not path.exists():
            return None
    profile = load(path)
    if differences := profile.shape.differences(shape):
        raise _core.UsageError(
            f"profile {path}: was measured elsewhere ({'; '.join(differences)}); measure here with "
            f"`lanecast tune --quick`, or set {VARIABLE}=none"
        )
    return path, profile


def adopt(comm: Communicator, option: str | Path | None) -> None:
    """Let a communicator choose by rank 0's profile, if it has one. Collective.

    Raises UsageError on every rank where rank 0's named profile cannot be used; one in the cache is left aside with a
    warning.
    """
    models, refusal = _core.Models(links=[]), ""
    if comm.rank == 0:
        where = wanted(option)
        try:
            found = find(shape_of(comm), where)
            if found is not None:
                models = found[1].models()
        except _core.UsageError as error:
            if where:
                refusal = str(error)
            else:
                warnings.warn(f"left aside: {error}", RuntimeWarning, stacklevel=3)
    comm._core.adopt(models, refusal)
