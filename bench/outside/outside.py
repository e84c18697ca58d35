# SPDX-License-Identifier: Apache-2.0
"""Runs programs that nobody here wrote, by their own library and by Lanecast, and compares what their optimizers make.

    python bench/outside/made_up.py FOLDER      # once: the data that the programs would fetch
    python bench/outside/outside.py FOLDER [--only NAME] [--json found.json]

FOLDER has checkouts of pytorch/examples, nanoGPT, accelerate, pytorch-lightning, DeepSpeedExamples and gpt-fast. On
CPUs the library is gloo, and Lanecast comes in by LANECAST_TORCH=1 and by `python -m lanecast.torch run`. On GPUs the
library is NCCL, and Lanecast comes in by LANECAST_TORCH=1 and by LD_PRELOAD. The way "hosts" is LANECAST_TORCH=1 once
more, between two hosts of half the ranks each, over emulated NICs. The time of a step is rank 0's median of all but the
first two, and ends when the GPU does. Where text is generated a step is a token.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from programs import PROGRAMS, Program

_HERE = Path(__file__).resolve().parent
_ON_GPUS = torch.cuda.is_available()
WAYS = ["nccl", "variable", "hosts", "preloaded"] if _ON_GPUS else ["gloo", "variable", "hosts", "run"]


@dataclass
class Found:
    program: str
    way: str
    ended: str  # "well", or how else
    seconds: float
    sums: list[list[float]]  # of each rank and step: the absolute values of all parameters, or the token
    losses: list[list[float]]  # of each rank and step, where there are any
    step_ms: float | None
    by: list[str]  # whose the groups were
    replays: int  # of CUDA graphs, by rank 0


def _preloaded() -> dict[str, str]:
    from lanecast import _core

    return {"LD_PRELOAD": str(Path(_core.__file__).with_name("liblanecast_nccl.so"))}


def _variables(way: str, program: Program, noted: Path, gpus: str, ranks: int) -> dict[str, str]:
    variables = {
        **os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "OUTSIDE_FOUND": str(noted),
        "PYTHONPATH": os.pathsep.join([str(_HERE / "watch"), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "LANECAST_TORCH": "1" if way in ("variable", "hosts") else "0", **program.variables,
    }  # fmt: skip
    if way == "run":
        del variables["LANECAST_TORCH"]
    if way == "hosts":
        variables["LANECAST_GPU_NICS"] = f"50GBps,12us,{max(ranks // 2, 1)}"
    if gpus:
        variables["CUDA_VISIBLE_DEVICES"] = gpus
    return variables | (_preloaded() if way == "preloaded" else {})


def run(program: Program, way: str, checkouts: Path, limit_s: float, gpus: str) -> tuple[Found, str]:
    """In a copy of its folder, so that nothing that it leaves behind is found by the next. gpus: empty: all."""
    with tempfile.TemporaryDirectory(prefix="outside") as scratch:
        top, _, below = program.folder.partition("/")
        shutil.copytree(checkouts / top, Path(scratch) / top, symlinks=True)
        noted = Path(scratch) / "noted"
        noted.mkdir()
        visible = len(gpus.split(",")) if gpus else torch.cuda.device_count()
        ranks = min(program.ranks, visible) if _ON_GPUS else program.ranks
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        through = ["-m", "lanecast.torch", "run"] if way == "run" else []
        began = time.monotonic()
        started = subprocess.Popen(
            [*launcher, *through, *program.command.split()], cwd=Path(scratch) / top / below,
            env=_variables(way, program, noted, gpus, ranks), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace",
        )  # fmt: skip
        try:
            said, ended = started.communicate(timeout=limit_s)[0], f"with {started.returncode}"
        except subprocess.TimeoutExpired:
            started.terminate()  # torchrun ends its ranks
            said, ended = started.communicate()[0], f"not within {limit_s:.0f} s"
        seconds = time.monotonic() - began
        texts = [file.read_text().splitlines() for file in sorted(noted.iterdir())]
        lines = [[json.loads(line) for line in of_rank] for of_rank in texts if of_rank]
    times = [took for _, took, *_ in lines[0][2:]] if lines else []
    found = Found(
        program.name, way, "well" if ended == "with 0" else ended, round(seconds, 1),
        [[values[0] for values, *_ in of_rank] for of_rank in lines],
        [[loss for values, *_ in of_rank for loss in values[1:] if loss is not None] for of_rank in lines],
        round(1e3 * statistics.median(times), 3) if times else None, sorted({of_rank[-1][2] for of_rank in lines}),
        lines[0][-1][3] if lines else 0,
    )  # fmt: skip
    return found, said


def apart(one: list[list[float]], other: list[list[float]]) -> float | None:
    """The greatest difference of a step's value, as a share of it. None: there are not as many."""
    if [len(each) for each in one] != [len(each) for each in other] or not any(one):
        return None
    pairs = [pair for ranks in zip(one, other, strict=True) for pair in zip(*ranks, strict=True)]
    return max(abs(a - b) / max(abs(a), 1e-30) for a, b in pairs)


def _shares(at_once: int) -> queue.SimpleQueue[str]:
    """Of the GPUs, for programs that run beside each other; those that there are."""
    shares: queue.SimpleQueue[str] = queue.SimpleQueue()
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    gpus = named.split(",") if named else [str(gpu) for gpu in range(torch.cuda.device_count())]
    each = max(len(gpus) // at_once, 1)
    for share in range(at_once):
        shares.put("" if at_once == 1 else ",".join(gpus[share * each : (share + 1) * each]))
    return shares


def _row(found: Found, theirs: Found) -> str:
    steps = "/".join(str(len(each)) for each in found.sums) or "0"
    shares = [] if found is theirs else [apart(theirs.sums, found.sums), apart(theirs.losses, found.losses)]
    difference = " ".join(f"{'-' if share is None else f'{share:.1e}':>9}" for share in shares)
    return (f"{found.program:38} {found.way:9} ends {found.ended:5} {found.seconds:6.1f} s  steps {steps:7} "
            f"{found.step_ms or 0:8.2f} ms  {','.join(found.by):10} {found.replays:4} graphs {difference}")  # fmt: skip


def _tell(name: str, by_way: dict[str, tuple[Found, str] | None]) -> None:
    theirs = None
    for way, done in by_way.items():
        if done is None:
            print(f"{name} {way}: no time left", flush=True)
            continue
        found, said = done
        theirs = theirs or found
        print(_row(found, theirs), flush=True)
        if found.ended != "well":
            errors = [line for line in said.splitlines() if "Error" in line] or said.splitlines()
            print("".join(f"    {line[:200]}\n" for line in errors[-2:]), end="", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", help="names, or beginnings of names, in the order to run")
    parser.add_argument("--ways", nargs="+", default=WAYS)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one run")
    parser.add_argument("--at-once", type=int, default=1, help="how many, each with a share of the GPUs")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which nothing more is begun")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--said", type=Path, help="a folder for what the programs print")
    given = parser.parse_args()
    if given.said:
        given.said.mkdir(parents=True, exist_ok=True)
    here = [each for each in PROGRAMS if each.wants in ("", "gpu" if _ON_GPUS else "cpu")]
    only = [each for name in given.only or [""] for each in here if each.name.startswith(name)]
    until = time.monotonic() + given.budget

    shares = _shares(given.at_once)

    def one(program: Program, way: str) -> tuple[Found, str] | None:
        if time.monotonic() > until:
            return None
        gpus = shares.get()
        try:
            return run(program, way, given.folder.resolve(), given.limit, gpus)
        finally:
            shares.put(gpus)

    rows: dict[str, dict[str, tuple[Found, str] | None]] = {program.name: {} for program in only}
    with ThreadPoolExecutor(given.at_once) as pool:
        tasks = {pool.submit(one, program, way): (program.name, way) for program in only for way in given.ways}
        for task in as_completed(tasks):
            name, way = tasks[task]
            rows[name][way] = done = task.result()
            if done and given.said:
                (given.said / f"{name}-{way}.txt".replace(" ", "_")).write_text(done[1])
            if given.json:
                found = [asdict(each[0]) for ways in rows.values() for each in ways.values() if each]
                given.json.write_text(json.dumps(found))
            if len(rows[name]) == len(given.ways):
                _tell(name, {way: rows[name][way] for way in given.ways})


if __name__ == "__main__":
    main()
