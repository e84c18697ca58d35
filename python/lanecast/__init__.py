# SPDX-License-Identifier: Apache-2.0
"""Lanecast: hierarchical collective communication with plans that are proven before they run."""

from lanecast._core import VERSION as __version__

__all__ = ["__version__"]
