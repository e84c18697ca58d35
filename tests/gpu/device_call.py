# SPDX-License-Identifier: Apache-2.0
"""Cases of the CPU's tests, run on a device: buffers and the elements around them are mirrored there and back."""

from __future__ import annotations

from typing import Any

from collective_cases import GUARD, Array, Call, Case, Guarded
from lanecast.communicator import Communicator
from lanecast.dtypes import torch_dtype

_ALIGNMENT_BYTES = 16  # of the accesses that kernels like best


class _Mirror:
    """A guarded buffer in the device's memory."""

    def __init__(self, guarded: Guarded, device: Any, shift: int) -> None:
        """shift: elements by which the buffer begins past an aligned address."""
        import torch

        itemsize = guarded.view.dtype.itemsize
        self._pad = -GUARD * itemsize % _ALIGNMENT_BYTES + shift * itemsize
        self._guarded = guarded
        self._bytes = torch.empty(self._pad + guarded._memory.size, dtype=torch.uint8, device=device)
        self._bytes[self._pad :].copy_(torch.from_numpy(guarded._memory))

    def tensor(self, view: Array, dtype: str) -> Any:
        """The part of it that mirrors a part of the buffer."""
        offset = view.ctypes.data - self._guarded._memory.ctypes.data if view.size else 0
        return self._bytes[self._pad + offset : self._pad + offset + view.nbytes].view(torch_dtype(dtype))

    def fetch(self) -> None:
        self._guarded._memory[:] = self._bytes[self._pad :].cpu().numpy()


class DeviceCall(Call):
    """A case on a device; start() enqueues, and finish() waits and tells what is wrong."""

    def __init__(self, comm: Communicator, case: Case, device: Any, shift: int = 0) -> None:
        super().__init__(comm, case)
        brought = _Mirror(self._in, device, shift)
        self._mirrors = (brought, brought if self._out is self._in else _Mirror(self._out, device, shift))

    def start(self) -> None:
        host = self._source, self._target
        brought, gets = self._mirrors
        self._source = brought.tensor(host[0], self.case.dtype)
        self._target = gets.tensor(host[1], self.case.dtype)
        try:
            super().start()
        finally:
            self._source, self._target = host

    def finish(self) -> list[str]:
        if self._work is not None:
            self._work.wait()
            self._work = None
        for mirror in self._mirrors:
            mirror.fetch()
        return super().finish()
