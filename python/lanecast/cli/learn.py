# SPDX-License-Identifier: Apache-2.0
"""`lanecast learn`: times of whole calls into a database, and what to choose by out of it."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lanecast import _core, job, launch, machines, startup, topologies
from lanecast.bench.options import distinct, known_name, parse_sizes, ranks_of, refuse_on_gpu, topology_for
from lanecast.bench.settings import DEVICES
from lanecast.bench.software import software
from lanecast.cli import paper_figures, train
from lanecast.communicator import Communicator
from lanecast.learn import contenders, gpu_grid, gpu_measuring, measuring, simulating
from lanecast.learn.database import Database
from lanecast.learn.measuring import Grid
from lanecast.profiles import finding, surprises
from lanecast.profiles.scope import MODELLED, SIMULATED
from lanecast.profiles.shape import shape_of
from lanecast.scale import build, platform
from lanecast.scale import software as costs
from lanecast.scale.contenders import COLLECTIVES as SIMULABLE
from lanecast.scale.contenders import Case, evenly
from lanecast.scale.contenders import check as check_backend
from lanecast.tune.measure import surprises_of
from lanecast.wording import counted

app = typer.Typer(
    no_args_is_help=True,
    help="Learn which algorithm to take from times of whole calls, on many numbers of ranks: `measure` or `simulate`, "
    "then `train`. For jobs of one shape, in seconds: `lanecast tune --quick`.",
)
app.command("figures")(paper_figures.figures)
app.command("train")(train.train)

_LONGEST_CALL_S = 0.5
_SIZES, _TOPOLOGIES = "1K..4M", "2,3,4"
_COLLECTIVES = ",".join(contenders.COLLECTIVES)
Times = Annotated[Path, typer.Argument(help="SQLite file; a run that was stopped goes on in it.")]
Collectives = Annotated[str, typer.Option(help=f"Comma-separated, of {', '.join(_core.KINDS)}.")]


@app.command()
def measure(  # noqa: PLR0913, PLR0917  one per option
    database: Times,
    topologies: Annotated[
        str, typer.Option(help="Comma-separated: 2,3,4 ranks, or 2x2,3x2 on nodes. Default: 2,3,4; on cuda 2,4,… GPUs.")
    ] = "",
    transports: Annotated[str, typer.Option(help=f"One, or one per level, from {', '.join(_core.TRANSPORTS)}.")] = "",
    sizes: Annotated[
        str, typer.Option(help="Bytes of the full buffer: a list, or a doubling range. Default: by device.")
    ] = "",
    collectives: Annotated[str, typer.Option(help="Comma-separated. Default: by device.")] = "",
    rounds: Annotated[int, typer.Option(min=1, help="Of each algorithm, alternating; their median counts.")] = 10,
    device: Annotated[str, typer.Option(help=f"Where buffers lie, one of {', '.join(DEVICES)}.")] = "cpu",
    max_ctas: Annotated[
        int, typer.Option(min=0, help="On cuda: multiprocessors of a call, 32 as by torch's groups; 0: as it takes.")
    ] = 0,
    seconds: Annotated[
        float, typer.Option(min=1, help="On cuda: for the ranks of a job; what does not fit stays for another run.")
    ] = math.inf,
) -> None:
    """Time the algorithms side by side here, over sizes and numbers of ranks.

    Started plainly it starts the ranks, one job after the other; under mpirun, mpiexec or srun it uses those, whatever
    --topologies says, but for LANECAST_TOPOLOGY. Nothing else should run. On cuda all engines are timed on the GPUs of
    a host, NCCL among them, and between hosts all algorithms.
    """
    on_gpu = known_name("device", device, DEVICES) == "cuda"
    names = [known_name("collective", name, _core.KINDS) for name in distinct(collectives)]
    if on_gpu:
        refuse_on_gpu({"transports": transports})
        asked = parse_sizes(sizes) if sizes else gpu_grid.usual_sizes()
        gpus = gpu_grid.GpuGrid(names or _core.KINDS, asked, rounds, seconds, max_ctas)
        gpu_measuring.run(database, gpus, [_number_of_gpus(text) for text in distinct(topologies)])
        return
    for option, is_given in (("seconds", seconds != math.inf), ("max-ctas", max_ctas > 0)):
        if is_given:
            raise _core.UsageError(f"{option}: needs --device cuda")
    grid = Grid(names or contenders.COLLECTIVES, parse_sizes(sizes or _SIZES), rounds, _LONGEST_CALL_S,
                mpi=job.under_launcher())  # fmt: skip
    options = {"transports": transports, "profile": finding.NONE}
    if job.under_launcher():
        _measure(startup.init(**options), grid, database)
        return
    shapes = [_shape(text) for text in distinct(topologies or _TOPOLOGIES)]
    launcher = launch.find_launcher()
    for shape in shapes:
        if shape.size < 2:
            raise _core.UsageError("topologies: one rank has nobody to talk to")
        if launcher is None:
            print("no mpiexec found: ranks are threads, and so are those that the times hold for", file=sys.stderr)
            body = partial(_measure, grid=grid, database=database)
            startup.run_threads(shape.size, body, topology=str(shape), **options)
            continue
        command, environment = launch.job(launcher, shape.size, [sys.executable, "-m", "lanecast", *sys.argv[1:]])
        done = subprocess.run(command, env={**environment, "LANECAST_TOPOLOGY": str(shape)}, check=False)
        if done.returncode != 0:
            raise typer.Exit(done.returncode)


def _number_of_gpus(text: str) -> int:
    if not re.fullmatch("[0-9]{1,6}", text, re.ASCII):
        raise _core.UsageError(f"topology {text}: on cuda a number of GPUs; LANECAST_GPU_NICS makes hosts of them")
    return int(text)


def _shape(text: str) -> _core.Topology:
    if topologies.is_file(text) or text.endswith(":cyclic"):
        raise _core.UsageError(f"topology {text}: times are kept for equal nodes that are filled one after the other")
    return topology_for(text, ranks_of(text))


def _measure(comm: Communicator, grid: Grid, database: Path) -> None:
    about = software() if comm.rank == 0 else {}
    first = surprises_of(comm)
    for collective, size in first:
        _say(comm.rank, f"first what surprised: {collective} of {size} B on {comm.size} ranks")
    done = measuring.measure(comm, replace(grid, first=first), database, about, partial(_say, comm.rank))
    if comm.rank == 0:
        surprises.forget(shape_of(comm._core), first)
    _say(comm.rank, f"{counted(comm.size, 'rank')}: {counted(done, 'configuration')} more in {database}")


@app.command()
def simulate(  # noqa: PLR0913, PLR0917  one per option
    database: Times,
    machine: Annotated[str, typer.Option(help="A described machine, or a .toml file.")] = "frontier",
    ranks: Annotated[str, typer.Option(help="Comma-separated; whole nodes.")] = "16,32,64,128",
    sizes: Annotated[str, typer.Option(help="Bytes of the full buffer: a list, or a doubling range.")] = "1M..1G",
    collectives: Collectives = _COLLECTIVES,
    rounds: Annotated[
        int, typer.Option(min=1, help="Of what is near the best, with latencies 1, 2, … % off; their median counts.")
    ] = 1,
    backends: Annotated[
        str,
        typer.Option(help="Of `lanecast scale`, where all algorithms take too long; default: all, and the vendors'."),
    ] = "",
    closed_forms: Annotated[
        bool, typer.Option("--closed-forms", help="By the cost model instead of SimGrid: seconds for the largest grid.")
    ] = False,
    add_software: Annotated[
        bool, typer.Option("--software", help="Add what is known of each library's software, as `lanecast scale` does.")
    ] = False,
) -> None:
    """Simulate the same for a described machine; its times are kept apart as simulated, or as modelled."""
    if closed_forms and add_software:
        raise _core.UsageError("software: the closed forms have the cost model's own gap between messages")
    described = machines.load(machine)
    names = [known_name("collective", name, SIMULABLE) for name in distinct(collectives)]
    asked = [check_backend(name) for name in distinct(backends)]
    cases = [
        simulating.contenders_of(Case(described, name, count, evenly(size, count)), asked, add_software)
        for count in platform.rank_counts(described, ranks)
        for name in names
        for size in parse_sizes(sizes)
    ]
    if closed_forms:
        cases = [known for some in cases if (known := simulating.predicted(some))]
    say = partial(_say, 0)
    about = {**software(), "platform": platform.figures(described)}
    if add_software:
        about["software_costs"] = [asdict(cost) for cost in costs.load()]
    source = simulating.Source(simulating.model, about)
    if not closed_forms:
        simulator = build.simulator(say)
        about["simgrid"] = simulator.simgrid
        source = simulating.Source(partial(simulating.simulate, simulator, rounds, say), about)
    origin = MODELLED if closed_forms else SIMULATED
    scope = simulating.scope_of_machine(machine, described, origin, add_software)
    with Database(database, create=True) as opened:
        done = simulating.fill(opened, scope, cases, source, say)
    say(f"{counted(done, 'configuration')} more in {database}, {scope.origin}")


def _say(rank: int, what: str) -> None:
    if rank == 0:
        print(what, file=sys.stderr, flush=True)
