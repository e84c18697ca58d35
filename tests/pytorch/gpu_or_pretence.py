# SPDX-License-Identifier: Apache-2.0
"""A GPU for each rank, or where torch has no CUDA a device that pretends: what tests do with either."""

import functools
import importlib
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

import pretend_cuda_module

PRETENDS = torch.version.cuda is None


class OnDevice(TorchFunctionMode):  # type: ignore[misc]
    """Tensors that are made in here lie on the device that pretends, unless they are asked for elsewhere."""

    def __torch_function__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        made = function in _device_constructors() and "device" not in (kwargs or {})
        return pretend_cuda_module.load().to_device(result) if made else result


def own_gpu() -> int:
    """Ranks go round the GPUs where there are fewer."""
    return int(dist.get_rank() if PRETENDS else dist.get_rank() % torch.cuda.device_count())


@functools.cache
def use_own_gpu() -> None:
    if PRETENDS:
        pretend_cuda_module.load().set_device(own_gpu())
        torch.cuda.get_device_capability = lambda *_: (9, 0)  # broadcast asks about 8-bit floats
    else:
        torch.cuda.set_device(own_gpu())


def on_gpu(module: str, case: str) -> None:
    """What another module's function does, with CUDA tensors."""
    use_own_gpu()
    with OnDevice() if PRETENDS else torch.device("cuda", own_gpu()):
        getattr(importlib.import_module(module), case)()


def there(tensor: torch.Tensor) -> torch.Tensor:
    use_own_gpu()
    return pretend_cuda_module.load().to_device(tensor) if PRETENDS else tensor.cuda()


class Held:
    """The current stream does nothing until open() is called; a GPU's for a second or so."""

    def __init__(self) -> None:
        use_own_gpu()
        if PRETENDS:
            self._gate = pretend_cuda_module.load().hold()
        else:
            torch.cuda._sleep(2_000_000_000)

    def open(self) -> None:
        if PRETENDS:
            self._gate.open()


def beside(k: int) -> AbstractContextManager[Any]:
    """Another stream as the current one."""
    use_own_gpu()
    if PRETENDS:
        return _OtherStream(k)
    return torch.cuda.stream(torch.cuda.Stream())  # type: ignore[no-any-return]


class _OtherStream(nullcontext):  # type: ignore[type-arg]
    def __init__(self, k: int) -> None:
        self._k = k

    def __enter__(self) -> None:
        self._before = pretend_cuda_module.load().set_stream(self._k)

    def __exit__(self, *_: object) -> None:
        pretend_cuda_module.load().set_stream(self._before)
