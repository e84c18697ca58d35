# SPDX-License-Identifier: Apache-2.0
"""How the ranks share the model: replicas (ddp), or shards of parameters, gradients and optimizer (fsdp2, zero3)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from gpt.model import GPT, Shape


class Trained:
    """A model with its optimizer; backward() and step() as one of the strategies does them."""

    def __init__(self, model: nn.Module, learning_rate: float) -> None:
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)

    def pass_(self, batch: tuple[torch.Tensor, torch.Tensor], of: int, last: bool) -> torch.Tensor:
        """One of `of` micro-batches of a step; gradients travel with the last. Returns the loss."""
        with self.gradients_travel(last):
            loss: torch.Tensor = self.model(*batch)
            (loss / of).backward()
        return loss.detach()

    def gradients_travel(self, last: bool) -> AbstractContextManager[None]:
        raise NotImplementedError

    def step(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()


class Replicas(Trained):
    def __init__(
        self, shape: Shape, device: torch.device, learning_rate: float, group: dist.ProcessGroup | None = None
    ) -> None:
        model = GPT(shape).to(device)
        model.initialize()
        super().__init__(DistributedDataParallel(model, process_group=group), learning_rate)

    def gradients_travel(self, last: bool) -> AbstractContextManager[None]:
        return nullcontext() if last else self.model.no_sync()

    def pass_(self, batch: tuple[torch.Tensor, torch.Tensor], of: int, last: bool) -> torch.Tensor:
        with torch.autocast(batch[0].device.type, torch.bfloat16, enabled=batch[0].is_cuda):
            return super().pass_(batch, of, last)


class Shards(Trained):
    def __init__(
        self, shape: Shape, device: torch.device, learning_rate: float, group: dist.ProcessGroup | None = None
    ) -> None:
        with torch.device("meta"):  # no rank ever holds all of a large model
            model = GPT(shape)
        types = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if device.type == "cuda" else MixedPrecisionPolicy()
        mesh = DeviceMesh.from_group(group or dist.group.WORLD, device.type)
        for block in model.blocks:
            fully_shard(block, mesh=mesh, mp_policy=types)
        fully_shard(model, mesh=mesh, mp_policy=types)
        model.to_empty(device=device)
        model.initialize()
        super().__init__(model, learning_rate)

    @contextmanager
    def gradients_travel(self, last: bool) -> Iterator[None]:
        self.model.set_requires_gradient_sync(last)
        yield


class ZeRO3(Trained):
    """DeepSpeed's, whose engine is model and optimizer in one."""

    def __init__(self, shape: Shape, device: torch.device, learning_rate: float) -> None:
        import deepspeed

        with deepspeed.zero.Init():
            model = GPT(shape)
        config = {
            "train_micro_batch_size_per_gpu": 1,
            "zero_optimization": {"stage": 3, "overlap_comm": True},
            "bf16": {"enabled": device.type == "cuda"},
            "optimizer": {"type": "AdamW", "params": {"lr": learning_rate, "torch_adam": True}},  # as the others'
        }
        self.engine: Any = deepspeed.initialize(model=model, config=config)[0]

    def pass_(self, batch: tuple[torch.Tensor, torch.Tensor], of: int, last: bool) -> torch.Tensor:
        self.engine.set_gradient_accumulation_boundary(last)
        loss: torch.Tensor = self.engine(*batch)
        self.engine.backward(loss / of)
        return loss.detach()

    def step(self) -> None:
        self.engine.step()


STRATEGIES = {"ddp": Replicas, "fsdp2": Shards, "zero3": ZeRO3}
