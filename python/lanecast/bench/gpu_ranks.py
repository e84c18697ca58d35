# SPDX-License-Identifier: Apache-2.0
"""The processes of a benchmark on GPUs, brought together by MPI where it has started them, else by torch's store: each
has a GPU, and a communicator on it."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from typing import Any

import numpy as np

import lanecast
from lanecast import _core, job, startup
from lanecast.bench.cases import WHOLE
from lanecast.bench.device import Cuda, Gpu
from lanecast.bench.ranks import Ranks
from lanecast.communicator import Communicator
from lanecast.rendezvous import over_store

_TIMEOUT_S = 60.0


class GpuRanks(Ranks):
    """Ranks that have a GPU each; every method is collective."""

    device: Gpu
    one_tensor = WHOLE  # as in torch.distributed

    def __init__(
        self,
        device: Gpu | None = None,
        backend: str = "nccl",
        shared_gpus: bool = False,
        **options: Any,
    ) -> None:
        """device: instead of this process's GPU; backend: of torch.distributed, instead of NCCL.

        shared_gpus: may ranks share a GPU? options: as init's, of what is measured.
        """
        found = job.detect()
        if found is None or found.rank is None or found.size is None:
            raise _core.UsageError("device cuda: no rank is known; start with torchrun, mpirun, or plainly")
        self.rank, self.size = found.rank, found.size
        self.device = device or Cuda(found.local_rank or 0, shared_gpus)
        self._backend = backend
        self.shared_gpus = shared_gpus
        if shared_gpus:
            # NCCL refuses a GPU that two ranks of one host share; as ranks of several hosts they use its sockets.
            os.environ.setdefault("NCCL_HOSTID", f"{socket.gethostname()}-{self.rank}")
        self._by_mpi = found.starts_mpi
        self._store = None if self._by_mpi else self._launchers_store()
        super().__init__(self.communicator("measured", **options))
        self._control = self.communicator("control", device=-1)  # of the hosts, apart from what is measured
        self._group: Any = None

    def communicator(self, name: str, **options: Any) -> Communicator:
        """One more of all ranks; name: its own."""
        device = self.device.device.index if isinstance(self.device, Cuda) else -1
        shared = {"timeout_s": _TIMEOUT_S, "profile": "none", "allow_shared_gpu": self.shared_gpus}
        settings = {**shared, "device": device, **options}
        if self._by_mpi:
            return lanecast.init(**settings)
        all_gather = over_store(self._store, self.rank, self.size, f"lanecast/{name}")
        return lanecast.from_all_gather(self.rank, self.size, all_gather, **settings)

    @staticmethod
    def _launchers_store() -> Any:
        from torch.distributed import rendezvous

        return next(rendezvous("env://", timeout=timedelta(seconds=_TIMEOUT_S)))[0]

    def _own_store(self) -> Any:
        """Served by rank 0, on a port that is free there, under MASTER_ADDR or its host's name."""
        from torch.distributed import TCPStore

        address = np.zeros(256, np.uint8)
        store = None
        if self.rank == 0:
            name = os.environ.get("MASTER_ADDR") or socket.gethostname()
            store = TCPStore(name, 0, is_master=True, wait_for_workers=False)
            text = f"{name} {store.port}".encode()
            address[: len(text)] = np.frombuffer(text, np.uint8)
        self._control.broadcast(address, 0)
        if store is None:
            name, port = address.tobytes().rstrip(b"\0").decode().split()
            store = TCPStore(name, int(port), is_master=False)
        return store

    def plain(self, size_bytes: int) -> Any:
        import torch

        return torch.zeros(size_bytes, dtype=torch.uint8, device=self.device.device)

    @property
    def control(self) -> Communicator:
        """For the hosts' own numbers."""
        return self._control

    def __str__(self) -> str:
        return f"{self.size} GPUs"

    def mpi_on_gpus(self) -> _core.MpiBaseline:
        """MPI's own collectives, made when they are first asked for. UsageError where it takes no GPU's memory."""
        if self.mpi is None:
            if not self._by_mpi:
                raise _core.UsageError("backend mpi: with --device cuda it needs ranks that mpirun has started")
            library = startup.mpi()
            found = _core.MpiBaseline(library)
            if not self.takes_gpus(found):
                raise _core.UsageError(f"backend mpi: {library.version} does not say that it takes GPUs' memory, as "
                                       "one that was built with CUDA does; leave the backend out")  # fmt: skip
            self.mpi = found
        return self.mpi

    def takes_gpus(self, mpi: _core.MpiBaseline) -> bool:
        """Can it be called on the memory of these ranks' devices?"""
        return mpi.takes_gpus

    def group(self) -> Any:
        """torch's process group of all ranks over NCCL, made when it is first asked for."""
        if self._group is None:
            self._group = self._make_group()
        return self._group

    def _make_group(self) -> Any:
        from torch import distributed

        if self._backend == "nccl" and not distributed.is_nccl_available():
            raise _core.UsageError("backend nccl: this torch has no NCCL; leave the backend out")
        self._store = self._store or self._own_store()
        options: dict[str, Any] = {"device_id": self.device.device} if self._backend == "nccl" else {}
        try:
            # With a device the library is loaded and its communicator made here, and not by the first call.
            distributed.init_process_group(
                self._backend, store=self._store, rank=self.rank, world_size=self.size,
                timeout=timedelta(seconds=_TIMEOUT_S), **options,
            )  # fmt: skip
        except (RuntimeError, OSError) as error:
            raise _core.TransportError(f"rank {self.rank}: {self._backend} cannot be started: {error}") from None
        return distributed.group.WORLD

    def close(self) -> None:
        """Leave the group; all that used it has to be gone."""
        if self._group is not None:
            from torch import distributed

            distributed.destroy_process_group()
            self._group = None
