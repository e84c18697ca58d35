# SPDX-License-Identifier: Apache-2.0
"""What a step sends: every call of torch.distributed passes torch's dispatcher, where it can be watched."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Messages(TorchDispatchMode):  # type: ignore[misc]
    """Counts collectives by name and by the bytes of their largest buffer, while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: defaultdict[str, Counter[int]] = defaultdict(Counter)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace in ("c10d", "_c10d_functional"):
            buffers = [each for each in tree_leaves(args) if isinstance(each, torch.Tensor)]
            name = func._opname.strip("_")
            if buffers and name != "barrier":
                self.sizes[name][max(each.nbytes for each in buffers)] += 1
        return func(*args, **(kwargs or {}))
