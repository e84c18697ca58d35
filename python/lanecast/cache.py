# SPDX-License-Identifier: Apache-2.0
"""Where this user keeps what can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def folder(name: str) -> Path:
    """$XDG_CACHE_HOME/lanecast/NAME, or ~/.cache/lanecast/NAME; need not exist yet."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if cache else Path.home() / ".cache") / "lanecast" / name
