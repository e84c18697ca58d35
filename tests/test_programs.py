# SPDX-License-Identifier: Apache-2.0
"""Programs as people see them: text, JSON and pictures of what plans become for GPUs, and what is refused."""

from __future__ import annotations

import pytest

from lanecast import _core
from lanecast.compose import Knobs, forms, lower


@pytest.mark.parametrize("count", [0, 1])
def test_queues_come_to_their_ends_where_there_is_nothing_to_move(count: int) -> None:
    """Of several chunks, in whose scratch memory there are no bytes."""
    ring = lower(forms.all_reduce_by_all_gather(3), Knobs([3], ring=3))
    _core.check_queues([_core.program_of(plan, [count], chunks=3) for plan in ring], 65536)
