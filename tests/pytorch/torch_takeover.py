# SPDX-License-Identifier: Apache-2.0
"""A program that knows nothing of Lanecast: what its groups say of themselves, and what their calls give.

torch_takeover.py FOLDER BACKENDS [as-old-torch|with-nccl]: a group for each of BACKENDS, between commas of a list in
JSON, where null asks for none. The last line of each rank is a JSON object of facts by backend.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

CPU = torch.device("cpu")


def facts(folder: str, asked: str | None) -> dict[str, Any]:
    """Of groups that are made over a file of their own, since gloo's keys in a store outlive its groups."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    name = (asked or "none").replace(":", "-").replace(",", "-")
    dist.init_process_group(asked, init_method=f"file://{Path(folder) / name}", rank=rank, world_size=size)
    device = CPU if CPU in dist.group.WORLD._device_types else torch.device("cuda")
    groups = {
        "world": dist.group.WORLD,
        "like it": dist.new_group(list(range(size))),
        "gloo": dist.new_group(backend="gloo"),
        "some": dist.new_group(sorted({0, size - 1})),
    }
    if device == CPU:
        groups["mesh"] = dist.init_device_mesh("cpu", (size,)).get_group()
    found: dict[str, Any] = {
        each: [
            dist.get_backend(group), dist.get_backend_config(group), group.name(), group._get_backend_name(),
            sorted(map(str, group._device_types)),
        ]
        for each, group in groups.items() if dist.get_rank(group) >= 0
    }  # fmt: skip
    found["default for CPUs"] = dist.get_default_backend_for_device("cpu")
    found["by Lanecast"] = sorted(
        each for each, group in groups.items() if dist.get_rank(group) >= 0
        and all(type(group._get_backend(of)).__module__ == "lanecast_c10d" for of in group._device_types)
    )  # fmt: skip
    if device == CPU:
        x = torch.arange(3) + rank
        dist.all_reduce(x)
        everybody: list[Any] = [None] * size
        dist.all_gather_object(everybody, {"rank": rank}, group=groups["gloo"])
        dist.barrier()
        found["results"] = [x.tolist(), everybody]
    dist.destroy_process_group()
    return found


def main(folder: str, backends: str, change: str = "") -> None:
    if change == "as-old-torch":
        torch.__version__ = "2.10.1"
    if change == "with-nccl":
        distributed_c10d._NCCL_AVAILABLE = True
    print(json.dumps({str(asked): facts(folder, asked) for asked in json.loads(backends)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
