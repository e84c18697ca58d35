# SPDX-License-Identifier: Apache-2.0
"""Options of init() on their way to a helper."""

from __future__ import annotations

import os
from typing import Any

from lanecast import _core


def to_text(options: dict[str, Any]) -> dict[str, Any]:
    """As JSON can hold them."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, _core.Topology):
            found[name] = {"size": value.size, "levels": value.levels}
        else:
            found[name] = os.fspath(value) if isinstance(value, os.PathLike) else value
    return found


def from_text(options: dict[str, Any]) -> dict[str, Any]:
    """What they were."""
    found = dict(options)
    topology = found.get("topology")
    if isinstance(topology, dict):
        levels = [(name, domain) for name, domain in topology["levels"]]
        found["topology"] = _core.Topology(topology["size"], levels)
    return found
