# SPDX-License-Identifier: Apache-2.0
"""The all-gather that from_all_gather() asks for, over a key-value store such as torch.distributed's TCPStore."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def over_store(store: Any, rank: int, size: int, prefix: str = "lanecast") -> Callable[[bytes], bytes]:
    """An all-gather of short byte strings; prefix: of its keys, another one for each communicator.

    store: with set(key, value) and a get(key) that waits for the key, as a Store of torch.distributed's has.
    """
    turn = 0

    def all_gather(mine: bytes) -> bytes:
        nonlocal turn
        turn += 1
        store.set(f"{prefix}/{turn}/{rank}", mine)
        return b"".join(bytes(store.get(f"{prefix}/{turn}/{peer}")) for peer in range(size))

    return all_gather
