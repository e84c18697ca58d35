# SPDX-License-Identifier: Apache-2.0
"""Where this user keeps what can be made again."""

from __future__ import annotations

from pathlib import Path

from lanecast import _core


def folder(name: str) -> Path:
    """$XDG_CACHE_HOME/lanecast/NAME, or ~/.cache/lanecast/NAME; need not exist yet.

    Raises UsageError for a user without a home.
    """
    path = _core.user_cache(name)
    if not path:
        raise _core.UsageError("this user has no home folder to keep things in; set HOME or XDG_CACHE_HOME")
    return Path(path)
