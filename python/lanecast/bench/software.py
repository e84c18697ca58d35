# SPDX-License-Identifier: Apache-2.0
"""What times were taken with, or a model trained with."""

from __future__ import annotations

import datetime
from typing import Any

import lanecast
from lanecast.bench import machine


def software() -> dict[str, Any]:
    """Versions, commit, command, settings and the time of day."""
    return {
        "lanecast": lanecast.__version__,
        "commit": machine.git_commit(),
        "command": machine.command_line(),
        "environment": machine.set_variables(),
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
