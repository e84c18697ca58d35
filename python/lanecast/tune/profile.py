# SPDX-License-Identifier: Apache-2.0
"""A profile: what was measured on a machine, as plain JSON that a person can read and a communicator can choose by."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from lanecast import _core, cache, marked_json
from lanecast.fields import FieldError
from lanecast.marked_json import Format

FORMAT = Format("profile", "lanecast_profile", 1, "measure again with `lanecast tune --quick`")


@dataclass(frozen=True)
class Shape:
    """What a profile holds for: machine, how the ranks sit on it, and what carries their messages."""

    lanecast: str  # its version: the next one's algorithms may take other times
    cpu: str
    cores: int  # of a host
    hosts: int
    topology: str
    transports: list[str]  # per level, outermost first

    def differences(self, other: Shape) -> list[str]:
        """ "cores: 2, not 16" for each field in which the other differs from this one."""
        pairs = [(f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(self)]
        return [f"{name}: {mine}, not {theirs}" for name, mine, theirs in pairs if mine != theirs]


@dataclass(frozen=True)
class LevelLink:
    """Messages between two ranks of each group of a level, all groups at once: T = alpha + bytes * beta."""

    level: str
    transport: str
    alpha_s: float
    beta_s_per_byte: float
    error: float


@dataclass(frozen=True)
class AlgorithmFit:
    """T = rounds * alpha + volume * bytes * beta from so many bytes on; level -1: among all ranks."""

    collective: str
    algorithm: str
    level: int
    ranks: int
    from_bytes: int
    alpha_s: float
    beta_s_per_byte: float
    error: float


@dataclass(frozen=True)
class CollectiveOverlap:
    """How chunks of a hierarchical call overlap; see src/select/models.h."""

    collective: str
    hidden: float
    latency: float
    scale: float
    error: float


@dataclass(frozen=True)
class Profile:
    """One file. `measured` says when, with which software and settings; it is for people and decides nothing."""

    shape: Shape
    links: list[LevelLink]
    reduce_s_per_byte: float
    fits: list[AlgorithmFit]
    overlaps: list[CollectiveOverlap]
    measured: dict[str, str] = field(default_factory=dict)

    def models(self) -> _core.Models:
        """The same for the core."""
        return _core.Models(
            links=[(link.alpha_s, link.beta_s_per_byte) for link in self.links],
            reduce_s_per_byte=self.reduce_s_per_byte,
            fits=[(f.collective, f.algorithm, f.level, f.from_bytes, f.alpha_s, f.beta_s_per_byte) for f in self.fits],
            overlaps=[(o.collective, o.hidden, o.latency, o.scale) for o in self.overlaps],
        )

    def check(self) -> None:
        """Raise FieldError for what types alone do not say."""
        levels = len(self.links)
        if levels == 0 or levels != len(self.shape.transports):
            raise FieldError("links", f"{levels} levels, but shape.transports has {len(self.shape.transports)}")
        for at, fit in enumerate(self.fits):
            if fit.collective not in _core.KINDS:
                raise FieldError(f"fits[{at}].collective", f"{fit.collective!r}; known: {', '.join(_core.KINDS)}")
            if fit.from_bytes < 0:
                raise FieldError(f"fits[{at}].from_bytes", f"{fit.from_bytes} is negative")
            if not -1 <= fit.level < levels:
                raise FieldError(f"fits[{at}].level", f"{fit.level}, of {levels} levels")
        for at, overlap in enumerate(self.overlaps):
            if overlap.collective not in _core.KINDS:
                raise FieldError(
                    f"overlaps[{at}].collective", f"{overlap.collective!r}; known: {', '.join(_core.KINDS)}"
                )


def default_folder() -> Path:
    """The user's profiles: $XDG_CACHE_HOME/lanecast/profiles, or ~/.cache/lanecast/profiles."""
    return cache.folder("profiles")


def file_name(shape: Shape) -> str:
    """Name in a folder of profiles: readable, and different for every shape."""
    digest = hashlib.sha256(json.dumps(asdict(shape), sort_keys=True).encode()).hexdigest()[:8]
    return f"{re.sub(r'[^0-9a-z+]+', '-', shape.topology)}-{'+'.join(shape.transports)}-{digest}.json"


def save(profile: Profile, path: Path) -> None:
    """Write it whole or not at all. Makes the folder."""
    marked_json.save(FORMAT, profile, path)


def load(path: Path) -> Profile:
    """Read a profile. Raises UsageError that names the file and the field for whatever is wrong with it."""
    profile: Profile = marked_json.load(FORMAT, Profile, path)
    return profile
