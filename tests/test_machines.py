# SPDX-License-Identifier: Apache-2.0
"""Described machines: those that come along are sound, the papers' figures come out, mistakes name file and field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lanecast
from lanecast import UsageError, machines
from lanecast.cli import app
from lanecast.machines.description import ASSUMED

GOOD = """
name = "Test"
summary = "one"
[node]
cpu = "x"
cores = 8
gpus = 4
nics = 2
[[levels]]
name = "device"
size = 2
link = "a"
[[levels]]
name = "die"
size = 2
link = "b"
[environment]
LEVEL = "high"
[sources]
"node.cpu" = "assumed: so"
"node.cores" = "s"
"node.gpus" = "s"
"node.nics" = "s"
"node.nic_map" = "s"
"levels.device.size" = "s"
"levels.die.size" = "s"
"environment.LEVEL" = "s"
"""


@pytest.mark.parametrize("name", machines.known())
def test_every_machine_is_sound_and_every_figure_has_a_source(name: str) -> None:
    machine = machines.load(name)
    assert set(machine.figures()) == set(machine.sources)
    if machine.ranks_per_node:
        assert machine.ranks_per_node == machine.node.gpus
        shape = "x".join(["3", *(str(n) for n in machine.shape_in_node)])
        assert machines.topology_text(f"machine:{name}", 3 * machine.ranks_per_node) == shape


def test_the_papers_machines_are_there() -> None:
    named = {"frontier", "perlmutter", "aurora", "delta", "deltaai", "tuolumne", "h200", "x86"}
    assert named <= set(machines.known())


@pytest.mark.parametrize(
    ("name", "nics", "efficiency"),
    [
        ("aurora", [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3], 0.75),  # HiCCL, section VI-C5
        ("frontier", [0, 0, 1, 1, 2, 2, 3, 3], 1.0),  # PCCL, section IV-A
        ("perlmutter", [0, 1, 2, 3], 1.0),
        ("delta", [0, 0, 0, 0], 1.0),
    ],
)
def test_ranks_meet_their_nics_as_the_papers_say(name: str, nics: list[int], efficiency: float) -> None:
    machine = machines.load(name)
    assert (machine.nic_of_rank, machine.nic_efficiency) == (nics, efficiency)
    rate_gbps = {"aurora": 200, "frontier": 100, "perlmutter": 100, "delta": 25}[name]  # HiCCL, Table IV
    assert machine.node.nics * machine.node.nic_GBps == rate_gbps


def test_info_predicts_what_round_robin_costs() -> None:
    shown = CliRunner().invoke(app, ["info", "--machine", "aurora"]).output
    assert "predicted: 75% of the NICs' bandwidth" in shown
    assert "round_robin" in shown


def test_info_says_what_is_set_missing_and_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_NET_GDR_LEVEL", "PHB")
    monkeypatch.setenv("HSA_ENABLE_SDMA", "1")
    monkeypatch.delenv("FI_CXI_RDZV_GET_MIN", raising=False)
    shown = CliRunner().invoke(app, ["info", "--machine", "frontier"]).output
    assert re.search(r"\bset: NCCL_NET_GDR_LEVEL=PHB", shown)
    assert "set to '1' here, expected: HSA_ENABLE_SDMA=0" in shown
    assert "missing: FI_CXI_RDZV_GET_MIN=0" in shown


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(GOOD)
    machine = machines.load(str(file))
    assert (machine.shape_in_node, machine.nic_of_rank, machine.nic_efficiency) == ([2, 2], [0, 0, 1, 1], 1.0)
    assert machine.sources["node.cpu"].startswith(ASSUMED)
    assert machines.topology_text(f"machine:{file}", 8) == "2x2x2"


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("cores = 8", "", "node.cores: missing"),
        ("cores = 8", 'cores = "8"', "node.cores: '8' is no whole number"),
        ("cores = 8", "cores = -8", "node.cores: -8, expected 0 to 65536"),
        ("cores = 8", "cores = 8\ncoers = 9", "node.coers: unknown; known: cpu, cores"),
        ("gpus = 4", "gpus = 6", "levels: hold 4 ranks, node.gpus is 6"),
        ('link = "a"', "link = 3", r"levels\[0\].link: 3 is no text"),
        ('LEVEL = "high"', "LEVEL = 3", "environment.LEVEL: 3 is no text"),
        ("nics = 2", 'nics = 2\nnic_map = "dealt"', "node.nic_map: 'dealt'; known: packed, round_robin, one_to_one"),
        ("nics = 2", 'nics = 2\nnic_map = "one_to_one"', "one-to-one needs as many NICs"),
        ('"node.nics" = "s"', "", "sources.node.nics: missing"),
        ('"node.nics" = "s"', '"node.nics" = "s"\n"node.nix" = "s"', "sources.node.nix: names no figure"),
        ("[node]", "[[node]]", "node: expected named fields"),
        ("size = 2", "size = 0", r"levels\[0\].size: 0"),
        ("summary", "summary = =", "is no TOML"),
        ("cores = 8", "cores = " + "9" * 5000, "is no TOML: Exceeds the limit"),
    ],
)
def test_mistakes_name_file_and_field(old: str, new: str, named: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(UsageError, match=f"mine.toml: .*{named}"):
        machines.load(str(file))


@pytest.mark.parametrize(
    ("text", "size", "named"),
    [
        ("machine:foo", 8, "machine 'foo' is unknown; known: aurora"),
        ("machine:frontier", 12, "which 12 ranks do not fill; take a multiple of 8"),
        ("machine:x86", 2, "says neither levels nor node.ranks"),
        ("machine:/nowhere/x.toml", 2, "No such file"),
    ],
)
def test_topologies_that_a_machine_cannot_give(text: str, size: int, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        lanecast.run_threads(size, lambda comm: None, topology=text)


def test_a_machine_is_a_topology(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = lanecast.run_threads(16, lambda comm: str(comm.topology), topology="machine:frontier")
    assert shapes == ["2x4x2"] * 16
    monkeypatch.setenv("LANECAST_TOPOLOGY", "machine:delta")
    assert lanecast.run_threads(4, lambda comm: str(comm.topology)) == ["4"] * 4


def test_the_documented_file_is_a_good_one(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent / "docs" / "reference" / "machines.md").read_text()
    file = tmp_path / "mine.toml"
    file.write_text(page.partition("```toml\n")[2].partition("```")[0])
    assert machines.load(str(file)).nic_of_rank == [0, 0, 1, 1]
