# SPDX-License-Identifier: Apache-2.0
"""Whether this process is one of a job whose GPUs have emulated NICs."""

from __future__ import annotations

import os


def take_part_in_emulation() -> None:
    """Take part in the network of emulated GPU NICs that LANECAST_GPU_NICS asks for, if it does."""
    if os.environ.get("LANECAST_GPU_NICS"):
        from lanecast.cluster import gpu_nics

        gpu_nics.take_part()
