# SPDX-License-Identifier: Apache-2.0
"""One simulated call: asked of the simulator once, then read from the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
from dataclasses import dataclass

from lanecast import _core, cache
from lanecast.fields import FieldError, read_fields
from lanecast.scale.build import Simulator

# Thousands of ranks in turn touch more memory than caches and TLBs hold: large pages, and no merging of small pieces.
_MEMORY = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.tcache_count=20000"}


@dataclass(frozen=True)
class Outcome:
    """What the simulator prints."""

    seconds: float  # simulated: from when all ranks call until the last has its result
    wrong_elements: int
    wall_s: float  # that simulating took
    memory_MiB: int  # of the simulator


def run(simulator: Simulator, words: list[str]) -> Outcome:
    """The outcome of the simulator with these arguments. Raises InternalError with its own words."""
    digest = hashlib.sha256(" ".join([simulator.digest, *words]).encode()).hexdigest()[:24]
    file = f"{digest}.json"
    if (kept := cache.find("scale", file)) is not None:
        with contextlib.suppress(ValueError, _core.UsageError):  # damaged: simulated again
            return read((_core.trusted_text(kept) or b"").decode())
    surroundings = {**_MEMORY, **os.environ}
    command = [str(simulator.program), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=surroundings)
    if done.returncode != 0:
        raise _core.InternalError(
            f"the simulator failed ({done.returncode}) with {' '.join(words)}:\n{done.stderr[-2000:]}"
        )
    outcome = read(done.stdout)
    with contextlib.suppress(_core.UsageError):  # where nothing can be kept it is simulated each time
        cache.write(cache.place_for("scale").folder / file, done.stdout)
    return outcome


def read(text: str) -> Outcome:
    """Raises ValueError for text that is no outcome."""
    try:
        outcome: Outcome = read_fields(Outcome, json.loads(text))
    except (FieldError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return outcome
