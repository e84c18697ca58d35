# SPDX-License-Identifier: Apache-2.0
"""One size over numbers of hosts, by each number of processes for a rank, in emulated clusters one after the other: as
figures 5, 8 and 11 of the paper on several processes per GPU.

python bench/ppg_hosts.py sweep.json sweep.png --hosts 2,3,4 --cluster "--nics 2 --rate 10gbit" \
    --bench "--processes-per-gpu 1,2,4 --sizes 512M --rounds 3"
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from lanecast.bench.options import parse_processes
from lanecast.bench.ppg import plots
from lanecast.bench.ppg.protocol import USUAL

LANECAST = [sys.executable, "-m", "lanecast"]


def processes_of(bench: list[str]) -> int:
    """That each host has, its leader included."""
    name = "--processes-per-gpu"
    return max(parse_processes(bench[bench.index(name) + 1] if name in bench else USUAL))


def measured(hosts: int, leaders: int, cluster: list[str], bench: list[str]) -> list[dict[str, Any]]:
    """Rows of a cluster of so many hosts, with so many leaders on each."""
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.json"
        shape = ["--hosts", str(hosts), "--ranks-per-host", str(leaders * processes_of(bench))]
        run = [*LANECAST, "bench", "--protocol", "ppg", "--shared-cores", "--json", str(rows), *bench]
        subprocess.run([*LANECAST, "cluster", "run", *shape, *cluster, "--", *run], check=True)
        found: list[dict[str, Any]] = json.loads(rows.read_text())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", type=Path)
    parser.add_argument("plot", type=Path)
    parser.add_argument("--hosts", default="2,3,4")
    parser.add_argument("--leaders", type=int, default=1, help="on each host; lanes need several")
    parser.add_argument("--cluster", type=shlex.split, default=["--nics", "2", "--rate", "10gbit"])
    parser.add_argument("--bench", type=shlex.split, default=["--sizes", "512M", "--rounds", "3"])
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for hosts in map(int, given.hosts.split(",")):
        rows += measured(hosts, given.leaders, given.cluster, given.bench)
        given.json.write_text(json.dumps(rows, indent=1))  # what there is, should a larger one fail
    plots.draw(rows, given.plot)


if __name__ == "__main__":
    main()
