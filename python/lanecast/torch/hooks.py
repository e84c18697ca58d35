# SPDX-License-Identifier: Apache-2.0
"""For programs whose groups stay with another backend: only the traffic of training goes over Lanecast.

Each takes a group of Lanecast beside the one that the program has, of the same ranks, made with the first call.
"""

# No annotations as texts here: DDP looks at its hook's.
import functools
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from lanecast import _core
from lanecast_torch import is_lanecasts

__all__ = ["all_reduce_hook", "beside", "use_in_deepspeed", "use_in_fsdp"]

# Methods of deepspeed.comm.torch.TorchBackend by which ZeRO moves parameters and gradients, and where among their
# arguments the group stands: decorators hide their signatures.
_OF_DEEPSPEED = {
    "all_reduce": 2, "all_reduce_coalesced": 2, "reduce": 3, "reduce_scatter_tensor": 3, "all_gather_into_tensor": 2,
    "all_gather_coalesced": 2, "all_to_all_single": 4,
}  # fmt: skip


def beside(group: Any = None) -> Any:
    """The group of Lanecast with the ranks of `group` (None: of all). The first call is collective over them."""
    group = dist.group.WORLD if group is None else group
    if all(is_lanecasts(group._get_backend(device)) for device in group._device_types):
        return group
    if group not in _made:
        ranks = dist.get_process_group_ranks(group)
        _refuse_unequal_numbers(group, ranks)
        _made[group] = dist.new_group(ranks, backend="lanecast", use_local_synchronization=True)
    return _made[group]


def _refuse_unequal_numbers(group: Any, ranks: list[int]) -> None:
    """torch names a group that only its own ranks make by how many groups each of them has; under different names they
    would wait for each other until the timeout."""
    numbers: list[Any] = [None] * len(ranks)
    dist.all_gather_object(numbers, len(dist.distributed_c10d._world.pg_names), group)
    for rank, number in zip(ranks, numbers, strict=True):
        if number != numbers[0]:
            raise _core.UsageError(
                f"hooks: rank {ranks[0]} is in {numbers[0]} groups, rank {rank} in {number}, and torch makes no group "
                "of them alone then; have them make the hook's first call, or call hooks.beside(group), before the "
                "groups that not all of them are in"
            )


_made: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # groups of Lanecast by the program's


def all_reduce_hook(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For DDP: model.register_comm_hook(None, all_reduce_hook), or with the model's group instead of None."""
    work = dist.all_reduce(bucket.buffer(), dist.ReduceOp.AVG, group=beside(group), async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def use_in_fsdp(model: Any) -> None:
    """All-gathers and reduce-scatters of what fully_shard() has made of `model` and its parts. Other calls, as the
    all-reduce across the replicas of HSDP, stay where they are."""
    from torch.distributed.fsdp import FSDPModule

    sharded = [module for module in model.modules() if isinstance(module, FSDPModule)]
    if not sharded:
        raise _core.UsageError(f"use_in_fsdp: fully_shard() has made nothing of this {type(model).__name__}")
    for module in sharded:
        module.set_custom_all_gather(_AllGather())
        module.set_custom_reduce_scatter(_ReduceScatter())


class _Allocates:
    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)


class _AllGather(_Allocates):
    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, async_op: bool = False) -> Any:
        return dist.all_gather_into_tensor(output_tensor, input_tensor, group=beside(group), async_op=async_op)


class _ReduceScatter(_Allocates):
    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, op: Any, async_op: bool = False) -> Any:
        return dist.reduce_scatter_tensor(output_tensor, input_tensor, op, group=beside(group), async_op=async_op)


def use_in_deepspeed() -> Callable[[], None]:
    """What ZeRO moves parameters and gradients by, from now on in this process; call what is returned to end it."""
    from deepspeed.comm.torch import TorchBackend

    own = {name: getattr(TorchBackend, name) for name in _OF_DEEPSPEED}
    for name, method in own.items():
        setattr(TorchBackend, name, _in_group_beside(method, _OF_DEEPSPEED[name]))

    def end() -> None:
        for name, method in own.items():
            setattr(TorchBackend, name, method)

    return end


def _in_group_beside(method: Callable[..., Any], position: int) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(backend: Any, *args: Any, **kwargs: Any) -> Any:
        if len(args) > position:
            args = (*args[:position], beside(args[position]), *args[position + 1 :])
        else:
            kwargs["group"] = beside(kwargs.get("group"))
        return method(backend, *args, **kwargs)

    return call
