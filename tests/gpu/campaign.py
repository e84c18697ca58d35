# SPDX-License-Identifier: Apache-2.0
"""Many checks in one launch: each has a name, none stops the others, and all ranks go through them together."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lanecast.bench.device import Cuda
from lanecast.bench.gpu_ranks import GpuRanks
from lanecast.communicator import Communicator

TIMEOUT_S = 15.0
_MOST_LINES = 6  # kept of what is wrong in one check
_MOST_RENEWALS = 8

Check = Callable[[Communicator], list[str]]  # tells what is wrong


class Campaign:
    """The checks of one launch on this rank; every method is collective."""

    def __init__(self, ranks: GpuRanks) -> None:
        self.ranks = ranks
        self.on_gpu = isinstance(ranks.device, Cuda)
        self.large, self.many = (4 << 20, 500) if self.on_gpu else (4 << 10, 20)  # elements; calls
        self.wrong: dict[str, list[str]] = {}
        self.left_out: dict[str, int] = {}  # what an algorithm does not offer
        self.done: dict[str, float] = {}  # name → seconds
        self._made = self._renewed = 0
        self.comm = self.another()

    @property
    def rank(self) -> int:
        return self.ranks.rank

    @property
    def size(self) -> int:
        return self.ranks.size

    def algorithms(self, *own: str) -> tuple[str, ...]:
        """What is chosen, and those of one host's GPUs where all are."""
        return ("", *own) if self.on_gpu and "LANECAST_GPU_NICS" not in os.environ else ("",)

    def another(self, timeout_s: float = TIMEOUT_S, **options: Any) -> Communicator:
        """One more communicator of all ranks."""
        self._made += 1
        return self.ranks.communicator(f"campaign{self._made}", timeout_s=timeout_s, **options)

    def check(self, name: str, body: Check) -> None:
        """Run `body` on the campaign's communicator, which is renewed where any rank has seen it fail."""
        start = time.monotonic()
        print(f"rank {self.rank}: {name}", file=sys.stderr, flush=True)  # so that a hang is known by its name
        try:
            wrong = body(self.comm)
            self.settle(self.comm)
            raised = False
        except Exception as error:
            wrong = [f"rank {self.rank}: {type(error).__name__}: {error}", *traceback.format_exc().splitlines()[-8:]]
            raised = True
        self.done[name] = time.monotonic() - start
        if wrong:
            self.wrong[name] = wrong[:_MOST_LINES] if not raised else wrong
            print(f"rank {self.rank}: {name}: {len(wrong)} wrong: {wrong[0]}", file=sys.stderr, flush=True)
        if self.ranks.total(int(raised)):
            self._renewed += 1
            if self._renewed > _MOST_RENEWALS:
                raise RuntimeError(f"{name}: too many communicators have failed")
            self.comm = self.another()

    def settle(self, comm: Communicator) -> None:
        """Block until this rank's device work is done, and raise what went wrong in it."""
        self.ranks.device.synchronize()
        if self.on_gpu:
            comm.synchronize()

    def together(self) -> None:
        """A barrier of the hosts."""
        self.ranks.latest(0)

    def write(self, folder: Path) -> None:
        """What became of it, for the test that started the launch."""
        found = {"wrong": self.wrong, "left_out": self.left_out, "done": self.done}
        (folder / f"{self.rank}.json").write_text(json.dumps(found))


def expected_error(
    action: Callable[[], object], kinds: type[Exception] | tuple[type[Exception], ...], *words: str
) -> list[str]:
    """What is wrong with the error that `action` has to raise."""
    try:
        action()
    except kinds as error:
        return [f"{type(error).__name__} does not say {word!r}: {error}" for word in words if word not in str(error)]
    except Exception as error:
        return [f"{type(error).__name__} instead of {kinds}: {error}"]
    return [f"nothing was raised instead of {kinds}"]


def ending(status: int) -> None:
    """End this process at once: after a failure other ranks and the device may be past any orderly end."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
