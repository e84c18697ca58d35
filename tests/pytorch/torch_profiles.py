# SPDX-License-Identifier: Apache-2.0
"""What the ranks of test_torch_profiles.py run: groups that choose by a profile."""

import os
import re
from pathlib import Path

import torch
import torch.distributed as dist

import lanecast.torch
from lanecast import _core
from lanecast.profiles.profile import AlgorithmFit, LevelLink, Profile, Shape, save


def write(path: str, fastest: str) -> None:
    """A profile of this host by which one algorithm wins everywhere."""
    size = dist.get_world_size()
    if dist.get_rank() == 0:
        shape = Shape(_core.VERSION, _core.cpu_model(), os.cpu_count() or 1, 1, str(size), ["shm"])
        fits = [
            AlgorithmFit("all_reduce", name, -1, size, 0, 1e-6, 1e-12 if name == fastest else 1e-6, 0.1)
            for name in ("ring", "direct", "recursive_doubling")
        ]
        save(Profile(shape, [LevelLink("rank", "shm", 1.0, 1.0, 0.1)], 1e-10, fits, []), Path(path))
    dist.barrier()


def taken_with(profile: str, variable: str, traces: str) -> str:
    """The algorithm that an all-reduce of a new group takes, by its trace."""
    os.environ["LANECAST_PROFILE"] = variable
    options = lanecast.torch.Options()
    options.profile, options.trace_dir = profile, traces
    group = dist.new_group(backend="lanecast", pg_options=options)
    dist.all_reduce(torch.ones(1 << 16), group=group)
    dist.destroy_process_group(group)
    del os.environ["LANECAST_PROFILE"]
    (written,) = Path(traces).glob(f"*.rank{dist.get_rank()}.jsonl")
    taken: list[str] = re.findall('"collective": ?"all_reduce".*?"algorithm": ?"([^"]+)"', written.read_text())
    return taken[-1]
