# SPDX-License-Identifier: Apache-2.0
"""Measuring a machine, and choosing by what was measured: `lanecast tune`, profiles, explanations."""

from lanecast.tune.profile import Profile, Shape, load, save

__all__ = ["Profile", "Shape", "load", "save"]
