# SPDX-License-Identifier: Apache-2.0
"""Starts one process per GPU where no launcher has."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import NoReturn

from lanecast import _core, launch
from lanecast.bench.device import require_torch
from lanecast.wording import counted

_ADDRESS = "127.0.0.1"
_GRACE_S = 3.0  # for the others to say what they saw when one rank has ended with an error


def start_ranks(ranks: int, command: list[str] | None = None, shared_gpus: bool = False) -> NoReturn:
    """Run a program on `ranks` processes, by default one per GPU; their exit status becomes ours.

    command: default: this same command line of `lanecast`; shared_gpus: may there be more ranks than GPUs?
    """
    torch = require_torch()
    found = torch.cuda.device_count()
    if ranks > found and not shared_gpus:
        raise _core.UsageError(f"ranks: {ranks}, and this host has {counted(found, 'GPU')}; each rank needs its own")
    print(f"starting {counted(ranks or found, 'rank')} on {counted(found, 'GPU')}", file=sys.stderr, flush=True)
    sys.exit(run_ranks(command or [sys.executable, "-m", "lanecast", *sys.argv[1:]], ranks or found))


def run_ranks(command: list[str], ranks: int, extra: dict[str, str] | None = None, grace_s: float = _GRACE_S) -> int:
    """Run a program on `ranks` processes of this host, which find each other as under torchrun.

    extra: environment variables; grace_s: how long the others may go on when one has ended with an error. Returns the
    exit status of the first that ends with one, else 0.
    """
    from torch.distributed import TCPStore

    # Hosted here, so that the port is one that is free, and no rank's end takes it from the others.
    store = TCPStore(_ADDRESS, 0, is_master=True, wait_for_workers=False)
    shared = {
        **os.environ, **launch.of_our_terminal(), **(extra or {}), "WORLD_SIZE": str(ranks), "MASTER_ADDR": _ADDRESS,
        "LOCAL_WORLD_SIZE": str(ranks), "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RUN_ID": "lanecast", "TORCHELASTIC_RESTART_COUNT": "0",
    }  # fmt: skip
    processes = [
        subprocess.Popen(command, env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(ranks)
    ]
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return _outcome(processes, grace_s)
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
        signal.signal(signal.SIGTERM, before)


def _outcome(processes: list[subprocess.Popen[bytes]], grace_s: float) -> int:
    """The status of the first that fails, once the others have had time to speak; else 0."""
    deadline = float("inf")
    status = 0
    while time.monotonic() < deadline:
        ended = [code for process in processes if (code := process.poll()) is not None]
        if status == 0 and any(ended):
            status = next(code for code in ended if code)
            deadline = time.monotonic() + grace_s
        if len(ended) == len(processes):
            break
        time.sleep(0.05)
    return 128 - status if status < 0 else status
