# SPDX-License-Identifier: Apache-2.0
"""The backend "lanecast" of torch.distributed: `dist.init_process_group("lanecast")`.

torch registers it by itself where it loads plug-ins at import; `import lanecast.torch` does so everywhere. The adapter
is compiled for the torch that is found when the first group is made, and kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lanecast_torch

if TYPE_CHECKING:
    from lanecast.torch.memory import mem_pool

    Options: Any

__all__ = ["Options", "mem_pool"]

lanecast_torch.register()


def __getattr__(name: str) -> Any:
    # Options is a class of the adapter, which importing this package must not compile.
    if name == "Options":
        from lanecast.torch import adapter

        return adapter.load().Options
    if name == "mem_pool":  # nor torch's registering it import torch
        from lanecast.torch import memory

        return memory.mem_pool
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
