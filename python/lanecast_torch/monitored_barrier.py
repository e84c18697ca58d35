# SPDX-License-Identifier: Apache-2.0
"""dist.monitored_barrier for groups of Lanecast.

torch's function raises for every name but gloo's, in Python, before it asks the group. This one asks the groups whose
CPU tensors are Lanecast's, and hands all others on to torch's.
"""

from __future__ import annotations

import functools
from typing import Any


def replace() -> None:
    """In torch.distributed."""
    import torch
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    torchs = distributed_c10d.monitored_barrier

    @functools.wraps(torchs)
    def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> Any:
        here = dist.group.WORLD if group is None else group
        if not isinstance(here, dist.ProcessGroup) or not _is_for(here, torch.device("cpu")):
            return torchs(group, timeout, wait_all_ranks)
        given = {} if timeout is None else {"timeout": timeout}  # none: the group's
        return here.monitored_barrier(**given, wait_all_ranks=wait_all_ranks)

    for module in (dist, distributed_c10d):
        module.monitored_barrier = monitored_barrier


def _is_for(group: Any, device: Any) -> bool:
    from lanecast_torch import is_lanecasts

    try:
        return is_lanecasts(group._get_backend(device))
    except RuntimeError:  # it has none for this device
        return False
