# SPDX-License-Identifier: Apache-2.0
"""How long fresh processes with empty caches take to the end of their first all-reduce on GPUs, beside NCCL.

    python bench/first_use.py --ranks 2 --times 3

Each time the user's caches are new folders. The clock starts where torch is imported and its GPU is open, so that what
is counted is Lanecast's or NCCL's: the import, the communicator or group, the first all-reduce of 1 MiB and the second
one. Each figure is of the slowest rank.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

WAYS = ["lanecast", "torch by Lanecast", "torch by NCCL"]
_SAYS = "FIRST USE "


def _rank(way: str, rank: int, ranks: int) -> None:
    import torch

    torch.cuda.set_device(rank)
    values = torch.ones(1 << 18, device="cuda")
    torch.cuda.synchronize()
    marks: dict[str, float] = {}
    since = time.perf_counter()

    def mark(name: str) -> None:
        nonlocal since
        now = time.perf_counter()
        marks[name], since = 1e3 * (now - since), now

    if way == "lanecast":
        import lanecast

        mark("import")
        communicator = lanecast.init(device=rank)
        reduce: Callable[[], object] = lambda: communicator.all_reduce(values)  # noqa: E731
    else:
        import torch.distributed as dist

        dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
        backend = dist.group.WORLD._get_backend(torch.device("cuda"))
        assert (type(backend).__module__ == "lanecast_c10d") == (way == "torch by Lanecast")
        reduce = lambda: dist.all_reduce(values)  # noqa: E731
    mark("communicator")
    for name in ("first", "second"):
        reduce()
        torch.cuda.synchronize()
        mark(name)
    assert float(values[0]) == ranks**2
    print(_SAYS + json.dumps(marks), flush=True)


def _launched_rank() -> int:
    """As MPICH and Open MPI say it: to ask Lanecast would import it."""
    return int(next(os.environ[name] for name in ("PMI_RANK", "OMPI_COMM_WORLD_RANK") if name in os.environ))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _started(way: str, ranks: int, caches: Path) -> list[subprocess.Popen[str]]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(caches), "CUDA_CACHE_PATH": str(caches / "driver"),
                   "LANECAST_TORCH": "1" if way == "torch by Lanecast" else "0"}  # fmt: skip
    words = [sys.executable, __file__, "--ranks", str(ranks), "--rank"]
    if way == "lanecast":
        from lanecast import launch

        launcher = launch.find_launcher()
        if launcher is None:
            return []
        command, more = launch.job(launcher, ranks, [*words, "launched", "--way", way])
        jobs = [(command, more | {name: environment[name] for name in ("XDG_CACHE_HOME", "CUDA_CACHE_PATH")})]
    else:
        group = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
        jobs = [([*words, str(rank), "--way", way], environment | group | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
                for rank in range(ranks)]  # fmt: skip
    return [subprocess.Popen(command, env=given, stdout=subprocess.PIPE, text=True) for command, given in jobs]


def _once(way: str, ranks: int) -> dict[str, float]:
    """Of the slowest rank; empty where no MPI starts ranks."""
    with tempfile.TemporaryDirectory() as caches:
        said = [started.communicate(timeout=120)[0] for started in _started(way, ranks, Path(caches))]
    lines = [json.loads(line.partition(_SAYS)[2]) for text in said for line in text.splitlines() if _SAYS in line]
    return {name: max(each[name] for each in lines) for name in (lines[0] if lines else {})}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank is not None:
        _rank(given.way, _launched_rank() if given.rank == "launched" else int(given.rank), given.ranks)
        return
    for way in WAYS:
        runs = [_once(way, given.ranks) for _ in range(given.times)]
        if not runs or not runs[0]:
            print(f"{way:18} no mpiexec")
            continue
        medians = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        whole = [sum(run.values()) - run["second"] for run in runs]
        parts = ", ".join(f"{name} {medians[name]:.0f}" for name in medians)
        print(
            f"{way:18} {statistics.median(whole):6.0f} ms (of {', '.join(f'{w:.0f}' for w in whole)}): {parts}",
            flush=True,
        )


if __name__ == "__main__":
    main()
