# SPDX-License-Identifier: Apache-2.0
"""torch's own tests of its backends: what passes on gloo passes on Lanecast, and nothing more is skipped.

Lanecast is asked for by name, or takes gloo's place in a suite that is as torch ships it.
"""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from torch_jobs import NO_GPU

SCRIPT = Path(__file__).parent / "outside_suite.py"

# One of each kind, and those that have found something.
FEW = (
    "test_DistributedDataParallelCPU,test_accumulate_gradients_no_sync_allreduce_with_then_hook,test_get_future,"
    "test_all_gather_coalesced_with_empty,test_all_gather_object_subgroup,test_all_reduce_coalesced_max,"
    "test_all_reduce_sum_async,test_barrier_timeout_full_group,test_batch_isend_irecv_gloo_tags,test_gather_checks,"
    "test_monitored_barrier_gloo,test_reduce_sum_twice,test_scatter_complex,test_send_recv_any_source_torch_profiler,test_sparse_all_reduce_sum"
)

# torch compares the name of the backend there, so that none but gloo can pass: DDP logs every backend from outside
# torch as "custom".
BY_NAME = "test_ddp_logging_data_cpu"
TAKEN = "gloo, LANECAST_TORCH=1"


@functools.cache
def outcomes(backend: str, ranks: int, patterns: str) -> dict[str, set[str]]:
    command = [sys.executable, str(SCRIPT), backend.partition(",")[0], str(ranks), patterns, BY_NAME]
    env = {**os.environ, **NO_GPU, "OMP_NUM_THREADS": "1", "LANECAST_TORCH": str(int(backend == TAKEN))}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    found = {name: set(tests) for name, tests in json.loads(done.stdout.splitlines()[-1]).items()}
    counts = ", ".join(f"{len(tests)} {name}" for name, tests in found.items())
    print(f"DistributedTest on {backend}, {ranks} ranks: {counts}")
    assert ("are Lanecast's" in done.stderr) == (backend == TAKEN)
    return found


OF_OURS = pytest.mark.parametrize("backend", ["lanecast", TAKEN])


def compare(backend: str, ranks: int, patterns: str) -> None:
    gloo, ours = outcomes("gloo", ranks, patterns), outcomes(backend, ranks, patterns)
    assert ours["failed"] - gloo["failed"] == set()
    assert ours["skipped"] - gloo["skipped"] == set()
    assert gloo["passed"] - ours["passed"] == set()


@OF_OURS
def test_few_on_three_ranks(backend: str) -> None:
    compare(backend, 3, FEW)


@pytest.mark.long
@OF_OURS
@pytest.mark.parametrize("ranks", [3, 4])
def test_all(ranks: int, backend: str) -> None:
    compare(backend, ranks, "*")
