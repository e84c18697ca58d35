# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/measurements/simulated: filled point by point, and pages that say what is not there yet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from lanecast import machines
from lanecast.scale import build
from lanecast.scale.build import Simulator
from lanecast.scale.point import Outcome

ROOT = Path(__file__).parent.parent
POINTS = 8  # of the grid below: two collectives, two numbers of ranks, one size, two backends


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """bench/simulated_tables.py with a small grid, a folder of its own, and a simulator that says 1 ms."""
    monkeypatch.syspath_prepend(ROOT / "bench")
    import simulated_tables

    grid = simulated_tables.Grid(("all_gather", "all_reduce"), (32, 64), (16,), ("lanecast", "ring-per-nic"))
    monkeypatch.setattr(simulated_tables, "GRIDS", (grid,))
    monkeypatch.setattr(simulated_tables, "FOLDER", tmp_path)
    monkeypatch.setattr(build, "simulator", lambda _: Simulator(tmp_path / "simulate", "digest", "3.32"))
    monkeypatch.setattr(simulated_tables, "code_digest", lambda: "code")
    _answering(monkeypatch, simulated_tables, [])
    return simulated_tables


def _answering(monkeypatch: pytest.MonkeyPatch, tables: Any, asked: list[list[str]], most: int = 1000) -> list[Any]:
    def run(_: Simulator, words: list[str], __: object) -> Outcome:
        if len(asked) == most:
            raise KeyboardInterrupt
        asked.append(words)
        return Outcome(1e-3 * len(asked), 0, 0.5, 100)

    monkeypatch.setattr(tables.point, "run", run)
    return asked


def _rows(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "frontier.json").read_text())["rows"]
    return found


def test_a_table_that_was_stopped_goes_on(tables: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _answering(monkeypatch, tables, [], most=3)
    with pytest.raises(KeyboardInterrupt):
        tables.main("frontier", 600)
    before = _rows(tmp_path)
    assert [row["ranks"] for row in before] == [32] * 3
    tables.main("frontier", 0)  # no time
    assert _rows(tmp_path) == before
    asked = _answering(monkeypatch, tables, [])
    tables.main("frontier", 600)
    assert len(asked) == POINTS - 3
    assert _rows(tmp_path)[:3] == before
    assert [row["ranks"] for row in _rows(tmp_path)] == [32] * 4 + [64] * 4


def test_some_points_can_be_asked_for_alone(tables: Any, tmp_path: Path) -> None:
    tables.main("frontier", 600, ranks="64", collectives="all_reduce", backends="lanecast")
    assert [(row["collective"], row["ranks"], row["backend"]) for row in _rows(tmp_path)] == [
        ("all_reduce", 64, "lanecast")
    ]
    tables.main("frontier", 600, backends="lanecast")
    assert {row["backend"] for row in _rows(tmp_path)} == {"lanecast"}
    assert len(_rows(tmp_path)) == POINTS // 2
    with pytest.raises(typer.BadParameter, match="'48': the grids have 32, 64"):
        tables.main("frontier", 600, ranks="48")


def test_rows_of_other_code_go_unless_it_takes_the_same_times(
    tables: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.main("frontier", 600)
    before = _rows(tmp_path)
    monkeypatch.setattr(tables, "code_digest", lambda: "other code")
    asked = _answering(monkeypatch, tables, [])  # the first four points are of all collectives and backends
    tables.main("frontier", 600)
    assert (len(asked), _rows(tmp_path)) == (4, before)
    tables.main("frontier", 600)
    assert len(asked) == 4  # it is known that they hold
    monkeypatch.setattr(tables, "code_digest", lambda: "slower code")
    asked = _answering(monkeypatch, tables, [[]])
    tables.main("frontier", 600)
    assert len(asked) == 1 + 1 + POINTS  # one was another
    assert [row["us"] for row in _rows(tmp_path)] == [1000.0 * (3 + k) for k in range(POINTS)]


def test_rows_that_are_chosen_otherwise_go_alone(tables: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables.point, "run", lambda *_: Outcome(1e-3, 0, 0.5, 100))
    tables.main("frontier", 600)
    right = _rows(tmp_path)
    file = tmp_path / "frontier.json"
    known = json.loads(file.read_text())
    known["rows"][-1]["chunks"] += 1  # of 64 ranks: no sample would find it
    known["rows"][2]["algorithm"] = "bruck"
    file.write_text(json.dumps(known))
    monkeypatch.setattr(tables, "code_digest", lambda: "another choice")
    tables.main("frontier", 0)
    assert _rows(tmp_path) == [row for at, row in enumerate(right) if at not in {2, POINTS - 1}]


def test_a_ring_of_many_ranks_takes_the_time_of_its_steps(
    tables: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "RING_RANKS", 32)
    asked = _answering(monkeypatch, tables, [])
    tables.main("frontier", 600)
    scaled = [row for row in _rows(tmp_path) if "simulated_on" in row]
    assert [(row["collective"], row["ranks"], row["simulated_on"]) for row in scaled] == [("all_gather", 64, 32)]
    at = _rows(tmp_path).index(scaled[0])
    assert scaled[0]["us"] == pytest.approx(1000 * (at + 1) * 63 / 31, abs=0.01)
    assert {"ranks=32", f"bytes={8 << 20}", "algorithm=ring", "chunks=1"} <= set(asked[at])


@pytest.mark.skipif(build.find_simgrid() is None, reason="no SimGrid here")
@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter"])
def test_a_ring_with_blocks_as_large_takes_as_long_for_each_step(
    collective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "bench")
    import simulated_tables

    simulator, machine = build.simulator(print), machines.load("frontier")
    key = {"collective": collective, "ranks": 128, "mebibytes": 16, "backend": "ring-per-nic"}
    whole = simulated_tables._simulated(simulator, machine, key)
    monkeypatch.setattr(simulated_tables, "RING_RANKS", 32)
    scaled = simulated_tables._simulated(simulator, machine, key)
    assert (scaled.pop("simulated_on"), "simulated_on" in whole) == (32, False)
    assert scaled["us"] == pytest.approx(whole["us"], rel=0.01)


def test_what_decides_times_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "bench")
    import simulated_tables

    empty = [pattern for pattern in simulated_tables.CODE if not list(ROOT.glob(pattern))]
    assert empty == [], "bench/simulated_tables.py: CODE names what has gone"


def test_a_page_says_that_it_is_simulated_and_what_is_not_there(
    tables: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _answering(monkeypatch, tables, [], most=5)
    with pytest.raises(KeyboardInterrupt):
        tables.main("frontier", 600)
    import figures
    import simulated_pages

    monkeypatch.setattr(simulated_pages, "FOLDER", tmp_path)
    files = simulated_pages.read()
    page = simulated_pages.page(files["frontier"], figures.table)
    assert page.startswith("# Frontier, simulated\n\n**No figure of this page was measured.**")
    gathers = [line for line in page.splitlines() if line.startswith("| 32 | 16 MiB | 1 |")]
    assert len(gathers) == 1
    assert "| 2 | **2.00** |" in gathers[0]
    assert [line for line in page.splitlines() if line.startswith("| 64 | 16 MiB | 5 |") and "not yet" in line]
    assert "| 64 | all-gather | 1 |\n| 64 | all-reduce | 2 |" in page
    summary = simulated_pages.summary(files, figures.table).splitlines()
    assert len(summary) == 3  # of 64 ranks no mean is whole
    assert summary[2].startswith("| [Frontier](simulated/frontier.md) | 32 | **2.00** (2.00 to 2.00) | not yet | ")


def test_what_is_known_of_a_point_is_shown(tables: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.main("frontier", 600)
    import figures
    import simulated_pages

    file = json.loads((tmp_path / "frontier.json").read_text())
    file["rows"] = [row for row in file["rows"] if (row["ranks"], row["backend"]) != (64, "lanecast")]
    page = simulated_pages.page(file, figures.table)
    assert page.count("| 64 | 16 MiB | not yet | not yet | ") == 2
    known = simulated_pages.known_of(file)
    told = simulated_pages.mean(known, "all_gather", 32, (16, 64))
    assert told == "**2.00** (2.00 to 2.00, 1 of 2 sizes)"
