# SPDX-License-Identifier: Apache-2.0
"""Collectives composed of multicast, reduce and fence, and shaped to a machine by knobs that change no result.

c = Composition.of("all_reduce", comm.size)
for rank in range(comm.size): c.reduce(range(comm.size), rank, Block(0).cut(rank, comm.size))
c.fence()
for rank in range(comm.size): c.multicast(rank, range(comm.size), Block(0).cut(rank, comm.size))
comm.compile(c, output, input).run()
"""

from lanecast.compose.compiled import CompiledCall, Knobs
from lanecast.compose.composition import Block, Composition
from lanecast.compose.stages import Edge, lower, programs, stages, verify

__all__ = ["Block", "CompiledCall", "Composition", "Edge", "Knobs", "lower", "programs", "stages", "verify"]
