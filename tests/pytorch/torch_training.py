# SPDX-License-Identifier: Apache-2.0
"""Training programs, unchanged but for the group that they train in: the ranks of test_torch_training.py run these."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

STEPS = 4


def model() -> nn.Module:
    """The same parameters on any device: with others a loss may rise at first."""
    torch.manual_seed(7)
    with torch.device("cpu"):
        made = nn.Sequential(nn.Linear(12, 33), nn.GELU(), nn.Linear(33, 9), nn.GELU(), nn.Linear(9, 3))
    return made.to(torch.get_default_device())


def batch(step: int) -> torch.Tensor:
    generator = torch.Generator("cpu").manual_seed(100 * step + dist.get_rank())
    return torch.randn(5, 12, generator=generator, device="cpu").to(torch.get_default_device())


def losses(trained: nn.Module, unsynchronized: int = 0) -> list[float]:
    """Of each step of SGD; each may begin with passes whose gradients only add up."""
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.3, momentum=0.9)
    found = []
    for step in range(STEPS):
        for k in range(unsynchronized):
            with trained.no_sync():
                trained(batch(10 * k + step)).square().mean().backward()
        loss = trained(batch(step)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(float(loss.detach()))
    return found


@functools.cache
def other() -> Any:
    """The group to compare with, gloo's or on GPUs NCCL's. One, never let go of: PowerSGD's callback may hold the last
    reference to it, and a gloo group that ends in its own thread ends the process (it joins itself)."""
    return dist.new_group(backend="nccl" if torch.get_default_device().type == "cuda" else "gloo")


def alike(train: Callable[[Any], list[float]], tolerance: float = 1e-5, falls: bool = True) -> None:
    """The same losses on Lanecast as on the other group."""
    ours, theirs = train(dist.group.WORLD), train(other())
    with torch.device("cpu"):
        torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), rtol=tolerance, atol=tolerance)
    assert ours[-1] < ours[0] or not falls


def check_ddp() -> None:
    alike(lambda group: losses(DistributedDataParallel(model(), process_group=group, bucket_cap_mb=0.001)))


def check_ddp_no_sync() -> None:
    alike(lambda group: losses(DistributedDataParallel(model(), process_group=group), unsynchronized=2))


def check_ddp_static_graph_and_views() -> None:
    alike(
        lambda group: losses(
            DistributedDataParallel(model(), process_group=group, static_graph=True, gradient_as_bucket_view=True)
        )
    )


class Forks(nn.Module):  # type: ignore[misc]
    """Ranks use different parameters in each step."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.ways = nn.ModuleList([nn.Linear(12, 3) for _ in range(3)])
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.ways[(self.calls + dist.get_rank()) % 3](x)


def check_ddp_unused_parameters() -> None:
    alike(
        lambda group: losses(DistributedDataParallel(Forks(), process_group=group, find_unused_parameters=True)),
        falls=False,
    )


def check_ddp_hooks() -> None:
    def with_hook(group: Any, hook: Any, state: Any) -> list[float]:
        trained = DistributedDataParallel(model(), process_group=group)
        trained.register_comm_hook(state, hook)
        return losses(trained)

    for hook in (default_hooks.allreduce_hook, default_hooks.fp16_compress_hook):
        alike(lambda group, hook=hook: with_hook(group, hook, group))  # type: ignore[misc]
    torch.manual_seed(1)

    def power(group: Any) -> list[float]:
        state = powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=2, start_powerSGD_iter=2)
        return with_hook(group, powerSGD_hook.powerSGD_hook, state)

    alike(power, 1e-3)


def mesh_of(group: Any) -> DeviceMesh:
    return DeviceMesh.from_group(group, torch.get_default_device().type)


def check_fsdp2() -> None:
    def sharded(group: Any, **options: Any) -> list[float]:
        whole = model()
        for layer in whole:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh_of(group), **options)
        return losses(fully_shard(whole, mesh=mesh_of(group), **options))

    alike(sharded)
    alike(lambda group: sharded(group, reshard_after_forward=False))
    bf16 = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    alike(lambda group: sharded(group, mp_policy=bf16), 1e-2)


def check_fsdp2_in_memory_of_the_group() -> None:
    """Buffers of the group's own: on GPUs of a host nothing is copied to and from staging."""

    def sharded(group: Any, *, from_group: bool) -> list[float]:
        torch.manual_seed(7)
        wide = 6000 if torch.get_default_device().type == "cuda" else 700  # there shares have to be worth an offer
        with torch.device("cpu"):
            whole = nn.Sequential(nn.Linear(12, wide), nn.GELU(), nn.Linear(wide, wide), nn.GELU(), nn.Linear(wide, 3))
        whole = whole.to(torch.get_default_device())
        for layer in whole:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh_of(group))
        fully_shard(whole, mesh=mesh_of(group))
        for module in whole.modules():
            if from_group and isinstance(module, FSDPModule):
                module.set_allocate_memory_from_process_group_for_comm(True)
        return losses(whole)

    expected = sharded(dist.group.WORLD, from_group=False)
    assert sharded(dist.group.WORLD, from_group=True) == pytest.approx(expected, rel=1e-5)
    here = torch.get_default_device()
    if here.type == "cuda":
        assert dist.group.WORLD._get_backend(here).calls_without_copies > 0


def check_fsdp2_divided_in_the_reduction() -> None:
    """The factor that FSDP2 sends with its sums: PREMUL_SUM, which gloo does not have."""

    def factor(given: float | None) -> list[float]:
        whole = fully_shard(model(), mesh=mesh_of(dist.group.WORLD))
        if given:
            whole.set_gradient_divide_factor(given)
        return losses(whole)

    assert factor(None) == factor(float(dist.get_world_size()))


def check_fsdp1() -> None:
    here = torch.empty(0).device
    alike(lambda group: losses(FullyShardedDataParallel(model(), process_group=group, device_id=here)))


def check_dtensor() -> None:
    size = dist.get_world_size()
    mesh = init_device_mesh(torch.get_default_device().type, (size,))
    whole = torch.arange(float(6 * size)).reshape(2 * size, 3)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(rows.full_tensor(), whole)
    assert torch.equal(rows.redistribute(mesh, [Shard(1)]).full_tensor(), whole)
    product = (rows.t() @ rows).redistribute(mesh, [Replicate()])  # a sum over the ranks' rows
    assert torch.equal(product.to_local(), whole.t() @ whole)


def check_device_mesh() -> None:
    size = dist.get_world_size()
    if size % 2:
        return
    mesh = init_device_mesh(torch.get_default_device().type, (2, size // 2), mesh_dim_names=("outer", "inner"))
    x = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(x, group=mesh.get_group("outer"))
    assert x.item() == 2 * (dist.get_rank() % (size // 2)) + size // 2
    copied = copy.deepcopy(model())
    fully_shard(copied, mesh=mesh)  # HSDP: sharded within, replicated across
    losses(copied)


def check_functional_collectives() -> None:
    from torch.distributed import _functional_collectives as functional

    group = dist.group.WORLD

    def step(x: torch.Tensor) -> torch.Tensor:
        gathered = functional.all_gather_tensor(x * 2, 0, group)
        scattered = functional.reduce_scatter_tensor(gathered, "sum", 0, group)
        return functional.all_reduce(scattered, "sum", group) + 1

    x = torch.full((4,), 1.0 + dist.get_rank())
    n = dist.get_world_size()
    expected = torch.full((4,), float(n * n * (n + 1) + 1))
    assert torch.equal(step(x), expected)
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), expected)


def check_hooks_beside_another_backend() -> None:
    """The model's own group stays gloo's (NCCL's); what is trained goes over Lanecast."""
    from lanecast.torch import hooks

    def by_ddp(group: Any) -> list[float]:
        trained = DistributedDataParallel(model(), process_group=other())
        if group is dist.group.WORLD:
            trained.register_comm_hook(other(), hooks.all_reduce_hook)
        return losses(trained)

    def by_fsdp(group: Any) -> list[float]:
        whole = model()
        fully_shard(whole[0], mesh=mesh_of(other()))
        fully_shard(whole, mesh=mesh_of(other()))
        if group is dist.group.WORLD:
            hooks.use_in_fsdp(whole)
        return losses(whole)

    for train in (by_ddp, by_fsdp):
        with torch.profiler.profile() as profile:
            alike(train)
        assert any(event.name.startswith("lanecast:") for event in profile.events())
    assert hooks.beside(other()) is hooks.beside(other()) is not other()
    assert hooks.beside() is dist.group.WORLD
    with pytest.raises(RuntimeError, match="fully_shard"):
        hooks.use_in_fsdp(model())


def check_hooks_where_ranks_have_different_numbers_of_groups() -> None:
    """Of such ranks torch makes no group alone."""
    from lanecast.torch import hooks

    everyone, last = dist.new_group(backend="gloo"), dist.get_world_size() - 1
    alone = dist.new_group([last], backend="gloo")
    with pytest.raises(RuntimeError, match=rf"hooks: rank 0 is in (\d+) groups, rank {last} in (?!\1)\d+, "):
        hooks.beside(everyone)
    del alone
