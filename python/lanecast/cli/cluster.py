# SPDX-License-Identifier: Apache-2.0
"""`lanecast cluster`: jobs on an emulated cluster, with as many hosts and NICs as wanted, on one Linux machine."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from lanecast import _core, launch
from lanecast.bench import outputs, tables
from lanecast.cluster import gpu_nics, job, registry
from lanecast.cluster.cluster import Cluster
from lanecast.cluster.shape import Shape, parse_rate

app = typer.Typer(no_args_is_help=True, help="Jobs on emulated hosts: namespaces with NICs of a chosen rate.")

_USUAL = "default"
_GPU_NICS = (
    "Also an emulated NIC for each rank's GPU, with a rate in each direction and a latency: 50GBps,12us. Lanecast's "
    "messages between hosts then go over those."
)
Name = Annotated[str, typer.Option(help="Of the cluster, where there are several.")]
Hosts = Annotated[int | None, typer.Option(help="Hosts; default 2.")]
Nics = Annotated[int | None, typer.Option(help="NICs of each host; default 1.")]
Rate = Annotated[str | None, typer.Option(help="Of each NIC in each direction: 500mbit, 10gbit; default 1gbit.")]


def _shape(hosts: int | None, nics: int | None, rate: str | None) -> Shape:
    wanted = {"hosts": hosts, "nics": nics, "rate_bps": None if rate is None else parse_rate(rate)}
    return Shape(**{name: value for name, value in wanted.items() if value is not None})


@app.command()
def up(hosts: Hosts = None, nics: Nics = None, rate: Rate = None, name: Name = _USUAL) -> None:
    """Start a cluster that stays until `down`."""
    shape = _shape(hosts, nics, rate)
    there = registry.find(name)
    if there is not None:
        raise _core.UsageError(f"cluster {name!r} is up already, with {there.shape}; end it with lanecast cluster down")
    cluster = Cluster.start(shape)
    try:
        registry.save(name, cluster)
    except BaseException:
        cluster.stop()
        raise
    cluster.keep()
    print(f"cluster {name!r} is up: {shape}")


@app.command()
def down(name: Name = _USUAL) -> None:
    """Stop a cluster and everything that runs on it."""
    print(f"cluster {name!r} is down" if registry.remove(name) else f"cluster {name!r} was not up")


@app.command(context_settings={"allow_interspersed_args": False})
def run(  # noqa: PLR0913, PLR0917  one per option
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND…", help="The program that each rank runs.")],
    hosts: Hosts = None,
    ranks_per_host: Annotated[int, typer.Option(min=1, help="Ranks of each host.")] = 1,
    nics: Nics = None,
    rate: Rate = None,
    gpu_nics_text: Annotated[str | None, typer.Option("--gpu-nics", help=_GPU_NICS)] = None,
    mpiexec: Annotated[Path | None, typer.Option(help="Of the MPI to use; default: beside this Python.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the bytes of each NIC here.")] = None,
    name: Annotated[str | None, typer.Option(help="Of a cluster that is up; default: default, if that is.")] = None,
) -> None:
    """Run a program on every rank and show the bytes that went through each NIC.

    On the cluster that is up, else, where no name is given, on one that lasts as long as the job.
    """
    outputs.check(json_file)
    launcher = launch.find_launcher(mpiexec)
    if launcher is None:
        raise _core.UsageError(f"no MPI launcher {mpiexec or 'beside this Python or on PATH'}: pip install mpich")
    wanted = None if gpu_nics_text is None else gpu_nics.parse(gpu_nics_text, "--gpu-nics")
    program = Program(launcher, ranks_per_host, command, wanted)
    cluster = registry.find(_USUAL if name is None else name)
    if cluster is None and name is not None:
        raise _core.UsageError(
            f"cluster {name!r} is not up: start it with lanecast cluster up --name {name}, or leave --name out for one "
            "that lasts as long as the job"
        )
    if cluster is None:
        with Cluster.start(_shape(hosts, nics, rate)) as cluster:
            sys.exit(run_job(cluster, program, json_file))
    there = cluster.shape
    bps = parse_rate(rate) if rate else there.rate_bps
    if Shape(hosts or there.hosts, nics or there.nics, bps) != there:
        raise _core.UsageError(f"the cluster is up with {there}: leave --hosts, --nics and --rate out, or end it")
    if damage := cluster.damage():
        end = "lanecast cluster down" + (f" --name {name}" if name else "")
        raise _core.TransportError(f"the cluster is no longer as it was made: {'; '.join(damage)}; end it with {end}")
    sys.exit(run_job(cluster, program, json_file))


@dataclass(frozen=True)
class Program:
    """What runs on each rank of a cluster."""

    launcher: launch.Launcher
    ranks_per_host: int
    command: list[str]
    gpu_nics: gpu_nics.Nics | None = None  # of each rank


def run_job(cluster: Cluster, program: Program, json_file: Path | None) -> int:
    """Run a program on every rank and tell the bytes of each NIC; the job's exit status."""
    shape, ranks = cluster.shape, program.ranks_per_host
    before = cluster.traffic()
    environment = job.environment(program.launcher, shape, ranks)
    gpu_rows: list[dict[str, Any]] = []
    with contextlib.ExitStack() as ended:
        network = None
        if program.gpu_nics is not None:
            network = ended.enter_context(gpu_nics.on_cluster(cluster, program.gpu_nics, ranks))
            environment |= network.environment()
        status = cluster.run(job.command(program.launcher, shape, ranks, program.command), environment)
        if network is not None:
            gpu_rows = [
                {**row, "host": shape.host_names[row["host"]], "nic": f"gpu{row['nic']}"} for row in network.traffic()
            ]
    rows = [
        {**new, **{key: _difference(old[key], new[key]) for key in ("received_bytes", "sent_bytes")}}
        for old, new in zip(before, cluster.traffic(), strict=True)
    ]
    console = tables.console("stderr")
    console.print(f"\nbytes through each NIC of {shape}")
    console.print(traffic_table(rows))
    facts = {"hosts": shape.hosts, "nics": shape.nics, "rate_bps": shape.rate_bps, "traffic": rows}
    if gpu_rows:
        console.print(f"\nbytes through each emulated NIC of {program.gpu_nics}")
        console.print(traffic_table(gpu_rows))
        facts |= {"gpu_nics": str(program.gpu_nics), "gpu_traffic": gpu_rows}
    if json_file is not None:
        try:
            json_file.write_text(json.dumps(facts, indent=1) + "\n")
        except OSError as error:
            print(f"lanecast cluster: {json_file}: {error.strerror}", file=sys.stderr)
            return status or 1
    return status


def _difference(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def traffic_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("host", "NIC", "received (MB)", "sent (MB)"):
        table.add_column(heading, justify="left" if heading in {"host", "NIC"} else "right")
    for row in rows:
        moved = ["gone" if row[key] is None else f"{row[key] / 1e6:.1f}" for key in ("received_bytes", "sent_bytes")]
        table.add_row(row["host"], row["nic"], *moved)
    return table
