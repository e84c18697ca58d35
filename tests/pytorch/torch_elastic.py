# SPDX-License-Identifier: Apache-2.0
"""A training program that loses a worker in its first life, for torchrun --max-restarts: see test_torch_elastic.py."""

import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

folder, life = Path(sys.argv[1]), os.environ["TORCHELASTIC_RESTART_COUNT"]
dist.init_process_group("lanecast", timeout=timedelta(seconds=30))
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(400, 400))
try:
    for step in range(4):
        loss = model(torch.full((2, 400), float(rank + step))).sum()
        if life == "0" and rank == 1 and step == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        loss.backward()
except RuntimeError as error:
    (folder / f"error-{rank}-{life}").write_text(str(error))
    raise
# Once more over the same store, whose keys the first group must have cleared.
dist.destroy_process_group()
dist.init_process_group("lanecast", timeout=timedelta(seconds=30))
x = torch.ones(1)
dist.all_reduce(x)
(folder / f"done-{rank}-{life}").write_text(str(int(x)))
dist.destroy_process_group()
