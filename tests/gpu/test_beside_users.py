# SPDX-License-Identifier: Apache-2.0
"""Programs that load kernels, take memory and the like while a call between two hosts waits, on this machine's GPUs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from lanecast.bench.gpu_processes import run_ranks
from test_gpus import GPUS, needs_gpu

pytestmark = [needs_gpu, pytest.mark.timeout(170)]

NETWORKS = {
    "staged": {"LANECAST_GPU_MESSAGES": "staged"},
    "by default": {},
    "emulated NICs": {"LANECAST_GPU_NICS": "50GBps,12us"},
}


@pytest.mark.parametrize("network", NETWORKS)
def test_what_a_program_does_while_a_call_waits(network: str, tmp_path: Path) -> None:
    program = [sys.executable, str(Path(__file__).parent / "beside_users.py"), str(tmp_path)]
    status = run_ranks([*program, *["shared"] * (GPUS < 2)], 2, NETWORKS[network], grace_s=60.0)
    found = [json.loads(file.read_text()) for file in sorted(tmp_path.glob("*.json"))]
    assert [line for rank in found for lines in rank["wrong"].values() for line in lines] == []
    assert (status, len(found)) == (0, 2)
