# SPDX-License-Identifier: Apache-2.0
"""The simulator: this library's own core, linked to a simulated machine when it is first asked for."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lanecast import _core, cache, compiler

VARIABLE = "SimGrid_PATH"  # as SimGrid's own CMake file names it
_PREFIXES = ("/usr", "/usr/local", "/opt/simgrid")
_SOURCES = Path(_core.__file__).parent / "simulator"
_ARCHIVE = _SOURCES / "libsimulated_core.a"
_PROGRAM = "simulate"
_FLAGS = ("-std=c++20", "-O2")


@dataclass(frozen=True)
class SimGrid:
    """An installed SimGrid that has SMPI."""

    prefix: Path
    version: str


@dataclass(frozen=True)
class Simulator:
    """The program, and what tells its results from those of another build."""

    program: Path
    digest: str
    simgrid: str  # version


def find_simgrid() -> SimGrid | None:
    """The one that SimGrid_PATH names, else the first in the usual places."""
    named = os.environ.get(VARIABLE, "")
    for prefix in [named] if named else _PREFIXES:
        include = Path(prefix) / "include"
        header = include / "simgrid" / "version.h"
        if header.exists() and (include / "smpi" / "mpi.h").exists():
            numbers = re.findall(r"define SIMGRID_VERSION_(?:MAJOR|MINOR)\s+(\d+)", header.read_text())
            return SimGrid(Path(prefix), ".".join(numbers))
    return None


def simulator(say: Callable[[str], None]) -> Simulator:
    """The simulator for this library, compiler and SimGrid; compiles it if it is not there yet, in about a minute.

    Raises UsageError that says how to get what is missing.
    """
    simgrid = find_simgrid()
    if simgrid is None:
        raise _core.UsageError(
            "simulating needs SimGrid 3.32 with SMPI, which is not here: apt-get install --no-install-recommends "
            f"libsimgrid-dev (Debian, Ubuntu), or build it from https://simgrid.org and set {VARIABLE} to its folder"
        )
    digest = _digest(simgrid)
    program = cache.find_program("simulator", f"{digest}/{_PROGRAM}")
    if program is None:
        words = compiler.command("simulating needs a C++20 compiler")
        place = cache.place_for("simulator", digest, runs=True)
        for why in place.passed_over:
            say(f"{why}: the simulator goes into {place.folder}")
        say(f"compiling the simulator against SimGrid {simgrid.version} with {words[0]}, once …")
        program = place.folder / _PROGRAM
        _compile(words, simgrid, program)
    return Simulator(program, digest, simgrid.version)


def core_digest() -> str:
    """Of the core and what of it is simulated: with another one, times may be others."""
    found = hashlib.sha256()
    for path in sorted(_SOURCES.rglob("*")):
        if path.is_file():
            found.update(str(path.relative_to(_SOURCES)).encode())
            found.update(path.read_bytes())
    return found.hexdigest()


def _digest(simgrid: SimGrid) -> str:
    """Of all but a compiler that nobody has named: a machine without one may have the program."""
    facts = [compiler.named(), simgrid.version, *_FLAGS, core_digest()]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _compile(words: list[str], simgrid: SimGrid, program: Path) -> None:
    include, library = simgrid.prefix / "include", simgrid.prefix / "lib"
    command = [
        *words, *_FLAGS, f"-I{include}", f"-I{include / 'smpi'}", f"-I{_SOURCES}",
        *(str(path) for path in sorted(_SOURCES.glob("*.cpp"))),
        # Before the archive, so that what simulates comes instead of what it stands for; exported, for SMPI to see.
        str(_ARCHIVE), "-rdynamic", f"-L{library}", f"-Wl,-rpath,{library}", "-lsimgrid", "-ldl", "-pthread",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        made = Path(folder) / _PROGRAM
        done = compiler.run(command, made)
        if done.returncode != 0:
            raise _core.UsageError(
                f"the simulator does not compile against SimGrid {simgrid.version} (3.32 is known to work):\n"
                + done.stderr[-2000:]
            )
        cache.seal(made, program)
