# SPDX-License-Identifier: Apache-2.0
"""The emulated cluster beside its simulation: the machine that it becomes, and the table that it gives."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lanecast.scale import build, platform
from lanecast.scale.contenders import COLLECTIVES

SCRIPT = Path(__file__).parent.parent / "bench" / "simulated_cluster.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("simulated_cluster", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows() -> list[dict[str, Any]]:
    run = {
        "ranks": 8, "hosts": 4, "transports": "mpi+shm", "latency_us": 100.0, "kf_GBps": 0.124, "within_GBps": 1.2,
        "memory_GBps": 2.0, "commit": "abc", "shape": {"text": "4 hosts with 2 NICs of 500mbit", "nics": 2},
    }  # fmt: skip
    return [
        {"collective": collective, "bytes": 1 << 20, "algorithm": "hierarchical(ring,direct)", "chunks": 1,
         "measured_s": [0.008, 0.012, 0.010], "run": run}
        for collective in COLLECTIVES
    ]  # fmt: skip


def test_a_measured_cluster_is_a_machine_that_can_be_simulated(script: ModuleType, tmp_path: Path) -> None:
    machine = script.simulated_machine(rows()[0]["run"], tmp_path)
    platform.check(machine, 8)
    assert machine.ranks_per_node == 2
    assert machine.nic_of_rank == [0, 1]
    assert machine.node.nic_GBps == pytest.approx(0.062)
    assert machine.levels[0].link_GBps == pytest.approx(1.2)


@pytest.mark.skipif(build.find_simgrid() is None, reason="no SimGrid here")
def test_simulated_times_keep_to_the_bound_and_stand_beside_the_measured(script: ModuleType) -> None:
    found = rows()
    script.simulate(found)
    assert found[0]["bound_s"] == pytest.approx((1 << 20) * 0.75 / 0.124e9)
    assert found[2]["bound_s"] == pytest.approx(2 * found[0]["bound_s"])
    for row in found:
        assert row["bound_s"] < row["simulated_s"] < 2 * row["bound_s"]
        assert row["deviation"] == pytest.approx(row["simulated_s"] / 0.010 - 1)
    *_, last = script.table(found).splitlines()
    assert last.startswith("| all_reduce, 1 MiB | `hierarchical(ring,direct)` | 1 | 12.7 | 10.0 (9.00 to 11.0) |")
