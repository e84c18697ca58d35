# SPDX-License-Identifier: Apache-2.0
"""Python imports this into the programs of bench/outside/outside.py, and notes what their optimizers make.

After each step a rank appends a line to $OUTSIDE_FOUND/RANK: the sum of the absolute values of all parameters, the
time since the end of the step before, and whose the groups are. OUTSIDE_ACCELERATORS=N has N accelerators be told of,
which are CPUs where torch finds none.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any


def _whose(device: Any) -> str:
    import torch.distributed as groups

    if not groups.is_available() or not groups.is_initialized():
        return "nobody's"
    try:
        backend = groups.group.WORLD._get_backend(device)
    except RuntimeError:  # a rank's own training, on a device that its groups do not serve
        return "nobody's"
    if type(backend).__module__ == "lanecast_c10d":
        return "Lanecast's"
    return "preloaded" if "liblanecast_nccl" in Path("/proc/self/maps").read_text() else "their own"


def _finish() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


class _Notes:
    def __init__(self, folder: Path) -> None:
        self._folder, self._since = folder, time.perf_counter()

    def step(self, optimizer: Any, *_: Any) -> None:
        import torch

        _finish()
        took = time.perf_counter() - self._since
        with torch.no_grad():
            parameters = [
                getattr(each, "_local_tensor", each) for group in optimizer.param_groups for each in group["params"]
            ]
            total = sum(float(each.detach().double().abs().sum()) for each in parameters)
        groups = torch.distributed
        rank = groups.get_rank() if groups.is_available() and groups.is_initialized() else 0
        line = json.dumps([total, took, _whose(parameters[0].device)])
        with (self._folder / str(rank)).open("a") as file:
            file.write(line + "\n")
        _finish()
        self._since = time.perf_counter()


def _as_accelerators(count: int) -> None:
    """Devices by number and by the name of CUDA are the CPU, as are those that DDP is told of."""
    import torch

    torch.accelerator.device_count = lambda: count
    if torch.accelerator.is_available():
        return
    torch.accelerator.is_available = lambda: True
    torch.accelerator.current_accelerator = lambda *_, **__: torch.device("cpu")
    torch.accelerator.device_index = torch.accelerator.set_device_index = torch.cuda.set_device = lambda *_: None

    def on_cpu(method: Any) -> Any:
        def moved(self: Any, *args: Any, **kwargs: Any) -> Any:
            named = args and (isinstance(args[0], int) or str(args[0]).startswith("cuda"))
            return method(self, *(("cpu", *args[1:]) if named else args), **kwargs)

        return moved

    for kind in (torch.Tensor, torch.nn.Module):
        kind.to = on_cpu(kind.to)
    torch.Tensor.pin_memory = lambda self, *_: self
    made = torch.nn.parallel.DistributedDataParallel.__init__

    def without_devices(self: Any, module: Any, *_: Any, device_ids: Any = None, **kwargs: Any) -> None:
        made(self, module, **kwargs)

    torch.nn.parallel.DistributedDataParallel.__init__ = without_devices
    begin = torch.distributed.init_process_group

    def without_device(*args: Any, device_id: Any = None, **kwargs: Any) -> None:
        begin(*args, **kwargs)

    torch.distributed.init_process_group = without_device


def _begin() -> None:
    import random

    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    seed = 1234 + int(os.environ.get("RANK", "0"))
    random.seed(seed)
    torch.manual_seed(seed)
    if count := os.environ.get("OUTSIDE_ACCELERATORS"):
        _as_accelerators(int(count))
    register_optimizer_step_post_hook(_Notes(Path(os.environ["OUTSIDE_FOUND"])).step)


if "OUTSIDE_FOUND" in os.environ and "LOCAL_RANK" in os.environ:
    _begin()
