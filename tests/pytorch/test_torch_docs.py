# SPDX-License-Identifier: Apache-2.0
"""The programs for torchrun in the documents run and print what they show."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from test_docs import TORCHRUN, Fence, fences, timeless
from torch_jobs import free_port

PROGRAMS = [fence for fence in fences("python") if TORCHRUN.search(fence.body)]


@pytest.mark.parametrize("fence", PROGRAMS, ids=lambda fence: fence.where)
def test_programs_run_and_print_what_is_shown(fence: Fence, tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text(fence.body)
    match = TORCHRUN.search(fence.body)
    assert match is not None
    launcher = [sys.executable, "-m", "torch.distributed.run", f"--master-port={free_port()}"]
    done = subprocess.run(
        [*launcher, "--nproc-per-node", match[1], str(file)], capture_output=True, text=True, timeout=100, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert timeless(done.stdout) == timeless(fence.shown)
