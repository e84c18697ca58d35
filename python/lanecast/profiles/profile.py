# SPDX-License-Identifier: Apache-2.0
"""A profile: what was measured on a machine, as plain JSON that a person can read and a communicator can choose by."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lanecast import _core, cache, marked_json
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
        """The same for the core. Raises UsageError that names the field where it is none."""
        return _core.read_profile(marked_json.text(FORMAT, self).encode(), is_model=False)


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
    found = marked_json.fields(FORMAT, path, lambda text: _core.read_profile(text, is_model=False))
    return Profile(
        Shape(**found.pop("shape")),
        [LevelLink(**each) for each in found.pop("links")],
        fits=[AlgorithmFit(**each) for each in found.pop("fits")],
        overlaps=[CollectiveOverlap(**each) for each in found.pop("overlaps")],
        **found,
    )
