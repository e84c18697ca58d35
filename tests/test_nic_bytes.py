# SPDX-License-Identifier: Apache-2.0
"""Bytes through NICs: a flat ring uses one for each direction, a hierarchy all alike, and both what theory says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lanecast import UsageError, machines
from lanecast.cli import app
from lanecast.scale.contenders import Case, evenly
from lanecast.scale.nic_bytes import nic_bytes

MIB = 1 << 20


def case(machine: str, collective: str, nodes: int) -> Case:
    described = machines.load(machine)
    ranks = nodes * described.ranks_per_node
    return Case(described, collective, ranks, evenly(MIB, ranks))


@pytest.mark.parametrize("nodes", [2, 3, 4])
@pytest.mark.parametrize("across", ["ring", "bruck", "direct"])
@pytest.mark.parametrize(("collective", "passes"), [("all_gather", 1), ("reduce_scatter", 1), ("all_reduce", 2)])
def test_a_hierarchy_uses_all_nics_alike_and_sends_no_more_than_it_must(
    nodes: int, across: str, collective: str, passes: int
) -> None:
    one = case("frontier", collective, nodes)
    least = passes * one.bytes * (nodes - 1) // nodes // 4
    for each in nic_bytes(one, f"hierarchical({across},direct,direct)"):
        assert each.sent_bytes == least
        assert each.received_bytes == least


@pytest.mark.parametrize("nodes", [2, 5])
def test_a_flat_ring_uses_one_nic_for_each_direction(nodes: int) -> None:
    """PCCL, figure 3: NIC 0 writes, NIC 3 reads, whatever else there is."""
    one = case("frontier", "all_gather", nodes)
    through = one.bytes * (one.ranks - 1) // one.ranks
    found = nic_bytes(one, "ring")
    assert len(found) == 4 * nodes
    assert {(each.nic, each.sent_bytes) for each in found} == {(0, 0), (1, 0), (2, 0), (3, through)}
    assert {(each.nic, each.received_bytes) for each in found} == {(0, through), (1, 0), (2, 0), (3, 0)}


def test_gpus_dealt_out_on_fewer_nics_load_them_unevenly() -> None:
    """HiCCL, section VI-C5: 12 GPUs on 8 NICs, four of which carry twice as much."""
    found = nic_bytes(case("aurora", "all_gather", 2), "hierarchical(ring,direct,direct)")
    sent = [each.sent_bytes for each in found if each.node == 0]
    assert sent == [2 * sent[-1]] * 4 + [sent[-1]] * 4


def test_one_node_needs_no_nic() -> None:
    assert all(
        each.sent_bytes == 0 == each.received_bytes for each in nic_bytes(case("delta", "all_gather", 1), "ring")
    )


def test_the_command_writes_every_nic_and_a_picture(tmp_path: Path) -> None:
    file, picture = tmp_path / "nics.json", tmp_path / "nics.png"
    words = ["plan", "nics", "--machine", "perlmutter", "--ranks", "8", "--size", "1M"]
    done = CliRunner().invoke(app, [*words, "--json", str(file), "--plot", str(picture)])
    assert done.exit_code == 0, done.output
    assert "nothing was measured" in done.output
    rows = json.loads(file.read_text())
    assert len(rows) == 9
    assert all(len(row["nics"]) == 8 and row["run"]["counted"] for row in rows)
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--ranks", "8,16"], "expected one number"),
        (["--ranks", "12"], "which 12 ranks do not fill"),
        (["--collectives", "gather"], "collective 'gather' is unknown"),
        (["--algorithms", "mpich"], "whose plans are not here"),
        (["--machine", "x86", "--ranks", "4"], "cannot be simulated"),
    ],
)
def test_what_cannot_be_counted_is_refused(words: list[str], reason: str) -> None:
    done = CliRunner().invoke(app, ["plan", "nics", *words])
    assert isinstance(done.exception, UsageError)
    assert reason in str(done.exception)
