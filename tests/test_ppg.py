# SPDX-License-Identifier: Apache-2.0
"""`lanecast bench --protocol ppg`: what it compares, a whole run, and its picture."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lanecast
from lanecast import _core
from lanecast.bench import machine
from lanecast.bench.ppg import plots
from lanecast.bench.ppg.protocol import Ppg
from lanecast.bench.ppg.variants import variants_of
from lanecast.cli import app
from launch import mpich


def test_the_papers_ways_by_each_number_of_processes() -> None:
    grid = _core.Topology.parse("2x2", 4)
    found = [(each.way, each.algorithm, each.processes) for each in variants_of("all_reduce", grid, (1, 4), "mpi")]
    ways = {
        "standard": "mpi", "multi-lane": "hierarchical(mpi,mpi)", "multi-lane, ring": "hierarchical(ring,mpi)",
        "lanecast": "",
    }  # fmt: skip
    assert found == [*((way, name, n) for way, name in ways.items() for n in (1, 4)), ("lanecast", "", 0)]
    apart = variants_of("all_gather", _core.Topology(2), (2,), "mpi")
    assert [each.way for each in apart] == ["standard", "ring", "lanecast", "lanecast"]
    assert {each.way for each in variants_of("all_reduce", grid, (1, 2), "")} == {"lanecast"}


def test_the_same_on_gpus_beside_nccl() -> None:
    grid = _core.Topology.parse("2x2", 4)
    found = {each.way: each.algorithm for each in variants_of("all_reduce", grid, (2,), "nccl")}
    assert found == {
        "standard": "nccl", "multi-lane": "hierarchical(direct,peers)",
        "multi-lane, ring": "hierarchical(ring,peers)", "lanecast": "",
    }  # fmt: skip
    assert "nccl" not in {each.algorithm for each in variants_of("all_gather", grid, (2,), "nccl")}


def test_whether_mps_runs(tmp_path: Path) -> None:
    for pid, name in ((1, "init"), (7, "python3")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_text(f"{name}\n")
    assert not machine.mps_runs(tmp_path)
    (tmp_path / "7" / "comm").write_text("nvidia-cuda-mps\n")
    assert machine.mps_runs(tmp_path)


@pytest.mark.parametrize(("text", "numbers"), [("", (1, 2, 4)), ("1..16", (1, 2, 4, 8, 16)), ("3,1", (3, 1))])
def test_numbers_of_processes(text: str, numbers: tuple[int, ...]) -> None:
    found = Ppg.parse(text, shared_cores=True)
    assert (found.numbers, found.processes) == (numbers, max(numbers))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--processes-per-gpu", "2"], "processes-per-gpu: needs --protocol ppg"),
        (["--protocol", "ppg", "--processes-per-gpu", "0"], "need at least 1 process"),
        (["--protocol", "ppg", "--processes-per-gpu", "two"], "expected a number of processes such as 4"),
        (["--protocol", "ppg", "--depths", "4"], "depths: needs --protocol hiccl"),
        (["--protocol", "ppg", "--heatmap", "map.png"], "heatmap: is of protocol backends; ppg draws by --plot"),
    ],
)
def test_mistakes_are_refused(options: list[str], words: str) -> None:
    done = CliRunner().invoke(app, ["bench", *options])
    assert words in str(done.exception)
    assert isinstance(done.exception, lanecast.UsageError)


@pytest.mark.slow  # many jobs, and a picture
def test_a_run_and_its_picture(tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    options = [
        "--protocol", "ppg", "--processes-per-gpu", "1,2", "--shared-cores", "--sizes", "4K", "--rounds", "2",
        "--collectives", "all_reduce", "--json", str(rows),
    ]  # fmt: skip
    shown = mpich(4, [sys.executable, "-m", "lanecast", "bench", *options])
    assert "standard, 2" in shown
    found = json.loads(rows.read_text())
    assert {row["wrong"] for row in found} == {0}
    assert {row["ranks"] for row in found} == {2}
    assert {(row["way"], row["processes"]) for row in found} >= {("standard", 1), ("standard", 2), ("lanecast", 0)}
    assert all(len(row["time_us_rounds"]) == 2 for row in found)
    plots.draw(found, tmp_path / "plot.svg")
    further = [row | {"ranks": 3, "topology": "3x1"} for row in found]
    plots.draw(found + further, tmp_path / "hosts.svg")  # over the numbers of leaders
    assert (tmp_path / "hosts.svg").stat().st_size > 1000
    assert "per GPU" in (tmp_path / "plot.svg").read_text() or (tmp_path / "plot.svg").stat().st_size > 1000
