# SPDX-License-Identifier: Apache-2.0
"""Ranks that mpiexec or torchrun has started, on hosts of LANECAST_HOST or of LANECAST_GPU_NICS; see the tests."""

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

if "PMI_RANK" in os.environ:
    rank, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
    rank = size - 1 - rank  # torch's order need not be MPI's
else:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
emulated = "LANECAST_GPU_NICS" in os.environ  # which makes hosts by itself
if not emulated:
    os.environ["LANECAST_HOST"] = f"host{rank // 2}"
dist.init_process_group("lanecast", rank=rank, world_size=size, timeout=timedelta(seconds=60))
x = torch.arange(1000) + rank
dist.all_reduce(x)
assert torch.equal(x, size * torch.arange(1000) + size * (size - 1) // 2)
far = dist.new_group([0, size - 1])
if rank in (0, size - 1):
    y = torch.tensor([rank])
    dist.broadcast(y, src=size - 1, group=far)
    assert y.item() == size - 1
if rank == 0:
    seen = [dist.recv(torch.empty(100_000)) for _ in range(size - 1)]
    assert sorted(seen) == list(range(1, size))
else:
    dist.send(torch.empty(100_000), 0)
if emulated:
    from lanecast import _core

    dist.barrier()
    sent = [nic["sent_bytes"] for nic in _core.emulated_traffic(os.environ["LANECAST_GPU_NICS"])]
    assert len(sent) == 4
    assert min(sent) > 0, f"the NICs have sent {sent} bytes"
dist.destroy_process_group()
print(f"rank {rank} done", flush=True)
sys.exit(0)
