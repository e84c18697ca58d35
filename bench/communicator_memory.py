# SPDX-License-Identifier: Apache-2.0
"""Memory that a process group takes on a rank, backend by backend, each in processes of its own.

    python bench/communicator_memory.py --ranks 4 --backends lanecast,gloo

Every rank makes one group and calls all_reduce in it, then as many more as --groups, and the growth is shared out among
these. On GPUs (--device cuda, one for each rank) NCCL stands beside it. "process": proportional set size, in which
memory that ranks share counts once, not once for each; "shared": the part of it in shared memory; "pinned": locked for
devices, which is no part of the others where the driver maps it; "device": what the GPU has less.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import lanecast
from lanecast import launch
from lanecast.bench import machine, tables
from lanecast.bench.options import distinct, known_name
from lanecast.bench.settings import DEVICES

PLACES = ("process", "shared", "pinned", "device")
CALL_BYTES = 1 << 20
KIB = 1024


def taken(device: str) -> dict[str, int]:
    """Bytes of this process, and of the device that it uses."""
    kernel = "".join(Path("/proc/self", name).read_text() for name in ("smaps_rollup", "status"))
    of_kernel = {"process": "Pss", "shared": "Pss_Shmem", "pinned": "VmPin"}
    found = {}
    for place, name in of_kernel.items():
        line = re.search(rf"^{name}:\s+(\d+) kB", kernel, re.MULTILINE)
        found[place] = KIB * int(line[1]) if line else 0
    found["device"] = 0
    if device == "cuda":
        import torch

        torch.cuda.synchronize()
        free, whole = torch.cuda.mem_get_info()
        found["device"] = whole - free
    return found


def measure_here(backend: str, device: str, groups: int) -> dict[str, float]:
    """Bytes of a group on this rank, averaged over the ranks."""
    import torch
    import torch.distributed as dist

    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("gloo")
    tensor = torch.ones(CALL_BYTES // 4, device=device)
    made = []

    def another() -> None:
        made.append(dist.new_group(backend=backend))
        dist.all_reduce(tensor, dist.ReduceOp.MAX, group=made[-1])

    another()
    dist.barrier()
    before = taken(device)
    dist.barrier()
    for _ in range(groups):
        another()
    dist.barrier()
    after = taken(device)
    dist.barrier()
    grown = torch.tensor([float(after[place] - before[place]) for place in PLACES])
    dist.all_reduce(grown)
    grown /= groups * dist.get_world_size()
    for group in made:
        dist.destroy_process_group(group)
    dist.destroy_process_group()
    return dict(zip(PLACES, grown.tolist(), strict=True))


def measured(backend: str, device: str, ranks: int, groups: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bytes.json"
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        options = [f"--backends={backend}", f"--device={device}", f"--groups={groups}", f"--rank-of={file}"]
        command = [sys.executable, *torchrun, __file__, *options]
        subprocess.run(command, env={"OMP_NUM_THREADS": "1", **os.environ}, check=True, stdin=subprocess.DEVNULL)
        found: dict[str, float] = json.loads(file.read_text())
    return found


def table_of(rows: dict[str, dict[str, float]], title: str) -> Table:
    table = tables.headed(title, ("backend", *(f"{place} (KiB)" for place in PLACES)), left=("backend",))
    for backend, row in rows.items():
        table.add_row(backend, *(f"{row[place] / KIB:.0f}" for place in PLACES))
    return table


def main(  # noqa: PLR0913, PLR0917  one per option
    backends: Annotated[str, typer.Option(help="Of torch.distributed; by default gloo or nccl beside lanecast.")] = "",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    ranks: Annotated[int, typer.Option(min=2)] = 2,
    groups: Annotated[int, typer.Option(min=1, help="Among which the growth is shared out.")] = 16,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all rows here, in bytes.")] = None,
    rank_of: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Compare backends by the memory of a group."""
    known_name("device", device, DEVICES)
    names = distinct(backends or ("lanecast,nccl" if device == "cuda" else "lanecast,gloo"))
    if rank_of is not None:
        found = measure_here(names[0], device, groups)
        if os.environ["RANK"] == "0":
            rank_of.write_text(json.dumps(found))
        return
    rows = {name: measured(name, device, ranks, groups) for name in names}
    out = tables.console()
    out.print(f"machine   {machine.command_line()}, lanecast {machine.git_commit() or lanecast.__version__}")
    if json_file is not None:
        json_file.write_text(json.dumps([{"backend": name, **row} for name, row in rows.items()]))
    out.print(table_of(rows, f"a group's memory on each of {ranks} ranks ({device}), mean of {groups}"))


if __name__ == "__main__":
    try:
        typer.run(main)
    except lanecast.UsageError as error:
        launch.fail(error)
