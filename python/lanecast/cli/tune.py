# SPDX-License-Identifier: Apache-2.0
"""`lanecast tune`: measure this machine once, so that every later call is chosen by what was measured."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lanecast import _core, job, launch, startup
from lanecast.bench import outputs
from lanecast.bench.options import distinct, known_name, ranks_of, refuse_on_gpu, split_list, topology_for
from lanecast.bench.settings import DEVICES
from lanecast.communicator import Communicator
from lanecast.profiles import finding, gpu_profile, surprises
from lanecast.profiles.profile import Profile, default_folder, file_name, load, save
from lanecast.tune import tables
from lanecast.tune.gain import gains
from lanecast.tune.measure import COLLECTIVES, QUICK, THOROUGH, Effort, surprises_of
from lanecast.tune.tuner import tune as measure

_DEFAULT_RANKS = 4
_ALL = ",".join(COLLECTIVES)


def tune(  # noqa: PLR0913, PLR0917  one per option
    quick: Annotated[bool, typer.Option("--quick", help="Seconds instead of minutes: fewer sizes and rounds.")] = False,
    topology: Annotated[str, typer.Option(help="2x4, 2x2x2, 3+2+4, a .toml file; default: as the ranks sit.")] = "",
    transports: Annotated[str, typer.Option(help=f"One, or one per level, from {', '.join(_core.TRANSPORTS)}.")] = "",
    ranks: Annotated[
        int, typer.Option(min=0, help="How many to start; 0: as the topology, else 4; on cuda one per GPU.")
    ] = 0,
    device: Annotated[str, typer.Option(help=f"Whose calls to measure, one of {', '.join(DEVICES)}.")] = "cpu",
    collectives: Annotated[str, typer.Option(help="Comma-separated; the others are predicted from links.")] = _ALL,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File; default: in the user's cache.")] = None,
    gain: Annotated[
        bool, typer.Option("--gain", help="Then time the choices without it, with it, and the best there is.")
    ] = False,
    show: Annotated[Path | None, typer.Option(help="Only print this profile and what it makes calls take.")] = None,
) -> None:
    """Measure links and algorithms of this machine, fit them, and write a profile that communicators choose by.

    Started plainly it starts its own ranks; under mpirun, mpiexec or srun it uses those. Nothing else should run. A
    profile holds for jobs of this shape; `lanecast learn` learns for many numbers of ranks. On cuda it times what moves
    calls among the GPUs of this host, in seconds with or without --quick; ranks come from torchrun or mpirun, or are
    started here.
    """
    on_gpu = known_name("device", device, DEVICES) == "cuda"
    if show is not None:
        _show(show)
        return
    if on_gpu:
        refuse_on_gpu({"topology": topology, "transports": transports})
    for name in split_list(transports):
        known_name("transport", name, _core.TRANSPORTS)
    options = {"topology": topology, "transports": transports, "profile": finding.NONE}
    outputs.check(output)
    names = [known_name("collective", name, COLLECTIVES) for name in distinct(collectives)]
    if not names:
        raise _core.UsageError(f"collectives: none given; known: {', '.join(COLLECTIVES)}")
    if on_gpu:
        _tune_gpus(names, ranks, output, gain)
        return
    body = partial(_tune, effort=QUICK if quick else THOROUGH, collectives=names, output=output, gain=gain)
    if job.under_launcher():
        body(startup.init(**options))
        return
    ranks = ranks or (ranks_of(topology) if topology else _DEFAULT_RANKS)
    if ranks < 2:
        raise _core.UsageError("ranks: one has nobody to talk to; tune with 2 or more")
    if topology:
        topology_for(topology, ranks)
    launcher = launch.find_launcher()
    if launcher is not None:
        launch.start_ranks(launcher, ranks)
    print("no mpiexec found: ranks are threads, and the profile holds for threads only", file=sys.stderr)
    startup.run_threads(ranks, body, **options)


def _tune(comm: Communicator, effort: Effort, collectives: list[str], output: Path | None, gain: bool) -> None:
    if comm.size < 2:
        raise _core.UsageError("ranks: one has nobody to talk to; tune with 2 or more")
    say = partial(_say, comm.rank)
    if comm.rank == 0 and output is None:
        outputs.make_cache(default_folder())
    surprised = [one for one in surprises_of(comm) if one[0] in collectives]
    for collective, size in surprised:
        say(f"also what surprised: {collective} of {size} bytes")
    effort = replace(effort, sizes=tuple(sorted({*effort.sizes, *(size for _, size in surprised)})))
    profile = measure(comm, effort, collectives, say)
    found = gains(comm, profile, effort, collectives, say) if gain else []
    if comm.rank == 0:
        _finish(profile, output)
        surprises.forget(profile.shape, surprised)
        tables.show_gains(found)


def _show(file: Path) -> None:
    if not gpu_profile.is_one(file):
        tables.show(load(file))
        return
    from lanecast.tune import gpu_tables

    gpu_tables.show(gpu_profile.load(file))


def _tune_gpus(collectives: list[str], ranks: int, output: Path | None, gain: bool) -> None:
    from lanecast.tune import gpu_tuner

    gpu_tuner.run(collectives, ranks, output, gain)


def _say(rank: int, what: str) -> None:
    if rank == 0:
        print(f"measuring {what} …", file=sys.stderr, flush=True)


def _finish(profile: Profile, output: Path | None) -> None:
    path = output or default_folder() / file_name(profile.shape)
    save(profile, path)
    tables.show(profile)
    use = (
        "communicators of this shape find it by themselves" if output is None else f"use it by LANECAST_PROFILE={path}"
    )
    print(f"wrote {path}; {use}", file=sys.stderr)
