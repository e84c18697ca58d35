# SPDX-License-Identifier: Apache-2.0
"""Python imports this into the programs of bench/outside/outside.py, and notes what their optimizers make.

After each step a rank appends a line to $OUTSIDE_FOUND/RANK: the sum of the absolute values of all parameters and the
last loss, the time since the end of the step before, whose the groups are, and how many CUDA graphs it has replayed.
A program that generates text has a line for each token, with the token's number.
OUTSIDE_ACCELERATORS=N has N accelerators be told of, which are CPUs where torch finds none. With 0 only what is meant
for GPUs goes to CPUs there. OUTSIDE_COMPILED=MODE has torch.compile take what a program makes parallel.
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
        self._loss: Any = None
        self.replays = 0

    def loss(self, loss: Any) -> None:
        self._loss = getattr(loss, "_local_tensor", loss).detach()

    def step(self, optimizer: Any, *_: Any) -> None:
        import torch

        _finish()
        took = time.perf_counter() - self._since
        with torch.no_grad():
            parameters = [
                getattr(each, "_local_tensor", each) for group in optimizer.param_groups for each in group["params"]
            ]
            total = sum(float(each.detach().double().abs().sum()) for each in parameters)
            loss = None if self._loss is None else float(self._loss.double().sum())
        self._append(parameters[0].device, [([total, loss], took)])

    def tokens(self, numbers: list[int]) -> None:
        import torch

        _finish()
        took = (time.perf_counter() - self._since) / max(len(numbers), 1)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._append(device, [([number], took) for number in numbers])

    def _append(self, device: Any, steps: list[tuple[list[float | None], float]]) -> None:
        import torch.distributed as groups

        rank = groups.get_rank() if groups.is_available() and groups.is_initialized() else 0
        whose = _whose(device)
        with (self._folder / str(rank)).open("a") as file:
            file.writelines(json.dumps([values, took, whose, self.replays]) + "\n" for values, took in steps)
        _finish()
        self._since = time.perf_counter()


def _as_accelerators(count: int) -> None:
    """Devices by number and by the name of CUDA are the CPU, as are those that DDP is told of."""
    import torch

    if count:
        torch.accelerator.device_count = lambda: count
    if torch.accelerator.is_available():
        return
    if count:
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
        begin(*args, **{name: given for name, given in kwargs.items() if (name, given) != ("backend", "nccl")})

    torch.distributed.init_process_group = without_device


def _compiled(mode: str) -> None:
    """Graphs take their memory back when a step begins. So gradients, which the program keeps, leave it before."""
    import torch
    from torch.distributed.tensor import parallel
    from torch.optim.optimizer import register_optimizer_step_post_hook

    made = parallel.parallelize_module
    parallel.parallelize_module = lambda *args, **kwargs: torch.compile(made(*args, **kwargs), mode=mode)

    def end(optimizer: Any, *_: Any) -> None:
        for each in (each for group in optimizer.param_groups for each in group["params"]):
            each.grad = None if each.grad is None else each.grad.clone()
        torch.compiler.cudagraph_mark_step_begin()

    register_optimizer_step_post_hook(end)


def _counted() -> None:
    """Losses and replays go to the notes."""
    import torch

    replay, backward = torch.cuda.CUDAGraph.replay, torch.Tensor.backward

    def replay_and_count(self: Any) -> None:
        notes.replays += 1
        replay(self)

    def note_and_go_back(self: Any, *args: Any, **kwargs: Any) -> None:
        notes.loss(self)
        backward(self, *args, **kwargs)

    torch.cuda.CUDAGraph.replay, torch.Tensor.backward = replay_and_count, note_and_go_back


def _begin() -> None:
    import random

    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    seed = 1234 + int(os.environ.get("RANK", "0"))
    random.seed(seed)
    torch.manual_seed(seed)
    if count := os.environ.get("OUTSIDE_ACCELERATORS"):
        _as_accelerators(int(count))
    _counted()
    register_optimizer_step_post_hook(notes.step)
    if mode := os.environ.get("OUTSIDE_COMPILED"):
        _compiled(mode)


if "OUTSIDE_FOUND" in os.environ and "LOCAL_RANK" in os.environ:
    notes = _Notes(Path(os.environ["OUTSIDE_FOUND"]))
    _begin()
