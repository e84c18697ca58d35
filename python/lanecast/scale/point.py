# SPDX-License-Identifier: Apache-2.0
"""One simulated call: asked of the simulator once, then read from the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from lanecast import _core, cache
from lanecast.fields import FieldError, read_fields
from lanecast.scale.build import Simulator

# Thousands of ranks in turn touch more memory than caches and TLBs hold: large pages, and no merging of small pieces.
_MEMORY = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.tcache_count=20000"}


_SAY_EVERY_S = 5.0
_PROGRESS = re.compile(r"progress: (\d{1,18}) of (\d{1,18})$")


@dataclass(frozen=True)
class Outcome:
    """What the simulator prints."""

    seconds: float  # simulated: from when all ranks call until the last has its result
    wrong_elements: int
    wall_s: float  # that simulating took
    memory_MiB: int  # of the simulator


def run(simulator: Simulator, words: list[str], say: Callable[[str], None] | None = None) -> Outcome:
    """The outcome of the simulator with these arguments; say: is told now and then how far it is.

    Raises InternalError with its own words.
    """
    digest = hashlib.sha256(" ".join([simulator.digest, *words]).encode()).hexdigest()[:24]
    file = f"{digest}.json"
    if (kept := cache.find("scale", file)) is not None:
        with contextlib.suppress(ValueError, _core.UsageError):  # damaged: simulated again
            return read((_core.trusted_text(kept) or b"").decode())
    printed = _printed([str(simulator.program), *words], say)
    outcome = read(printed)
    with contextlib.suppress(_core.UsageError):  # where nothing can be kept it is simulated each time
        cache.write(cache.place_for("scale").folder / file, printed)
    return outcome


def _printed(command: list[str], say: Callable[[str], None] | None) -> str:
    begin = said = time.monotonic()
    errors: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**_MEMORY, **os.environ}
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            for line in process.stderr:
                known = _PROGRESS.match(line)
                if known is None:
                    errors.append(line)
                elif say is not None and (now := time.monotonic()) - said >= _SAY_EVERY_S:
                    said = now
                    say(progress(int(known[1]), int(known[2]), now - begin))
            printed = process.stdout.read()
        except BaseException:  # whoever stops waiting wants no simulation either
            process.kill()
            raise
    if process.returncode != 0:
        raise _core.InternalError(
            f"the simulator failed ({process.returncode}) with {' '.join(command[1:])}:\n{''.join(errors)[-2000:]}"
        )
    return printed


def progress(done: int, messages: int, passed_s: float) -> str:
    """What is known of a point that goes on; messages: at most."""
    share = done / max(messages, done, 1)
    left = f", some {passed_s * (1 - share) / share:.0f} s left" if share > 0 else ""
    return f"{share:.0%} of {messages} messages{left}"


def read(text: str) -> Outcome:
    """Raises ValueError for text that is no outcome."""
    try:
        outcome: Outcome = read_fields(Outcome, json.loads(text))
    except (FieldError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return outcome
