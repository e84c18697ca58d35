# SPDX-License-Identifier: Apache-2.0
"""Topologies from files, in communicators and on the command line; mistakes name file and field."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lanecast
from file_formats import LAYOUT
from lanecast import UsageError, _core, launch, topologies
from lanecast.bench import options
from lanecast.compose import forms

LEVELS = [("node", [0, 0, 1, 0, 1]), ("socket", [0, 1, 2, 1, 2])]


@pytest.fixture
def layout(tmp_path: Path) -> str:
    file = tmp_path / "layout.toml"
    file.write_text(LAYOUT)
    return str(file)


def own_command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lanecast", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=cwd)


def test_a_file_says_where_each_rank_sits(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert topologies.load(layout).levels == LEVELS
    assert (options.ranks_of(layout), options.topology_for(layout, 5).levels) == (5, LEVELS)

    def rank_main(comm: lanecast.Communicator) -> bool:
        total = np.full(1000, comm.rank + 1.0)
        comm.all_reduce(total, algorithm="hierarchical(direct,ring,direct)")
        return comm.topology.levels == LEVELS and bool((total == 15).all())

    assert lanecast.run_threads(5, rank_main, topology=layout) == [True] * 5
    monkeypatch.setenv("LANECAST_TOPOLOGY", layout)
    assert lanecast.run_threads(5, rank_main) == [True] * 5
    with pytest.raises(
        UsageError, match=r"^LANECAST_TOPOLOGY: topology .*layout.toml: .* places 5 ranks, but there are 4"
    ):
        lanecast.run_threads(4, lambda comm: None)


def test_a_composition_takes_it_as_its_hierarchy(layout: str) -> None:
    def rank_main(comm: lanecast.Communicator) -> bool:
        vector = np.arange(100.0) if comm.rank == 0 else None
        got = np.empty(100)
        comm.compile(forms.broadcast(comm.size), got, vector, hierarchy=layout).run()
        return bool((got == np.arange(100.0)).all())

    assert lanecast.run_threads(5, rank_main) == [True] * 5
    with pytest.raises(UsageError, match=r"hierarchy: topology .*layout.toml: .*places 5 ranks, but there are 3"):
        lanecast.run_threads(3, rank_main)


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "show", "all_gather", "--algorithm", "hierarchical(bruck,ring,direct)"),
        ("plan", "verify", "all_reduce", "--algorithm", "hierarchical(ring,ring,direct)"),
        ("plan", "algorithms"),
        ("compose", "show", "broadcast"),
        ("compose", "verify", "all_reduce"),
    ],
)
def test_commands_take_it(arguments: tuple[str, ...], layout: str, tmp_path: Path) -> None:
    done = own_command(*arguments, "--topology", "layout.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert any(said in done.stdout for said in ("5 ranks", "on layout.toml", "uneven")), done.stdout


@pytest.mark.skipif(launch.find_launcher() is None, reason="no mpiexec beside this Python or on PATH")
def test_bench_takes_it(layout: str, tmp_path: Path) -> None:
    done = own_command(
        "bench", "--topology", "layout.toml", "--sizes", "4K", "--rounds", "1", "--collectives", "all_reduce",
        "--backends", "lanecast,lanecast:hierarchical(ring,ring,direct)", "--json", "rows.json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [(row["ranks"], row["nodes"], row["wrong"]) for row in rows] == [(5, 2, 0)] * 2
    refused = own_command("bench", "--topology", "layout.toml", "--ranks", "4", cwd=tmp_path)
    assert (refused.returncode, "places 5 ranks, but there are 4" in refused.stderr) == (2, True), refused.stderr


@pytest.mark.skipif(launch.find_launcher() is None, reason="no mpiexec beside this Python or on PATH")
def test_ranks_of_a_launcher_take_it(layout: str) -> None:
    launcher = launch.find_launcher()
    assert launcher is not None
    program = f"import lanecast; assert lanecast.init(topology={layout!r}).topology.levels == {LEVELS}"
    done = subprocess.run(
        launcher.command(5, [sys.executable, "-c", program]), capture_output=True, text=True, timeout=240, check=False,
        env={**os.environ, **launcher.environment(5)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('name = "node"', "", r"levels\[0\].name: missing"),
        ('name = "node"', "name = 1", r"levels\[0\].name: 1 is no text"),
        ('name = "node"', 'name = "node"\nsize = 2', r"levels\[0\].size: unknown; known: name, domain"),
        ("domain = [0, 0, 1, 0, 1]", "", r"levels\[0\].domain: missing"),
        ("[0, 0, 1, 0, 1]", '"2x4"', r"levels\[0\].domain: '2x4' is no list"),
        ("[0, 0, 1, 0, 1]", "[0, 0.5, 1, 0, 1]", r"levels\[0\].domain\[1\]: 0.5 is no whole number"),
        ("[0, 0, 1, 0, 1]", "[0, -1, 1, 0, 1]", r"levels\[0\].domain\[1\]: -1, expected 0 to 2147483647"),
        ("[0, 0, 1, 0, 1]", "[0, 2147483648, 1, 0, 1]", r"levels\[0\].domain\[1\]: 2147483648, expected 0 to"),
        ("[0, 0, 1, 0, 1]", f"[0, {2**64}, 1, 0, 1]", r"levels\[0\].domain\[1\]: a number of more than 64 bits"),
        ("[0, 1, 2, 1, 2]", "[0, 1, 2, 1]", r"levels\[1\].domain: places 4 ranks, levels\[0\].domain 5"),
        (
            "[0, 1, 2, 1, 2]",
            "[0, 1, 1, 1, 2]",
            r"levels: domain 1 of level 'socket' \(rank 2\) reaches into two domains",
        ),
        ("[[levels]]", "[[level]]", "level: unknown; known: levels"),
        ("[[levels]]", "[levels]", "is no TOML"),
        (LAYOUT, "levels = 3", "levels: 3 is no list"),
        (LAYOUT, "levels = [1]", r"levels\[0\]: expected named fields"),
        (LAYOUT, "levels = []", "levels: none given"),
        (LAYOUT, "", "levels: missing"),
        (LAYOUT, 'levels = [{name = "node", domain = []}]', r"levels\[0\].domain: places no rank"),
        (LAYOUT, "levels = [" + '{name = "node", domain = [0]},' * 8 + "]", "levels: 8 levels above the ranks"),
        (LAYOUT, "2x4", "is no TOML"),
        (LAYOUT, "\x00", "is no TOML"),
    ],
)
def test_mistakes_name_file_and_field(old: str, new: str, named: str, layout: str) -> None:
    Path(layout).write_text(LAYOUT.replace(old, new, 1))
    for read in (topologies.load, options.ranks_of):
        with pytest.raises(UsageError, match=rf"^topology .*layout.toml: {named}"):
            read(layout)
    with pytest.raises(UsageError, match=rf"topology .*layout.toml: {named}"):
        lanecast.run_threads(5, lambda comm: None, topology=layout)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^topology /nowhere/a\.toml: No such file"):
        options.topology_for("/nowhere/a.toml", 4)
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(UsageError, match=r"folder\.toml: Is a directory"):
        topologies.load(str(tmp_path / "folder.toml"))
    done = own_command("bench", "--topology", "nowhere.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip() == "lanecast: UsageError: topology nowhere.toml: No such file or directory"
    assert str(_core.Topology.parse("2x4", 8)) == str(topologies.parse("2x4", 8))
