# SPDX-License-Identifier: Apache-2.0
"""Measurements of several processes per rank: what is kept of a benchmark's rows, their page, and their pictures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).parent.parent / "bench"
WAYS = ("standard", "multi-lane", "multi-lane, ring", "lanecast")
Bench = tuple[ModuleType, ModuleType, ModuleType]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    """The programs, which write below this folder."""
    monkeypatch.syspath_prepend(BENCH)
    import processes_data
    import processes_pages
    import processes_plots

    monkeypatch.setattr(processes_data, "FOLDER", tmp_path)
    monkeypatch.setattr(processes_plots, "IMAGES", tmp_path)
    return processes_data, processes_pages, processes_plots


def row(way: str, processes: int, hosts: int, size: int) -> dict[str, Any]:
    time_us = size / (100 * max(1, processes))
    received = [{"received": size / 2, "sent": size / 2}] * 2
    return {
        "way": way, "backend": way, "processes": processes, "ranks": 2 * hosts, "bytes": size, "bound_us": size / 2500,
        "time_us_rounds": [time_us, 1.5 * time_us, 1.1 * time_us], "wrong": 0, "cores": {"rank_waiting": 0.25},
        "nic_bytes": dict(zip(("eth0", "eth1"), received, strict=True)),
        "run": {"hosts": hosts, "command": "lanecast bench --protocol ppg --json /tmp/rows.json"},
    }  # fmt: skip


def keep(bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str, rows: list[dict[str, Any]]) -> None:
    file = bench[0].FOLDER / "rows.txt"
    file.write_text(json.dumps(rows))
    words = ["m", name, str(file), "--title", f"Run {name}", "--network", "2 NICs, emulated", "--commit", "abc"]
    monkeypatch.setattr(sys, "argv", ["processes_data.py", *words])
    bench[0].main()


def test_what_is_kept_and_shown(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    data, pages, _ = bench
    keep(bench, monkeypatch, "lanes", [row("standard", 1, 2, 4 << 20)])
    keep(
        bench, monkeypatch, "lanes", [row("standard", k, 2, 1 << 20) for k in (1, 4)] + [row("lanecast", 0, 2, 1 << 20)]
    )
    keep(
        bench, monkeypatch, "plain", [{key: value for key, value in row("mpi", 1, 2, 1 << 20).items() if key != "way"}]
    )
    machine = data.read()["m"]
    assert [run.name for run in machine.runs] == ["lanes", "plain"]
    run = machine.run("lanes")
    assert (run.ways, run.numbers, run.command) == (["standard", "lanecast"], [1, 4], "lanecast bench --protocol ppg")
    one = run.of("standard", 1)[0]
    assert one.middle_us == pytest.approx((1 << 20) / 100 * 1.1, rel=1e-4)
    assert one.busiest_nic == pytest.approx((1 << 20) / 2500 / one.middle_us, rel=1e-3)  # both carry a half
    text = pages.page(machine, lambda headings, rows: "\n".join(" | ".join(line) for line in [headings, *rows]) + "\n")
    assert "2 | 4 | 1 MiB | the library's own | 11.5 (10.5 to 15.7) | 2.88 (2.62 to 3.93) | - | 0.419" in text
    assert "2 NICs, emulated." in text
    assert "every element right" in text
    assert machine.run("plain").ways == ["mpi"]


def test_a_picture_for_each_figure(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    data, _, plots = bench
    by_size = [row(way, k, 2, size) for way in WAYS for k in (1, 4) for size in (1 << 20, 4 << 20)]
    for name in ("lanes", "many", "slow-1g"):
        keep(bench, monkeypatch, name, by_size)
    keep(bench, monkeypatch, "hosts", [row(way, k, n, 512 << 20) for way in WAYS for k in (1, 4) for n in (2, 3)])
    plots.of_mpi(data.read()["m"])
    drawn = {file.stem.removeprefix("processes-") for file in data.FOLDER.glob("*.png")}
    assert drawn == {"lanes", "ways", "standard", "multi-lane", "nics"}
