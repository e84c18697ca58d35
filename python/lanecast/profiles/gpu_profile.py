# SPDX-License-Identifier: Apache-2.0
"""What was measured of the ways among the GPUs of a host, as plain JSON that a communicator can choose by."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lanecast import _core, marked_json
from lanecast.marked_json import Format

FORMAT = Format("GPU profile", "lanecast_gpu_profile", 2, "measure again with `lanecast tune --device cuda`")


@dataclass(frozen=True)
class GpuShape:
    """What it holds for: as many ranks of one host, with GPUs of this kind."""

    lanecast: str  # its version: the next one's kernels may take other times
    cpu: str  # of hosts like this one, for want of a name for how their GPUs are linked
    gpu: str  # as its driver calls it
    ranks: int


@dataclass(frozen=True)
class EngineFit:
    """T = alpha + bytes * beta from so many bytes of the full buffer on; half: of sums of 16-bit floats."""

    collective: str
    engine: str
    half: bool
    from_bytes: int
    alpha_s: float
    beta_s_per_byte: float
    error: float


@dataclass(frozen=True)
class GpuProfile:
    """One file. `measured` says when, with which software and settings; it is for people and decides nothing."""

    shape: GpuShape
    fits: list[EngineFit]
    measured: dict[str, str] = field(default_factory=dict)

    def lines(self) -> _core.PeerLines:
        """The same for the core. Raises UsageError that names the field where it is none."""
        return _core.read_gpu_profile(marked_json.text(FORMAT, self).encode())


def file_name(shape: GpuShape) -> str:
    """Name in a folder of profiles: readable, and different for every shape."""
    digest = hashlib.sha256(json.dumps(asdict(shape), sort_keys=True).encode()).hexdigest()[:8]
    kind = re.sub(r"[^0-9a-z]+", "-", shape.gpu.lower()).strip("-")
    return f"gpu-{shape.ranks}-{kind}-{digest}.json"


def is_one(path: Path) -> bool:
    """Is the file marked as one? What is wrong with it loading says."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and FORMAT.mark in found


def save(profile: GpuProfile, path: Path) -> None:
    """Write it whole or not at all. Makes the folder."""
    marked_json.save(FORMAT, profile, path)


def load(path: Path) -> GpuProfile:
    """Read one. Raises UsageError that names the file and the field for whatever is wrong with it."""
    found = marked_json.fields(FORMAT, path, _core.read_gpu_profile)
    return GpuProfile(GpuShape(**found.pop("shape")), fits=[EngineFit(**each) for each in found.pop("fits")], **found)
