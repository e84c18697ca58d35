# SPDX-License-Identifier: Apache-2.0
"""Published figures beside simulated ones: every claim can be simulated or says why not; the arithmetic is right."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lanecast import _core, machines
from lanecast.cli import app, published
from lanecast.scale import build, contenders, platform, point, software
from lanecast.scale import published as claims
from lanecast.scale.contenders import Case
from lanecast.scale.published import AT_LEAST, UP_TO, Claim

needs_simgrid = pytest.mark.skipif(build.find_simgrid() is None, reason="no SimGrid here")


def claim(numbers: list[float], form: str = "", **more: object) -> Claim:
    return Claim("a paper", "something", numbers, "because", form, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("each", claims.load(), ids=lambda each: f"{each.source}: {each.says[:40]}")
def test_every_claim_has_its_source_and_can_be_simulated(each: Claim) -> None:
    assert each.source
    assert each.reason
    assert 1 <= len(each.published) <= 2
    assert each.published == sorted(each.published)
    assert each.form in {"", AT_LEAST, UP_TO}
    assert bool(each.machines) == bool(each.collectives) == bool(each.sizes) == bool(each.than) == bool(each.ours)
    for case in each.cases():
        platform.check(case.machine, case.ranks)
        assert case.collective in _core.KINDS
    for name in [*each.than, *each.ours]:
        assert name == claims.BOUND or contenders.check(name) == name


@pytest.mark.parametrize(
    ("each", "ratios", "simulated", "deviation"),
    [
        (claim([4.0]), [3.0, 12.0], [6.0], 0.5),
        (claim([4.0]), [1.0], [1.0], -0.75),
        (claim([2.0, 3.0]), [2.5], [2.5, 2.5], 0),
        (claim([2.0, 3.0]), [1.0, 2.5], [1.0, 2.5], 0),
        (claim([2.0, 3.0]), [0.5, 1.0], [0.5, 1.0], -0.5),
        (claim([2.0, 3.0]), [6.0, 9.0], [6.0, 9.0], 1.0),
        (claim([30.0], AT_LEAST), [40.0, 50.0], [40.0], 0),
        (claim([30.0], AT_LEAST), [3.0, 50.0], [3.0], -0.9),
        (claim([10.0], UP_TO), [1.0, 5.0], [5.0], -0.5),
    ],
)
def test_deviations_are_from_what_was_published(
    each: Claim, ratios: list[float], simulated: list[float], deviation: float
) -> None:
    assert each.simulated(ratios) == pytest.approx(simulated)
    assert each.deviation(each.simulated(ratios)) == pytest.approx(deviation)


def test_the_fastest_of_each_side_counts() -> None:
    each = claim(
        [2.0], machines=["delta"], collectives=["all_gather"], nodes=2, sizes=["1M"], than=["a", "b"], ours=["c", "d"]
    )
    found = published.compare(each, lambda _, name, __: {"a": 9.0, "b": 6.0, "c": 3.0, "d": 2.0}[name])
    assert found.ratios == [3.0]
    assert found.row()["deviation"] == pytest.approx(0.5)


def test_the_bound_is_that_of_table_iii() -> None:
    """4 of 8 ranks outside a node with one NIC of 25 GB/s: an all-gather takes half its bytes over that."""
    each = claim([1.0], machines=["delta"], collectives=["all_gather"], nodes=2, sizes=["1M"], than=[claims.BOUND],
                 ours=["flat"])  # fmt: skip
    half = each.cases()[0].bytes / 2 / 25e9
    assert published.compare(each, lambda *_: 2 * half).ratios == pytest.approx([0.5])


def test_what_is_not_simulated_says_so() -> None:
    cells = published.table([published.Compared(claim([1.5, 2.0]), [])]).splitlines()[-1]
    assert cells == "| a paper |  | something | 1.5 to 2 | not simulated |  | because |"


@needs_simgrid
def test_the_table_is_markdown_and_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = claim(
        [1.0], machines=["delta"], collectives=["all_gather"], nodes=2, sizes=["1M"], than=["flat"],
        ours=["ring-across"],
    )  # fmt: skip
    monkeypatch.setattr(published, "load", lambda: [replace(small, nodes=512, published=[9.0]), small])
    file = tmp_path / "published.json"
    done = CliRunner().invoke(app, ["scale", "--published", "--most-ranks", "8", "--json", str(file)])
    assert done.exit_code == 0, done.output
    large, little = json.loads(file.read_text())
    assert large["simulated"] is None
    assert little["simulated"] == little["ratios"]
    assert little["run"]["simulated"]
    assert "no figure of the column *simulated* was measured" in done.output
    assert "| a paper | Delta | something | 9 | not simulated |  | because |" in done.output
    done = CliRunner().invoke(app, ["scale", "--published", "--most-ranks", "8", "--json", str(file), "--software"])
    assert done.exit_code == 0, done.output
    slower = json.loads(file.read_text())[1]
    assert slower["simulated"] == little["simulated"]
    assert slower["with_software"] != little["simulated"]
    assert "| deviation | with software | likely reason |" in done.output


@needs_simgrid
def test_rings_for_each_nic_are_as_many_times_as_fast() -> None:
    simulator = build.simulator(print)
    case = Case(machines.load("perlmutter"), "all_gather", 16, 64 << 20)
    taken = []
    for name in ("flat", "ring-per-nic"):
        met = contenders.on(name, case)
        plan = contenders.plan(name, met)
        taken.append(point.run(simulator, [*platform.words(met.machine), *plan.words(met)]).seconds)
    latency_s = 15 * 2e-6
    assert taken[1] - latency_s == pytest.approx((taken[0] - latency_s) / case.machine.node.nics, rel=0.1)


def test_costs_of_software_have_sources_and_are_of_known_contenders() -> None:
    for cost in software.load():
        assert cost.source
        assert set(cost.backends) <= set(contenders.SHORT)
    frontier, perlmutter = machines.load("frontier"), machines.load("perlmutter")
    names = [software.cost_of(machine, "ring-per-nic", "ring") for machine in (frontier, perlmutter)]
    assert [cost.name for cost in names if cost] == ["RCCL, rings by Simple", "NCCL, rings by Simple"]
    ours = software.cost_of(frontier, "lanecast:ring", "ring")
    assert ours is not None
    assert ours.name == "Lanecast"
    assert software.cost_of(frontier, "mpich", "mpi") is None
    assert software.cost_of(frontier, "flat", "double_tree") is None  # of trees no step was measured
