# SPDX-License-Identifier: Apache-2.0
"""`lanecast bench`: collectives, sizes and backends side by side in one run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lanecast import _core, launch
from lanecast.bench import judge as judging
from lanecast.bench import outputs, runner
from lanecast.bench.checks import choose_baseline
from lanecast.bench.hiccl.protocol import SWEEPS, Hiccl
from lanecast.bench.hiccl.variants import PRESETS
from lanecast.bench.options import distinct, known_name, parse_dtype, parse_sizes, refuse_on_gpu, split_list
from lanecast.bench.pccl import Pccl
from lanecast.bench.ppg.protocol import USUAL, Ppg
from lanecast.bench.protocol import Protocol, SideBySide
from lanecast.bench.settings import DEVICES, GPU_ROUND_S, GPU_SIZES, KNOWN, Backend, Settings, parse_backend
from lanecast.cli import bench_train

PROTOCOLS = ("backends", "hiccl", "pccl", "ppg")


def _known(what: str, known: Any) -> str:
    return f"{what}: {', '.join(known)}."


def bench(  # noqa: PLR0913, PLR0917  one per option
    context: typer.Context,
    protocol: Annotated[str, typer.Option(help=_known("How to measure, one of", PROTOCOLS))] = "backends",
    collectives: Annotated[
        str, typer.Option(help=_known("Comma-separated", _core.KINDS) + " Default: by protocol.")
    ] = "",
    sizes: Annotated[
        str, typer.Option(help="Bytes of the full buffer: 4M,16M or a doubling range 64K..64M. Default: by protocol.")
    ] = "",
    backends: Annotated[
        str,
        typer.Option(
            help="lanecast, lanecast:ALGORITHM, reproducible, mpi. "
            f"On cuda: {KNOWN['cuda']}. Default: lanecast, and mpi or nccl."
        ),
    ] = "",
    topology: Annotated[
        str, typer.Option(help="2x4, 2x2x2, 3+2+4, 2x4:cyclic, a .toml file; several, comma-separated.")
    ] = "",
    transports: Annotated[str, typer.Option(help=_known("One, or one per level, from", _core.TRANSPORTS))] = "",
    dtype: Annotated[str, typer.Option(help=_known("One of", _core.DTYPES))] = "float32",
    op: Annotated[str, typer.Option(help=_known("One of", _core.OPS))] = "sum",
    rounds: Annotated[int, typer.Option(min=1, help="Each runs every backend once; the median is shown.")] = 10,
    warmup: Annotated[int, typer.Option(min=-1, help="Calls before the first round; -1: by protocol.")] = -1,
    ranks: Annotated[
        int, typer.Option(min=0, help="How many to start; 0: as the topology, else 4, on cuda one per GPU.")
    ] = 0,
    device: Annotated[str, typer.Option(help=_known("Where buffers lie, one of", DEVICES))] = "cpu",
    graph: Annotated[bool, typer.Option("--graph", help="On cuda: also replay the calls from a CUDA graph.")] = False,
    shared_gpus: Annotated[
        bool, typer.Option("--shared-gpus", help="On cuda: ranks may share GPUs, to see results and not times.")
    ] = False,
    in_place: Annotated[bool, typer.Option("--in-place", help="Input within the output.")] = False,
    judge: Annotated[
        bool, typer.Option("--judge", help="Print the cells below 0.98 of the best library's speed; exit 1 if any.")
    ] = False,
    baseline: Annotated[
        str, typer.Option(help="The backend to compare with; empty: mpi or nccl, else the first.")
    ] = "",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all rows here.")] = None,
    heatmap: Annotated[Path | None, typer.Option(help="Draw speed relative to the baseline (PNG, PDF, SVG).")] = None,
    sweep: Annotated[str, typer.Option(help=_known("Protocol hiccl: what to vary, one of", SWEEPS))] = "",
    preset: Annotated[
        str, typer.Option(help=_known("Protocol hiccl: factorings of one of", PRESETS) + " Default: by topology.")
    ] = "",
    depths: Annotated[str, typer.Option(help="Protocol hiccl: pipeline depths, 4,16 or a doubling range 1..128.")] = "",
    plot: Annotated[Path | None, typer.Option(help="Protocols hiccl, ppg: draw the rows (PNG, PDF, SVG).")] = None,
    processes_per_gpu: Annotated[
        str, typer.Option(help=f"Protocol ppg: processes of each rank, 1,2,4 or a doubling range. Default: {USUAL}.")
    ] = "",
    shared_cores: Annotated[
        bool, typer.Option("--shared-cores", help="Protocol ppg: they may share cores, to see results and not times.")
    ] = False,
) -> None:
    """Compare backends on the same buffers, in rounds that alternate between them.

    Started plainly it starts its own ranks; under mpirun, mpiexec or srun it uses those. With a topology on one host
    the nodes are emulated: MPI messages across them, shared memory within. Protocol hiccl compares the shapes of
    composed collectives as HiCCL's paper does, beside the bounds of its Table III. Protocol pccl shows the mean and the
    standard deviation of --rounds independent runs at the sizes of PCCL's paper. On cuda each rank has a GPU; they come
    from torchrun or are started here, and torch brings NCCL to compare with; there a topology is for protocol hiccl,
    whose nodes may be GPUs of one host.
    """
    if context.invoked_subcommand is not None:
        _refuse_before(context.invoked_subcommand, context)
        return
    on_gpu = known_name("device", device, DEVICES) == "cuda"
    contenders = _contenders(backends or ("lanecast,nccl" if on_gpu else "lanecast,mpi"), device)
    of_protocols = {
        "sweep": sweep, "preset": preset, "depths": depths, "plot": plot,
        "processes-per-gpu": processes_per_gpu, "shared-cores": shared_cores,
    }  # fmt: skip
    chosen = _protocol(known_name("protocol", protocol, PROTOCOLS), of_protocols, heatmap, on_gpu)
    if on_gpu:
        _check_topology_of_gpus(protocol, topology)
        refuse_on_gpu({"transports": transports})
    elif graph or shared_gpus:
        raise _core.UsageError(f"{'graph' if graph else 'shared-gpus'}: needs --device cuda")
    settings = Settings(
        collectives=tuple(known_name("collective", name, _core.KINDS) for name in distinct(collectives))
        or chosen.collectives,
        sizes=parse_sizes(sizes or chosen.sizes),
        backends=contenders,
        topologies=distinct(topology) or ("",),
        transports=",".join(known_name("transport", name, _core.TRANSPORTS) for name in split_list(transports)),
        dtype=known_name("dtype", dtype, _core.DTYPES) if on_gpu else parse_dtype(dtype),
        op=known_name("op", op, _core.OPS),
        rounds=rounds,
        warmup=chosen.warmup if warmup < 0 else warmup,
        round_s=GPU_ROUND_S if on_gpu else chosen.round_s,
        in_place=in_place,
        baseline=choose_baseline(baseline, contenders),
        graph=graph,
        shared_gpus=shared_gpus,
    )
    if judge:
        judging.check(contenders)
    picture = heatmap or plot
    outputs.check(json_file)
    outputs.check_picture(picture)
    rows = _on_gpus(settings, ranks, chosen, json_file) if on_gpu else runner.run(settings, ranks, chosen)
    if rows is None:
        return
    if json_file is not None:
        outputs.write_json(json_file, rows)
    if picture is not None:
        chosen.draw(rows, picture)
    if any(row["wrong"] for row in rows):
        raise _core.InternalError("wrong results: see the column #wrong")
    if judge and not judging.passes(rows, contenders):
        raise typer.Exit(1)


def _refuse_before(command: str, context: typer.Context) -> None:
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise _core.UsageError(f"{name}: is of `lanecast bench`; options of `bench {command}` stand behind it")


def _contenders(text: str, device: str) -> tuple[Backend, ...]:
    found = tuple(parse_backend(item, device) for item in distinct(text))
    if not found:
        raise _core.UsageError(f"backends: none given; known: {KNOWN['cpu']}")
    return found


def _on_gpus(settings: Settings, ranks: int, protocol: Protocol, json_file: Path | None) -> list[dict[str, Any]] | None:
    """The rows on rank 0, None on others; those of whole collectives are in the file where a later one fails."""
    rows: list[dict[str, Any]] = []
    for found in runner.run_on_gpus(settings, ranks, protocol):
        rows += found
        if json_file is not None and launch.rank() == 0:
            outputs.save_rows(json_file, rows)
    return rows if launch.rank() == 0 else None


def _check_topology_of_gpus(protocol: str, topology: str) -> None:
    """Raise UsageError for one where only the GPUs' own hosts count, or for several."""
    if topology and protocol != "hiccl":
        raise _core.UsageError("topology: on GPUs it shapes compositions, and needs --protocol hiccl")
    if len(distinct(topology)) > 1:
        raise _core.UsageError(f"topology {topology!r}: one, with --device cuda")


_OPTIONS = {"hiccl": ("sweep", "preset", "depths", "plot"), "ppg": ("plot", "processes-per-gpu", "shared-cores")}


def _protocol(name: str, given: dict[str, Any], heatmap: Path | None, on_gpu: bool) -> Protocol:
    """The one of this name. Raises UsageError for options of another."""
    if name in _OPTIONS and heatmap is not None:
        raise _core.UsageError(f"heatmap: is of protocol backends; {name} draws by --plot")
    for option, value in given.items():
        if value and option not in _OPTIONS.get(name, ()):
            takers = " or ".join(taker for taker, options in _OPTIONS.items() if option in options)
            raise _core.UsageError(f"{option}: needs --protocol {takers}")
    if name == "hiccl":
        return Hiccl.parse(given["sweep"], given["preset"], given["depths"], on_gpu)
    if name == "pccl":
        return Pccl()
    if name == "ppg":
        return Ppg.parse(given["processes-per-gpu"], shared_cores=given["shared-cores"])
    return SideBySide(GPU_SIZES) if on_gpu else SideBySide()


app = typer.Typer(invoke_without_command=True)
app.callback()(bench)
app.command("train")(bench_train.train)
