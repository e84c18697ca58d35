# SPDX-License-Identifier: Apache-2.0
"""What of a communicator decides whether a profile holds for it."""

from __future__ import annotations

from lanecast import _core
from lanecast.profiles.profile import Shape


def level_names(topology: _core.Topology) -> list[str]:
    """Names of the levels, outermost first, and "rank" for the innermost domains."""
    return [*(name for name, _ in topology.levels), "rank"]


def shape_of(core: _core.Communicator) -> Shape:
    """The shape as this rank sees it."""
    return Shape(**_core.shape_of(core))
