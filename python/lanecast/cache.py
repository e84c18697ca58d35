# SPDX-License-Identifier: Apache-2.0
"""Where this user keeps what can be made again; what lies there is taken through the door of the core's base/trust.h.

Two places are looked at: the user's cache and, where nothing can be kept in it, a folder of temporary files, so that a
read-only or a shared cache costs time and not the job.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lanecast import _core

_SEAL_BYTES = 32
_PROGRAM_BYTES = 16 << 20  # more than any that is compiled here


@dataclass(frozen=True)
class Place:
    """A folder, and the variable that moves it."""

    folder: Path
    variable: str


@dataclass(frozen=True)
class Kept:
    """A folder in which something can be kept, and why not in those before it, each with its variable."""

    folder: Path
    passed_over: list[str]


def folder(name: str) -> Path:
    """$XDG_CACHE_HOME/lanecast/NAME, or ~/.cache/lanecast/NAME; need not exist yet.

    Raises UsageError for a user without a home.
    """
    path = _core.user_cache(name)
    if path is None:
        raise _core.UsageError("this user has no home folder to keep things in; set HOME or XDG_CACHE_HOME")
    return path


def places(name: str) -> list[Place]:
    """Both places, the first the user's cache unless the user has none. Neither need exist."""
    user = _core.user_cache(name)
    variable = "XDG_CACHE_HOME" if os.environ.get("XDG_CACHE_HOME", "").startswith("/") else "HOME"
    found = [Place(user, variable)] if user else []
    return [*found, Place(_core.temporary_cache(name), "TMPDIR")]


def find(name: str, file: str) -> Path | None:
    """A file that lies in one of them, also in one that cannot be written to, and is to be trusted."""
    return next((real for place in places(name) if (real := _trusted(place.folder / file))), None)


def find_program(name: str, file: str) -> Path | None:
    """The same of a program that was sealed."""
    return next((program for place in places(name) if (program := usable(place.folder / file))), None)


def usable(program: Path) -> Path | None:
    """A program where it is to be trusted and as it was sealed, links followed."""
    real = _trusted(program)
    if real is None:
        return None
    content = real.read_bytes()
    return real if hashlib.sha256(content[:-_SEAL_BYTES]).digest() == content[-_SEAL_BYTES:] else None


def _trusted(path: Path) -> Path | None:
    try:
        real = _core.trusted_path(path)
    except _core.UsageError:
        return None  # as where there is none; who makes it anew says why
    return real if real is not None and real.is_file() else None


def seal(program: Path, path: Path) -> None:
    """Let a program that was just made take its name, for this user alone to write, whatever the umask.

    Its checksum is put behind it, where no loader looks: one that is cut off ends the process that loads it.
    """
    with program.open("ab") as file:
        file.write(hashlib.sha256(program.read_bytes()).digest())
    program.chmod(0o755)
    program.replace(path)  # at once: another process may be doing the same


def place_for(name: str, subfolder: str = "", *, runs: bool = False) -> Kept:
    """The first place that takes files, made for this user alone. runs: its files are to be loaded as programs.

    Raises UsageError with every folder, its variable and what is wrong with it.
    """
    refused: list[str] = []
    for place in places(name):
        made = place.folder / subfolder
        try:
            _core.make_private(made)
        except _core.UsageError as error:
            refused.append(f"{place.variable}: {error}")
            continue
        if not runs or not (wrong := _unfit_for_programs(made)):
            return Kept(made, refused)
        refused.append(f"{place.variable}: {made}: {wrong}")
    if not _core.user_cache(name):
        refused.insert(0, "HOME: not set, and the system knows no home of this user")
    raise _core.UsageError(
        f"{name}: there is no folder to keep it in; {'; '.join(refused)}; set XDG_CACHE_HOME to a folder of yours"
    )


def _unfit_for_programs(folder: Path) -> str:
    """Why no program can be made and run there; empty: nothing is in the way. Better known before one is compiled."""
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return "mounted noexec, so no program runs from there"
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            os.posix_fallocate(probe.fileno(), 0, _PROGRAM_BYTES)
    except OSError as error:  # a disk may be full, or a user's share of it
        if error.errno not in {errno.EOPNOTSUPP, errno.EINVAL}:  # a file system that cannot tell
            return error.strerror or str(error)
    return ""


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all, so that a reader never meets half of it.

    Makes the folder, for this user alone. Raises UsageError with the file and the reason.
    """
    _core.make_folders(path.parent)
    error = _core.write_whole(path, text.encode())
    if error:
        raise _core.UsageError(f"{path}: cannot be written: {os.strerror(error)}")
