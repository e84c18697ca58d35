# SPDX-License-Identifier: Apache-2.0
"""Tells torch.distributed, when torch is imported, that there is a backend "lanecast".

A package apart, because `import torch` runs it in every program that has Lanecast installed: it imports nothing but
what torch has imported already, and can raise nothing.
"""

from __future__ import annotations

import os
from typing import Any

NAME = "lanecast"
# 1: groups that ask for another name are made by Lanecast, too (takeover.py).
VARIABLE = "LANECAST_TORCH"
# What calls go to another backend, which is made over the same store and ranks for the first of them.
PASSED_ON = {"gloo": ("all_reduce of sparse tensors",)}


def register() -> None:
    """Register the backend, unless it is there or this torch has no torch.distributed."""
    try:
        from torch.distributed import Backend
        from torch.version import cuda, hip

        if not hasattr(Backend, NAME.upper()):
            from lanecast_torch import monitored_barrier, set_timeout

            # torch takes a group's tensors to be on a GPU where its backend is for one (ShardedTensor.gather). Both are
            # of one class; two backends of one's own in a group would be taken for one.
            devices = ["cpu", "cuda"] if cuda or hip else ["cpu"]
            Backend.register_backend(NAME, _make, extended_api=True, devices=devices)
            monitored_barrier.replace()
            set_timeout.replace()
        if os.environ.get(VARIABLE, "") not in {"", "0"}:
            from lanecast_torch import takeover

            takeover.replace()
    except Exception:  # an error here would break `import torch`; asking for the backend then says that there is none
        return


def is_lanecasts(backend: Any) -> bool:
    """A group's backend for a device, whatever name the group goes by."""
    return type(backend).__module__ == "lanecast_c10d"


def backends_of(group: Any) -> list[Any]:
    """Those of Lanecast that a group has, each once."""
    found: list[Any] = []
    for device in group._device_types:
        backend = group._get_backend(device)
        if is_lanecasts(backend) and backend not in found:
            found.append(backend)
    return found


def _make(store_and_ranks: Any, options: Any) -> Any:
    if hasattr(options, "make_in_place"):
        return options.make_in_place(store_and_ranks)
    from lanecast.torch import groups

    return groups.make(store_and_ranks, options)
