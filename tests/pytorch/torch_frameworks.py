# SPDX-License-Identifier: Apache-2.0
"""Training by Hugging Face accelerate, Lightning and DeepSpeed: the ranks of test_torch_frameworks.py run this.

torch_frameworks.py FRAMEWORK BACKEND FILE: rank 0 writes the losses to FILE. The backend "hooks" is gloo, with the
traffic of ZeRO on Lanecast.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ROWS, WIDTH, BATCH = 64, 4, 8


def data() -> DataLoader[tuple[torch.Tensor, ...]]:
    return DataLoader(TensorDataset(torch.randn(ROWS, WIDTH)), batch_size=BATCH)


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 9), nn.BatchNorm1d(9), nn.Linear(9, 1))


def loss_of(trained: nn.Module, batch: Any) -> torch.Tensor:
    return (trained(batch[0]) - batch[0].sum(1, keepdim=True)).square().mean()


def accelerate(backend: str) -> list[float]:
    from accelerate import Accelerator
    from accelerate.utils import broadcast_object_list

    dist.init_process_group(backend)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    whole = model()
    trained, optimizer, batches = accelerator.prepare(whole, torch.optim.SGD(whole.parameters(), lr=0.1), data())
    losses = []
    for batch in [*batches, *batches]:
        with accelerator.accumulate(trained):
            loss = loss_of(trained, batch)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(trained.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(float(accelerator.gather(loss.detach()).mean()))
    rank = accelerator.process_index
    assert accelerator.gather_for_metrics([f"of {rank}"], use_gather_object=True) == ["of 0", "of 1"]
    assert accelerator.pad_across_processes(torch.ones(1 + rank)).shape == (2,)
    assert broadcast_object_list([rank]) == [0]
    with accelerator.main_process_first():
        accelerator.wait_for_everyone()
    assert dist.get_backend() == backend
    return losses


def lightning(backend: str) -> list[float]:
    import lightning
    from lightning.pytorch.strategies import DDPStrategy

    class Module(lightning.LightningModule):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.losses = model(), list[float]()

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            loss = loss_of(self.inner, batch)
            self.log("loss", loss, sync_dist=True)
            return loss

        def validation_step(self, batch: Any, _: int) -> None:
            self.log("validation", loss_of(self.inner, batch), sync_dist=True)

        def on_train_epoch_end(self) -> None:
            self.losses.append(float(self.trainer.callback_metrics["loss"]))

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy=DDPStrategy(process_group_backend=backend), max_epochs=3,
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trained = Module()
    trainer.fit(trained, data(), data())
    rank = trainer.global_rank
    assert trainer.strategy.broadcast({"rank": rank}) == {"rank": 0}
    assert float(trainer.strategy.reduce(torch.tensor(float(rank)), reduce_op="mean")) == 0.5
    assert dist.get_backend() == backend
    return [*trained.losses, float(trainer.callback_metrics["validation"])]


def deepspeed(backend: str, stage: int) -> list[float]:
    import deepspeed

    from lanecast.torch import hooks

    end = hooks.use_in_deepspeed() if backend == "hooks" else None
    deepspeed.init_distributed(dist_backend="gloo" if backend == "hooks" else backend)
    whole = model()
    optimizer = torch.optim.Adam(whole.parameters(), lr=0.02)
    config = {
        "train_micro_batch_size_per_gpu": BATCH,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
    }
    engine, *_ = deepspeed.initialize(model=whole, optimizer=optimizer, config=config)
    losses = []
    with torch.profiler.profile() as profile:
        for batch in [*data(), *data()]:
            loss = loss_of(engine, [batch[0].roll(dist.get_rank(), 1)])
            engine.backward(loss)
            engine.step()
            losses.append(float(loss.detach()))
    if backend != "gloo":
        assert any(event.name.startswith("lanecast:") for event in profile.events())
    if end:
        end()
    return losses


def main(framework: str, backend: str, file: str) -> None:
    torch.manual_seed(11)
    name, _, stage = framework.partition("-")
    losses = globals()[name](backend, *([int(stage)] if stage else []))
    if os.environ["RANK"] == "0":
        Path(file).write_text(json.dumps(losses))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
