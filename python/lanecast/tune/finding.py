# SPDX-License-Identifier: Apache-2.0
"""What a communicator chooses by: what the user names, else what lies in the user's cache and fits."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from lanecast import _core, machines
from lanecast.communicator import Communicator
from lanecast.learn import model as models
from lanecast.learn.scope import scope_of
from lanecast.tune import surprises
from lanecast.tune.profile import Profile, Shape, default_folder, file_name, load
from lanecast.tune.shape import shape_of

NONE = "none"
VARIABLE = "LANECAST_PROFILE"

Found = Profile | models.Model


def wanted(option: str | Path | None) -> str:
    """What the code asks for, else the environment: files, folders, machines, "none", or "" for the cache."""
    return str(option) if option is not None else os.environ.get(VARIABLE, "")


def written_out(option: str) -> str:
    """What is wanted, for programs in C, which know no "machine:frontier": with the file of that name instead.

    Names of none stay, for all ranks to be told of.
    """
    known = {f"{machines.PREFIX}{name}": str(path) for name, path in models.shipped().items()}
    return ",".join(known.get(place, place) for place in wanted(option or None).split(","))


def read(path: Path, shape: Shape) -> Found:
    """A profile or a model that holds for this shape.

    Raises UsageError (file and field) for one that is missing, corrupt, stale, or of another machine or shape.
    """
    if models.is_model(path):
        model = models.load(path)
        if differences := model.scope.differences(shape):
            raise _core.UsageError(f"model {path}: learned from other jobs ({'; '.join(differences)})")
        return model
    profile = load(path)
    if differences := profile.shape.differences(shape):
        raise _core.UsageError(
            f"profile {path}: was measured elsewhere ({'; '.join(differences)}); measure here with "
            f"`lanecast tune --quick`, or set {VARIABLE}=none"
        )
    return profile


def files_for(shape: Shape, where: str) -> Iterator[Path]:
    """The named files; "machine:frontier" is one that comes with Lanecast.

    Of a folder, and of the cache, those whose name is this shape's, where they are there.
    """
    if where == NONE:
        return
    for place in where.split(","):
        if place.startswith(machines.PREFIX):
            yield _shipped(place.removeprefix(machines.PREFIX))
            continue
        path = Path(place) if place else default_folder()
        if place and not _is_folder(path):
            yield path
            continue
        names = [file_name(shape)]
        if "+" not in shape.topology:  # no model holds for nodes that differ
            names.append(models.file_name(scope_of(shape)))
        yield from (path / name for name in names if (path / name).exists())


def _shipped(machine: str) -> Path:
    known = models.shipped()
    if machine not in known:
        raise _core.UsageError(
            f"profile {machines.PREFIX}{machine}: no model of it comes with Lanecast; known: {', '.join(known)}"
        )
    return known[machine]


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # reading it will say why, a name that is too long for one
        return False


def adopt(comm: Communicator, option: str | Path | None) -> None:
    """Let a communicator choose by rank 0's profile and model, if it has any. Collective.

    Raises UsageError on every rank where one that rank 0 names cannot be used; one in the cache is left aside with a
    warning.
    """
    chosen, refusal = _core.Models(links=[]), ""
    if comm.rank == 0:
        where = wanted(option)
        try:
            chosen = _together(comm, where, _leave_aside if not where else None)
        except _core.UsageError as error:
            refusal = str(error)
    comm._core.adopt(chosen, refusal)
    surprises.watch(comm)


def _leave_aside(error: _core.UsageError) -> None:
    warnings.warn(f"left aside: {error}", RuntimeWarning, stacklevel=2)


def _together(comm: Communicator, where: str, forgive: Callable[[_core.UsageError], None] | None) -> _core.Models:
    """The profile, else what is assumed, and in front of it what was learned; without links where there is neither."""
    shape = shape_of(comm)
    found: list[Found] = []
    for path in files_for(shape, where):
        try:
            found.append(read(path, shape))
        except _core.UsageError as error:
            if forgive is None:
                raise
            forgive(error)
    if len(kinds := {type(each) for each in found}) < len(found):
        raise _core.UsageError(f"profile {where}: names two files of a kind: {', '.join(k.__name__ for k in kinds)}")
    chosen = next((each.models() for each in found if isinstance(each, Profile)), None)
    learned = next((each.learned() for each in found if isinstance(each, models.Model)), None)
    if learned is None:
        return chosen or _core.Models(links=[])
    return (chosen or comm._core.models).with_learned(learned)
