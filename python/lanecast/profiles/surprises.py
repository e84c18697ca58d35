# SPDX-License-Identifier: Apache-2.0
"""Choices that turned out much slower than the profile predicted: said once, and kept for the next measurement."""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lanecast import _core, cache, marked_json
from lanecast.fields import FieldError
from lanecast.marked_json import Format
from lanecast.profiles.profile import Shape, file_name
from lanecast.profiles.shape import shape_of

FORMAT = Format("surprises", "lanecast_surprises", 1, "delete it, or measure again with `lanecast tune --quick`")
MOST = 64  # kept for a shape; a new one replaces the oldest

Configuration = tuple[str, int]  # collective, bytes of the full buffer


@dataclass(frozen=True)
class Surprise:
    """Calls of one collective and size class; measured_s: of the fastest of eight in a row, as rank 0 saw it."""

    collective: str
    bytes: int
    algorithm: str
    chunks: int
    predicted_s: float
    measured_s: float

    def __str__(self) -> str:
        chunks = f" in {self.chunks} chunks" if self.chunks > 1 else ""
        return (
            f"{self.collective} of {self.bytes} bytes by {self.algorithm}{chunks} takes {self.measured_s * 1e6:.4g} us "
            f"where {self.predicted_s * 1e6:.4g} us were predicted, {self.measured_s / self.predicted_s:.1f} times"
        )

    @property
    def size_class(self) -> tuple[str, int]:
        """As the core tells them apart."""
        return self.collective, self.bytes.bit_length()


@dataclass(frozen=True)
class Surprises:
    """One file: what the profile of one shape has not foreseen, the oldest first."""

    shape: Shape
    found: list[Surprise]

    def check(self) -> None:
        """Raise FieldError for what types alone do not say."""
        for at, each in enumerate(self.found):
            if each.collective not in _core.KINDS:
                raise FieldError(f"found[{at}].collective", f"{each.collective!r}; known: {', '.join(_core.KINDS)}")
            if not 1 <= each.bytes < 1 << 48:
                raise FieldError(f"found[{at}].bytes", f"{each.bytes}, expected 1 or more, and less than 2^48")
            if each.predicted_s == 0:
                raise FieldError(f"found[{at}].predicted_s", "0: predicts nothing")


def folder() -> Path:
    """The user's: $XDG_CACHE_HOME/lanecast/surprises, or ~/.cache/lanecast/surprises."""
    return cache.folder("surprises")


def load(path: Path) -> Surprises:
    """Read a file of that folder. Raises UsageError that names the file and the field for whatever is wrong with it."""
    surprises: Surprises = marked_json.load(FORMAT, Surprises, path, named=False)
    return surprises


def watch(owner: object, core: _core.Communicator) -> None:
    """When the owner of this communicator goes, rank 0 says what its profile has not foreseen, and keeps it."""
    if core.rank == 0 and core.size > 1 and core.models.measured:
        weakref.finalize(owner, _report, core.surprises, shape_of(core))


def known(shape: Shape) -> list[Surprise]:
    """What is kept for this shape; nothing where the file is missing or damaged."""
    with contextlib.suppress(_core.UsageError):
        return load(folder() / file_name(shape)).found
    return []


def forget(shape: Shape, measured: Sequence[Configuration]) -> None:
    """These are known again."""
    classes = {(name, size.bit_length()) for name, size in measured}
    before = known(shape)
    left = [each for each in before if each.size_class not in classes]
    if left == before:
        return
    try:
        _keep(shape, left)
    except (OSError, _core.UsageError) as error:  # what was measured is kept all the same
        warnings.warn(f"surprises are not forgotten: {error}", RuntimeWarning, stacklevel=2)


def _report(core: _core.Surprises, shape: Shape) -> None:
    found = [Surprise(**each) for each in core.found()]
    if not found:
        return
    classes = {each.size_class for each in found}
    try:
        where = _keep(shape, [*(each for each in known(shape) if each.size_class not in classes), *found])
    except (OSError, _core.UsageError) as error:
        where = f"not kept: {error}; XDG_CACHE_HOME names another folder"
    listed = "\n  ".join(str(each) for each in found)
    warnings.warn(
        f"slower than the profile of {shape.topology} ranks predicts, in eight calls in a row, waiting for late ranks "
        f"included:\n  {listed}\n  measure again with `lanecast tune` or `lanecast learn measure`, which look there "
        f"first ({where})",
        RuntimeWarning,
        stacklevel=2,
    )


def _keep(shape: Shape, found: list[Surprise]) -> str:
    path = folder() / file_name(shape)
    if found:
        marked_json.save(FORMAT, Surprises(shape, found[-MOST:]), path)
    else:
        path.unlink(missing_ok=True)
    return str(path)


def lines() -> list[str]:
    """All that is kept, for people."""
    found = []
    for path in sorted(folder().glob("*.json")):
        try:
            surprises = load(path)
        except _core.UsageError as error:
            found.append(str(error))
            continue
        found += [f"{surprises.shape.topology} ranks: {each}" for each in surprises.found]
    return found
