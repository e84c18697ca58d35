# SPDX-License-Identifier: Apache-2.0
"""`lanecast compose`: what it shows of each stage, what it draws, what it refuses."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lanecast import plans
from lanecast._core import Topology, UsageError
from lanecast.cli import app
from lanecast.compose import Knobs, forms, lower
from lanecast.plans.draw_matrices import stages
from lanecast.plans.flow import level_names, trace
from lanecast.plans.style import level_colours

HOSTS = Topology.parse("4x3", 12)
PAIRS = """
from lanecast.compose import Composition


def swap(p):
    c = Composition([[r] for r in range(p)], [[r ^ 1] for r in range(p)])
    for r in range(p):
        c.multicast(r, [r ^ 1], r)
    return c


def nothing(p):
    return p
"""


def lanecast(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "lanecast"), "compose", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_show_goes_stage_by_stage() -> None:
    done = lanecast("show", "broadcast", "--topology", "4x3", "--hierarchy", "4,3", "--ring", "4", "--stripe", "3")
    assert done.returncode == 0, done.stderr
    assert "12 ranks, 5 stages, 33 messages" in done.stdout
    second = done.stdout.split("stage 2\n")[1].split("stage 3\n")[0]
    assert [line.split("  (")[0].split() for line in second.splitlines()] == [
        [str(rank), "→", str(rank + 3), "gets", str(rank)] for rank in range(3)
    ]


def test_one_rank_and_ones_own_composition(tmp_path: Path) -> None:
    (tmp_path / "pairs.py").write_text(PAIRS)
    own = f"{tmp_path}/pairs.py:swap"
    done = lanecast("show", own, "--topology", "2x2", "--rank", "3")
    assert done.returncode == 0, done.stderr
    assert "send to rank 2" in done.stdout
    assert "proven: " in lanecast("verify", own, "--topology", "3x2").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "broadcast", "--hierarchy", "-1"], "hierarchy: topology '-1': expected sizes"),
        (["show", "broadcast", "--topology", "\udcff"], "topology '\\udcff': expected sizes"),
        (["show", "broadcast", "--transports", "pigeons"], "transports: unknown name 'pigeons'; known: loopback"),
        (["show", "no_such"], "composition 'no_such' is unknown; known: broadcast"),
        (["show", "{pairs}:missing"], "has no function 'missing'"),
        (["verify", "{pairs}:nothing"], "made int, no lanecast.compose.Composition"),
        (["draw", "elsewhere.py:f"], "elsewhere.py does not exist"),
        (["show", "broadcast", "--topology", "2x4", "--hierarchy", "3,3"], "the product is 9, but there are 8 ranks"),
        (["show", "broadcast", "--rank", "4"], "rank 4: there are 4"),
        (["draw", "broadcast", "--topology", "2x2x2", "--transports", "mpi,shm"], "one for each of 3 levels"),
    ],
)
def test_refusals(arguments: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.py").write_text(PAIRS)
    command = ["compose", *(argument.format(pairs=tmp_path / "pairs.py") for argument in arguments)]
    refused = CliRunner().invoke(app, command).exception
    assert isinstance(refused, UsageError)
    assert said in str(refused)


def test_each_stage_has_its_matrix_in_the_colour_of_its_transport(tmp_path: Path) -> None:
    knobs = Knobs([2, 2, 3], stripe=3)
    shape = knobs.machine(HOSTS).topology
    made = lower(forms.all_reduce_by_all_gather(12), knobs, HOSTS)
    flow = trace(made, shape, ["mpi", "mpi", "shm"])
    assert flow.rounds == 6  # three up, three down
    assert [(stage.level, stage.adds) for stage in stages(flow)] == [
        (2, True), (1, True), (0, True), (0, False), (1, False), (2, False)
    ]  # fmt: skip
    outer, middle, inner = level_colours(shape, flow.transports)
    assert outer == middle != inner
    assert level_names(shape, flow.transports)[1:] == ["across level 2 by mpi", "within level 2 by shm"]
    sent = [sum((flow.share(t.pieces) for t in stage.transfers), start=Fraction(0)) for stage in stages(flow)]
    assert sent == [8, 2, 1, 1, 2, 8]
    plans.draw(made, shape, tmp_path / "plan.png", ["mpi", "mpi", "shm"])
    assert (tmp_path / "plan.png").stat().st_size > 10_000
    with pytest.raises(UsageError, match="one for each of 3 levels"):
        trace(made, shape, ["mpi", "shm"])
