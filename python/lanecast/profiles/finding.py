# SPDX-License-Identifier: Apache-2.0
"""What a communicator chooses by: what the user names, else what lies in the user's cache and fits."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from lanecast import _core, machines
from lanecast.profiles import model as models

NONE = "none"
VARIABLE = "LANECAST_PROFILE"


def wanted(option: str | Path | None) -> str:
    """What the code asks for, else the environment: files, folders, machines, "none", or "" for the cache."""
    return str(option) if option is not None else os.environ.get(VARIABLE, "")


def written_out(option: str | Path | None) -> str:
    """What is wanted, for the core, which knows no "machine:frontier": with the file of that name instead.

    Names of none stay, for all ranks to be told of.
    """
    known = {f"{machines.PREFIX}{name}": str(path) for name, path in models.shipped().items()}
    return ",".join(known.get(place, place) for place in wanted(option or None).split(","))


def adopt(core: _core.Communicator, option: str | Path | None) -> None:
    """Let a communicator choose by rank 0's profile and model, if it has any. Collective.

    Raises UsageError on every rank where one that rank 0 names cannot be used; one in the cache is left aside with a
    warning.
    """
    places, by_variable = written_out(option), not option and bool(os.environ.get(VARIABLE))
    unknown = [place for place in places.split(",") if place.startswith(machines.PREFIX)]
    if unknown and core.rank == 0:
        known = ", ".join(models.shipped())
        named = f"{VARIABLE}: " if by_variable else ""
        core.adopt(
            _core.Models(links=[]), f"{named}profile {unknown[0]}: no model of it comes with Lanecast; known: {known}"
        )
    for why in _core.adopt_profile(core, os.fsencode(places), by_variable):
        warnings.warn(f"left aside: {why}", RuntimeWarning, stacklevel=2)
