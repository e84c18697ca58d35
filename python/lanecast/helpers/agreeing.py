# SPDX-License-Identifier: Apache-2.0
"""What the leaders tell each other while their helpers start."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from lanecast import _core
from lanecast.bound import KIND

_UINT8, _INT64 = _core.DTYPES.index("uint8"), _core.DTYPES.index("int64")


def gather(core: Any, mine: Any) -> list[Any]:
    """What each rank of a communicator says, in rank order. Collective."""
    text = np.frombuffer(json.dumps(mine).encode(), np.uint8)
    sizes = np.zeros(core.size, np.int64)
    core.run(KIND["all_gather"], np.array([text.size]), sizes, _INT64, 0, 1, (), "", 0)
    whole = np.zeros(int(sizes.sum()), np.uint8)
    core.run(KIND["all_gather"], text, whole, _UINT8, 0, 0, [int(size) for size in sizes], "", 0)
    ends = np.cumsum(sizes)
    return [json.loads(whole[end - size : end].tobytes()) for end, size in zip(ends, sizes, strict=True)]


def refuse_together(core: Any, refusal: str) -> None:
    """Raise UsageError on all ranks where one has a reason; an empty one is none. Collective."""
    for said in gather(core, refusal):
        if said:
            raise _core.UsageError(said)
