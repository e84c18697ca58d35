# SPDX-License-Identifier: Apache-2.0
"""`lanecast bench --judge` and `--protocol pccl`: which cells fall short, and means of independent runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import lanecast
from lanecast import launch
from lanecast.bench import judge
from lanecast.bench.measure import Row, row_of_runs
from lanecast.bench.settings import parse_backend

needs_mpi = pytest.mark.skipif(launch.find_launcher() is None, reason="no mpiexec beside this Python or on PATH")
ON_GPUS = tuple(parse_backend(name, "cuda") for name in ("lanecast", "lanecast+symm", "nccl", "nccl+windows"))


def row(backend: str, time_us: float, mode: str = "eager", size: int = 1 << 20) -> Row:
    return {
        "collective": "broadcast", "topology": "4", "bytes": size, "dtype": "float32", "op": None, "mode": mode,
        "backend": backend, "algorithm": "peer_kernel", "time_us": time_us,
    }  # fmt: skip


def test_a_cell_is_held_against_the_best_library_of_its_memory(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        row("lanecast", 100), row("lanecast+symm", 100), row("nccl", 99), row("nccl+windows", 50),
        row("lanecast", 100, "graph"), row("nccl", 90, "graph"), row("lanecast", 7, size=64),
    ]  # fmt: skip
    found = {(cell.row["backend"], cell.row["mode"]): cell for cell in judge.cells(rows, ON_GPUS)}
    assert {key: (cell.best["backend"], cell.falls_short) for key, cell in found.items()} == {
        ("lanecast", "eager"): ("nccl", False),
        ("lanecast+symm", "eager"): ("nccl+windows", True),
        ("lanecast", "graph"): ("nccl", True),
    }
    assert not judge.passes(rows, ON_GPUS)
    said = capsys.readouterr().out
    assert "judged: 3 cells, 2 slower than 0.98 of the best library" in said
    assert said.index("nccl+windows") < said.index("0.90"), "the worst first"
    assert judge.passes(rows[:1] + rows[2:3], ON_GPUS)


@pytest.mark.parametrize("names", [("lanecast",), ("nccl",), ("lanecast:ring", "nccl"), ("lanecast", "nccl+windows")])
def test_what_cannot_be_judged_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(lanecast.UsageError, match="judge: needs one of lanecast, lanecast\\+symm"):
        judge.check([parse_backend(name, "cuda") for name in names])


def test_several_runs_are_their_mean() -> None:
    runs = [row("nccl", t) | {"wrong": w, "ranks": 4, "host_us": t / 2} for t, w in ((10.0, 0), (30.0, 1))]
    found = row_of_runs(runs)
    assert (found["time_us"], found["device_us"], found["host_us"], found["wrong"]) == (20, 20, 10, 1)
    assert found["time_us_rounds"] == [10, 30]
    assert found["busbw_GBps"] == pytest.approx((1 << 20) / 20 / 1e3)


def bench(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "lanecast", "bench", "--ranks", "2", *words]
    return subprocess.run(program, capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path)


@needs_mpi
def test_its_verdict_is_the_exit_status(tmp_path: Path) -> None:
    done = bench(tmp_path, "--judge", "--collectives", "all_gather", "--sizes", "1000", "--json", "rows.json")
    speeds = {each["backend"]: each["time_us"] for each in json.loads((tmp_path / "rows.json").read_text())}
    falls_short = speeds["mpi"] / speeds["lanecast"] < judge.ENOUGH
    assert done.returncode == falls_short, done.stderr
    assert f"judged: 1 cells, {int(falls_short)} slower" in done.stdout


@needs_mpi
def test_protocol_pccl_shows_mean_and_deviation(tmp_path: Path) -> None:
    done = bench(tmp_path, "--protocol", "pccl", "--sizes", "4K", "--rounds", "3", "--json", "rows.json")
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [each["collective"] for each in rows[::2]] == ["all_gather", "reduce_scatter", "all_reduce"]
    assert all(len(each["time_us_rounds"]) == 3 and each["wrong"] == 0 for each in rows)
    assert "deviation" in done.stdout
    assert "mean and standard deviation of 3 runs" in done.stdout
