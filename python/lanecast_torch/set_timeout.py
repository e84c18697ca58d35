# SPDX-License-Identifier: Apache-2.0
"""torch's `_set_pg_timeout` for groups of Lanecast.

torch's function knows gloo's and NCCL's backends by their classes, and warns that others have no timeout to set. This
one sets that of a group's backends of Lanecast, and leaves the others to torch's.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any


def replace() -> None:
    """In torch.distributed."""
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    from lanecast_torch import backends_of

    torchs = getattr(distributed_c10d, "_set_pg_timeout", None)
    if torchs is None:
        return

    @functools.wraps(torchs)
    def _set_pg_timeout(timeout: Any, group: Any = None) -> None:
        here = dist.group.WORLD if group is None else group
        ours = [] if not isinstance(here, dist.ProcessGroup) else backends_of(here)
        for backend in ours:
            backend.set_timeout(timeout)
        with warnings.catch_warnings():
            if ours:  # torch's warns of a group without gloo and NCCL
                warnings.filterwarnings("ignore", "Set timeout is now only supported")
            torchs(timeout, group)

    distributed_c10d._set_pg_timeout = _set_pg_timeout
