# SPDX-License-Identifier: Apache-2.0
"""Descriptions of machines: what a node holds, how its GPUs reach its NICs, and with which environment it is run.

Plain TOML, one file each; docs/reference/machines.md says how to write your own.
"""

from lanecast.machines.description import PREFIX, Machine, known, load, topology_in, topology_text

__all__ = ["PREFIX", "Machine", "known", "load", "topology_in", "topology_text"]
