# SPDX-License-Identifier: Apache-2.0
"""Ways of torch to share out a model, over Lanecast and gloo: what the ranks of test_torch_parallel.py run."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

from torch_calls import me, same, size

WIDTH, ROWS, PARTS = 16, 8, 8


def on_both(train: Callable[[Any], list[torch.Tensor]]) -> None:
    """What `train` finds over a group of gloo and over Lanecast's has the same bits."""
    ours, theirs = train(dist.group.WORLD), train(dist.new_group(backend="gloo"))
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        same(one, other)


def layer(k: int) -> torch.nn.Module:
    torch.manual_seed(k)
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())


def _pipeline(schedule: Any, stages_of_rank: int) -> None:
    def train(group: Any) -> list[torch.Tensor]:
        places = [me() + k * size() for k in range(stages_of_rank)]
        parts = [layer(k) for k in places]
        stages = [
            PipelineStage(part, k, stages_of_rank * size(), torch.device("cpu"), group=group)
            for part, k in zip(parts, places, strict=True)
        ]
        run = schedule(stages if stages_of_rank > 1 else stages[0], PARTS, loss_fn=torch.nn.functional.mse_loss)
        torch.manual_seed(0)
        rows, target = torch.randn(PARTS * ROWS, WIDTH), torch.randn(PARTS * ROWS, WIDTH)
        losses: list[torch.Tensor] = []
        for _ in range(2):
            if me() == 0:
                run.step(rows)
            elif me() == size() - 1:
                run.step(target=target, losses=losses)
            else:
                run.step()
        return [loss.detach() for loss in losses] + [p.grad for part in parts for p in part.parameters()]

    on_both(train)


def check_pipelines_of_one_stage_a_rank() -> None:
    for schedule in (ScheduleGPipe, Schedule1F1B):
        _pipeline(schedule, 1)


def check_interleaved_pipeline() -> None:
    _pipeline(ScheduleInterleaved1F1B, 2)


class _Block(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> Any:
        return self.down(torch.relu(self.up(self.norm(x))))


def check_tensor_and_sequence_parallel() -> None:
    """Each rank has a part of the weights, and between them a part of the rows."""

    def train(group: Any) -> list[torch.Tensor]:
        mesh = DeviceMesh.from_group(group, "cpu")
        torch.manual_seed(0)
        block, rows = _Block(), torch.randn(ROWS * size(), WIDTH)
        plan = {
            "norm": SequenceParallel(sequence_dim=0),
            "up": ColwiseParallel(input_layouts=Shard(0)),
            "down": RowwiseParallel(output_layouts=Replicate()),
        }
        parallelize_module(block, mesh, plan)
        loss = block(rows.chunk(size())[me()]).square().sum()
        loss.backward()
        return [loss.detach(), *(p.grad.to_local() for p in block.parameters())]

    on_both(train)


def check_ring_attention() -> None:
    """Keys and values go round the ranks, and the softmax is put together from its parts."""

    def train(group: Any) -> list[torch.Tensor]:
        torch.manual_seed(me())
        query, keys, values = (torch.randn(ROWS, WIDTH) for _ in range(3))
        scores, parts = [], []
        for turn in range(size()):
            if turn:
                onward = [(rank + 1) % size() for rank in range(size())]
                both = torch.cat([keys.flatten(), values.flatten()])  # as torch's context parallel sends them
                keys, values = functional.permute_tensor(both, onward, group).view(2, ROWS, WIDTH)
            scores.append(query @ keys.T)
            parts.append(values)
        return [torch.softmax(torch.cat(scores, 1), 1) @ torch.cat(parts)]

    on_both(train)


def check_experts() -> None:
    """An expert on each rank; how many rows go to which one differs from rank to rank, and some get none."""

    def train(group: Any) -> list[torch.Tensor]:
        expert = layer(me())
        torch.manual_seed(100 + me())
        rows = torch.randn(ROWS, WIDTH, requires_grad=True)
        chosen = torch.randint(size() if me() else 1, (ROWS,)).sort().values
        sent = torch.bincount(chosen, minlength=size())
        comes = torch.empty_like(sent)
        dist.all_to_all_single(comes, sent, group=group)
        there, back = sent.tolist(), comes.tolist()
        arrived = functional.all_to_all_single_autograd(rows, back, there, group)
        returned = functional.all_to_all_single_autograd(expert(arrived), there, back, group)
        returned.square().sum().backward()
        return [returned.detach(), rows.grad, *(p.grad for p in expert.parameters())]

    on_both(train)
