# SPDX-License-Identifier: Apache-2.0
"""bench/outside/outside.py, with a program that it does not know: it sees whose the groups are and what comes out."""

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent.parent / "bench" / "outside"
sys.path.append(str(FOLDER))

PROGRAM = """
import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
rank = int(os.environ["RANK"])
device = torch.device(f"{torch.accelerator.current_accelerator()}:{rank}")
dist.init_process_group(dist.get_default_backend_for_device(device), device_id=device)
model = DistributedDataParallel(torch.nn.Linear(7, 3).to(rank), device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    model(torch.randn(5, 7).to(rank)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


@pytest.mark.long
@pytest.mark.timeout(900)  # four jobs that import torch
def test_a_program_that_nobody_knows(tmp_path: Path) -> None:
    """It asks for accelerators, and there are none; it makes the same by gloo and by each way to Lanecast."""
    from programs import Program

    import outside

    if outside.WAYS[0] != "gloo":
        pytest.skip("with GPUs it would take them")
    (tmp_path / "repository" / "below").mkdir(parents=True)
    (tmp_path / "repository" / "below" / "train.py").write_text(PROGRAM)
    program = Program("one", "repository/below", "train.py", 2, {"OUTSIDE_ACCELERATORS": "2"})
    theirs, *ours = [outside.run(program, way, tmp_path, 100.0, "") for way in outside.WAYS]
    assert [found.ended for found, _ in (theirs, *ours)] == ["well"] * 4, theirs[1]
    assert [found.by for found, _ in (theirs, *ours)] == [["their own"], *[["Lanecast's"]] * 3]
    assert [len(of_rank) for of_rank in theirs[0].sums] == [4, 4]
    for values in ("sums", "losses"):
        assert [outside.apart(getattr(theirs[0], values), getattr(found, values)) for found, _ in ours] == [0.0] * 3
    assert all(found.step_ms for found, _ in ours)
