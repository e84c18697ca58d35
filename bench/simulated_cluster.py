# SPDX-License-Identifier: Apache-2.0
"""An emulated cluster, simulated: the same calls on both, and how far the simulated time is from the measured one.

    python bench/simulated_cluster.py --json cluster.json     # measures, then simulates; minutes, on quiet cores
    python bench/simulated_cluster.py --again cluster.json    # simulates what was measured before

The simulated machine has the rates that the job itself finds: of TCP through the NICs, of messages within a host, of
copies by all ranks at once, and the latency between two hosts. Needs what `lanecast cluster` and `lanecast scale` need.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import lanecast
from lanecast import launch, machines
from lanecast.bench import machine
from lanecast.bench.hiccl import limits
from lanecast.bench.measure import Bench
from lanecast.bench.options import parse_sizes
from lanecast.bench.ranks import Ranks
from lanecast.bench.settings import Settings
from lanecast.bench.software import software
from lanecast.bench.tables import number, size_text
from lanecast.cluster import job
from lanecast.cluster.cluster import Cluster
from lanecast.cluster.shape import Shape, parse_rate
from lanecast.machines import Machine
from lanecast.point_to_point import P2POp
from lanecast.scale import build, contenders, platform, point
from lanecast.scale.contenders import COLLECTIVES, Case
from lanecast.tune.measure import Effort, Stopwatch, calls_for

_ALGORITHMS = ("ring", "hierarchical(ring,direct)", "hierarchical(recursive_doubling,direct)")
_CHUNKS = (1, 8)
_PINGS = 50
_MACHINE = """
name = "Emulated cluster"
summary = "hosts that are namespaces of one machine"
[node]
cpu = "{cpu}"
cores = {cores}
ranks = {ranks}
nic = "veth, slowed down by tbf"
nics = {nics}
nic_GBps = {nic_GBps:.6g}
nic_map = "packed"
memory_GBps = {memory_GBps:.6g}
[[levels]]
name = "rank"
size = {ranks}
link = "shared memory"
link_GBps = {link_GBps:.6g}
[network]
latency_us = {latency_us:.6g}
nodes_per_group = 4096
taper = 1.0
[sources]
"node.cpu" = "the kernel"
"node.cores" = "the kernel"
"node.ranks" = "the job"
"node.nic" = "lanecast cluster"
"node.nics" = "lanecast cluster"
"node.nic_GBps" = "measured: TCP streams through all NICs of two hosts, both ways"
"node.nic_map" = "lanecast cluster"
"node.memory_GBps" = "measured: copies by all ranks at once, reads and writes"
"levels.rank.size" = "the job"
"levels.rank.link_GBps" = "measured: messages within all hosts at once"
"network.latency_us" = "measured: half of an empty message's way there and back"
"network.nodes_per_group" = "one bridge for each NIC"
"network.taper" = "one bridge for each NIC"
"""

Row = dict[str, Any]


def measure(comm: lanecast.Communicator, sizes: Sequence[int], rounds: int) -> list[Row]:
    """Rows on every rank, equal but for what the machine is called. Collective."""
    network = limits.Links(Bench(Ranks(comm), Settings((), (), ()))).measure()
    copied_gbps = machine.copy_gbps(Ranks(comm))
    facts = {
        "ranks": comm.size, "hosts": comm._core.hosts, "transports": comm.transports, "latency_us": _latency_us(comm),
        "kf_GBps": (network.bidirectional or 0) / 1e9, "within_GBps": (network.within or 0) / 1e9,
        "memory_GBps": 2 * copied_gbps / comm.size, **software(),
    }  # fmt: skip
    watch = Stopwatch(comm, Effort(tuple(sizes), rounds, 0))
    rows = []
    for collective in COLLECTIVES:
        for size in sizes:
            ways = [(name, chunks) for name in _ALGORITHMS for chunks in _CHUNKS if name != "ring" or chunks == 1]
            if comm.rank == 0:
                print(f"measuring {collective} of {size_text(size)}", file=sys.stderr, flush=True)
            times = watch.rounds(calls_for(comm, collective, size, ways))
            rows += [
                {"collective": collective, "bytes": size, "algorithm": name, "chunks": chunks, "measured_s": seconds,
                 "run": facts}
                for (name, chunks), seconds in zip(ways, times, strict=True)
            ]  # fmt: skip
    return rows


def _latency_us(comm: lanecast.Communicator) -> float:
    """One way between the first ranks of the first and the last host; equal on every rank."""
    watch = Stopwatch(comm, Effort((), 1, 0))
    far = comm.topology.partition(list(range(comm.size)), 0)[-1][0]
    peer = {0: far, far: 0}.get(comm.rank)
    empty = b"\0", bytearray(1)

    def ping() -> None:
        if peer is None:
            return
        order = ("irecv", "isend") if comm.rank else ("isend", "irecv")
        for what in order:
            comm.batch_send_recv([P2POp(what, empty[what == "irecv"], peer)])

    watch.once(ping, _PINGS)
    return min(watch.once(ping, _PINGS) for _ in range(3)) / 2 * 1e6


def simulated_machine(run: Row, folder: Path) -> Machine:
    """The cluster as `lanecast scale --machine FILE` takes one."""
    file = folder / "cluster.toml"
    shape = run["shape"]
    values = {**run, "cpu": "of this machine", "cores": 1, "ranks": run["ranks"] // run["hosts"],
              "nics": shape["nics"], "nic_GBps": run["kf_GBps"] / shape["nics"],
              "link_GBps": run["within_GBps"]}  # fmt: skip
    file.write_text(_MACHINE.format(**values))
    return machines.load(str(file))


def simulate(rows: Sequence[Row]) -> None:
    """Give each row its simulated time, the bound of its NICs, and the simulation's deviation."""
    simulator = build.simulator(partial(print, file=sys.stderr, flush=True))
    with tempfile.TemporaryDirectory() as folder:
        described = simulated_machine(rows[0]["run"], Path(folder))
    for row in rows:
        ranks, hosts = row["run"]["ranks"], row["run"]["hosts"]
        case = Case(described, row["collective"], ranks, contenders.evenly(row["bytes"], ranks))
        plan = contenders.plan(f"lanecast:{row['algorithm']}", case, row["chunks"])
        row["simulated_s"] = point.run(simulator, [*platform.words(described), *plan.words(case)]).seconds
        passes = 2 if row["collective"] == "all_reduce" else 1
        row["bound_s"] = passes * row["bytes"] * (1 - 1 / hosts) / (row["run"]["kf_GBps"] * 1e9)
        row["deviation"] = row["simulated_s"] / statistics.median(row["measured_s"]) - 1
        row["run"]["simgrid"] = simulator.simgrid


def table(rows: Sequence[Row]) -> str:
    """In Markdown, with the machine's figures above."""
    run = rows[0]["run"]
    lines = [
        f"{run['hosts']} hosts of {run['ranks'] // run['hosts']} ranks, {run['shape']['text']}, {run['transports']}; "
        f"commit {run['commit']}. Simulated by SimGrid {run['simgrid']} with what the job measured: "
        f"{run['kf_GBps'] * 1e3:.0f} MB/s into a host, {run['within_GBps']:.2f} GB/s within one, "
        f"{run['memory_GBps']:.2f} GB/s of memory for each rank, {run['latency_us']:.0f} us.",
        "",
        "| collective, size | algorithm | chunks | bound, ms | measured, ms (quartiles) | simulated, ms | deviation |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        measured = sorted(each * 1e3 for each in row["measured_s"])
        low, middle, high = (
            statistics.quantiles(measured, n=4, method="inclusive") if len(measured) > 1 else measured * 3
        )
        cells = (
            f"{row['collective']}, {size_text(row['bytes'])}", f"`{row['algorithm']}`", str(row["chunks"]),
            number(row["bound_s"] * 1e3), f"{number(middle)} ({number(low)} to {number(high)})",
            number(row["simulated_s"] * 1e3), f"{row['deviation']:+.0%}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _rows_of_cluster(shape: Shape, ranks_per_host: int, sizes: str, rounds: int) -> list[Row]:
    launcher = launch.find_launcher()
    if launcher is None:
        raise lanecast.UsageError("no MPI beside this Python or on PATH: pip install mpich")
    with tempfile.TemporaryDirectory() as folder, Cluster.start(shape) as cluster:
        file = Path(folder) / "rows.json"
        arguments = ["--sizes", sizes, "--rounds", str(rounds), "--rows", str(file)]
        command = job.command(launcher, shape, ranks_per_host, [sys.executable, str(Path(__file__)), *arguments])
        if cluster.run(command, job.environment(launcher, shape, ranks_per_host)) != 0:
            raise lanecast.TransportError(f"the job on {shape} failed; its messages are above")
        rows: list[Row] = json.loads(file.read_text())
    described = {"text": str(shape), "nics": shape.nics}
    run = {**rows[0]["run"], "shape": described, "command": machine.command_line()}
    return [{**row, "run": run} for row in rows]


def main(  # noqa: PLR0913, PLR0917  one per option
    hosts: int = 4,
    ranks_per_host: int = 2,
    nics: int = 2,
    rate: Annotated[str, typer.Option(help="Of each NIC.")] = "500mbit",
    sizes: Annotated[str, typer.Option(help="Bytes of the full buffer.")] = "4M,16M,64M",
    rounds: int = 5,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all rows here.")] = None,
    again: Annotated[Path | None, typer.Option(help="Rows that --json has written: simulate them only.")] = None,
    rows_file: Annotated[Path | None, typer.Option("--rows", hidden=True, help="Of the ranks of the job.")] = None,
) -> None:
    """Measure, simulate, print a table, and write what was asked for."""
    if rows_file is not None:
        comm = lanecast.init(profile="none")
        measured = measure(comm, parse_sizes(sizes), rounds)
        if comm.rank == 0:
            rows_file.write_text(json.dumps(measured))
        return
    if again is not None:
        found: list[Row] = json.loads(again.read_text())
    else:
        found = _rows_of_cluster(Shape(hosts, nics, parse_rate(rate)), ranks_per_host, sizes, rounds)
    if json_file is not None:  # what was measured outlives a simulation that fails
        json_file.write_text(json.dumps(found, indent=1) + "\n")
    simulate(found)
    if json_file is not None:
        json_file.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))


if __name__ == "__main__":
    try:
        typer.run(main)
    except Exception as error:
        launch.fail(error)
