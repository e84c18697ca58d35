# SPDX-License-Identifier: Apache-2.0
"""Ranks that are threads, on links of known speed, by a clock that passes only while all of them wait.

So times are the same on every run, whatever else this machine does, and take no longer than the ranks' own work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from lanecast import Communicator, _core
from lanecast.bench import device
from lanecast.startup import progress_thread


def on_slow_links(size: int, links: list[tuple[float, float]], link_of: Callable[[int, int], int],
                  function: Callable[[Communicator], Any], topology: str) -> list[Any]:  # fmt: skip
    """What each rank returns; link_of(rank, peer) says which link messages take. What measures heeds the clock."""
    world, progress, results = _core.make_world(size), progress_thread(), [None] * size
    clock = _core.make_simulated_clock(size)

    def main(rank: int) -> None:
        slowness = _core.Slowness(links, [link_of(rank, peer) for peer in range(size)], clock)
        options = {"timeout_s": 60.0, "topology": topology}
        core = _core.Communicator.from_slow_threads(world, rank, progress, options, slowness)
        results[rank] = function(Communicator(core))

    threads = [threading.Thread(target=main, args=(rank,)) for rank in range(size)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "time", SimpleNamespace(perf_counter=clock.seconds))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return results
