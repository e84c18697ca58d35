# SPDX-License-Identifier: Apache-2.0
"""All-reduce over a growing number of hosts, as HiCCL's figure 10, on emulated hosts whose NICs are the limit.

    python bench/hiccl_hosts.py --json hiccl_hosts.json --plot hiccl_hosts.png

Every number of hosts is a cluster and a job of its own, so that the MPI library's all-reduce runs on those hosts alone
and nobody waits beside them. Needs what `lanecast cluster` needs; takes about two minutes on two cores.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import lanecast
from lanecast import launch
from lanecast.bench import machine, tables
from lanecast.bench.hiccl.tables import of_bound
from lanecast.bench.measure import Row
from lanecast.bench.outputs import write_json
from lanecast.bench.plots import figure_of, machine_text
from lanecast.cluster import job
from lanecast.cluster.cluster import Cluster
from lanecast.cluster.shape import Shape, parse_rate


def rows_of(cluster: Cluster, ranks_per_host: int, bench: Sequence[str]) -> list[Row]:
    """One launch on all hosts of the cluster."""
    launcher = launch.find_launcher()
    if launcher is None:
        raise lanecast.UsageError("no MPI beside this Python or on PATH: pip install mpich")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        program = [sys.executable, "-m", "lanecast", "bench", "--protocol", "hiccl", *bench, "--json", str(file)]
        command = job.command(launcher, cluster.shape, ranks_per_host, program)
        if cluster.run(command, job.environment(launcher, cluster.shape, ranks_per_host)) != 0:
            raise lanecast.TransportError(f"the job on {cluster.shape} failed; its messages are above")
        rows: list[Row] = json.loads(file.read_text())
    for row in rows:
        row["run"]["command"] = machine.command_line()
    return rows


def plot(rows: Sequence[Row], path: Path) -> None:
    """Throughput over the number of ranks, beside Table III's bound over the measured limits."""
    figure, (axis,) = figure_of(7, 4.4, (1, 1))
    for name in dict.fromkeys(row["backend"] for row in rows):
        mine = [row for row in rows if row["backend"] == name]
        axis.plot([row["nodes"] for row in mine], [row["algbw_GBps"] for row in mine], "o-", label=name)
    bounds = {row["nodes"]: row["between_GBps"] for row in rows}
    axis.plot(list(bounds), list(bounds.values()), "k--", label="bound of the NICs")
    axis.set_xticks(list(bounds))
    axis.set_xlabel("hosts")
    axis.set_ylabel("p·d / t (GB/s)")
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=8, frameon=False)
    figure.suptitle(f"all_reduce of {tables.size_text(rows[0]['bytes'])}: {machine_text(rows[-1]['run'])}", fontsize=9)
    figure.savefig(path, dpi=150)


def main(  # noqa: PLR0913, PLR0917  one per option
    hosts: Annotated[str, typer.Option(help="Numbers of hosts.")] = "2,3,4,6,8",
    ranks_per_host: int = 2,
    rate: Annotated[str, typer.Option(help="Of each of two NICs.")] = "250mbit",
    size: str = "8M",
    rounds: int = 10,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all rows here.")] = None,
    picture: Annotated[Path | None, typer.Option("--plot", help="Draw throughput over hosts.")] = None,
) -> None:
    """Measure, print, and write what was asked for."""
    found: list[Row] = []
    for number in hosts.split(","):
        bench = ["--sweep", "ring", "--collectives", "all_reduce", "--sizes", size, "--rounds", str(rounds)]
        with Cluster.start(Shape(int(number), 2, parse_rate(rate))) as cluster:
            print(f"\n=== {cluster.shape}, {ranks_per_host} ranks each", flush=True)
            found += rows_of(cluster, ranks_per_host, bench)
        if json_file is not None:  # what is there outlives an impatient user
            write_json(json_file, found)
    if picture is not None:
        plot(found, picture)
        print(f"wrote {picture}", file=sys.stderr)
    for row in found:
        print(f"{row['nodes']} hosts, {row['backend']}: {of_bound(row, 'between_GBps') or 0:.2f} of the bound")


if __name__ == "__main__":
    try:
        typer.run(main)
    except Exception as error:
        launch.fail(error)
