# SPDX-License-Identifier: Apache-2.0
"""torchrun --max-restarts: a killed worker is an error on the others, a new group forms, nothing is left behind."""

import os
import subprocess
import sys
from pathlib import Path

from torch_jobs import free_port

SCRIPT = Path(__file__).parent / "torch_elastic.py"


def test_restart_after_a_killed_worker(tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=3", "--max-restarts=1"]
    done = subprocess.run(
        [*launcher, f"--master-port={free_port()}", "--monitor-interval=8", str(SCRIPT), str(tmp_path)],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    assert {each.name: each.read_text() for each in tmp_path.glob("done-*")} == {f"done-{r}-1": "3" for r in range(3)}
    heard = {each.name: each.read_text() for each in tmp_path.glob("error-*")}
    assert set(heard) == {"error-0-0", "error-2-0"}
    assert all("rank 1" in text for text in heard.values()), heard
    assert list(Path("/dev/shm").glob("*lanecast*")) == []
