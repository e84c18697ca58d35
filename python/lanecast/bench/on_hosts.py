# SPDX-License-Identifier: Apache-2.0
"""Programs on emulated hosts with a share of this machine's GPUs each, started as torch.distributed wants it.

    python -P on_hosts.py 0,1 2,3 -- PROGRAM…

is what each rank runs: it says which GPUs the first host has, the second and so on, and becomes the program.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from lanecast import _core, job, launch

_PORT = "29500"  # of torch's store; a host's ports are its own


@dataclass(frozen=True)
class Hosts:
    """What a job runs on. rate: of each NIC; gpus: of the machine, 0 where the job wants none."""

    hosts: int
    ranks_per_host: int
    gpus: int = 0
    nics: int = 2
    rate: str = "10gbit"

    @property
    def share_gpus(self) -> bool:
        return 0 < self.gpus < self.hosts * self.ranks_per_host

    def visible(self) -> list[str]:
        """The GPUs of each host, one for each of its ranks; they go round where there are too few for all hosts.

        Raises UsageError where they are too few for one host.
        """
        if not self.gpus:
            return []
        if self.ranks_per_host > self.gpus:
            raise _core.UsageError(f"{self.ranks_per_host} ranks per host, and this machine has {self.gpus} GPUs")
        ours = os.environ.get("CUDA_VISIBLE_DEVICES")  # those that we see ourselves
        names = ours.split(",") if ours else [str(k) for k in range(self.gpus)]
        each = range(self.ranks_per_host)
        firsts = range(0, self.hosts * self.ranks_per_host, self.ranks_per_host)
        return [",".join(names[(first + k) % self.gpus] for k in each) for first in firsts]

    def command(self, program: Sequence[str]) -> list[str]:
        """What runs `program` on every rank of a cluster that lasts as long as it."""
        shape = {
            "--hosts": self.hosts, "--ranks-per-host": self.ranks_per_host, "--nics": self.nics, "--rate": self.rate
        }  # fmt: skip
        options = [text for name, value in shape.items() for text in (name, str(value))]
        rank = [sys.executable, "-P", __file__, *self.visible(), "--", *program]
        return [sys.executable, "-m", "lanecast", "cluster", "run", *options, "--", *rank]


def rank_environment(found: job.Job, visible: Sequence[str]) -> dict[str, str]:
    """What torch.distributed and CUDA read, from what the launcher has said of this rank; filled host by host."""
    rank, size, local_rank, local_size = found.rank, found.size, found.local_rank, found.local_size
    if rank is None or size is None or local_rank is None or local_size is None:
        raise _core.UsageError(f"{found.launcher} does not say where on its host a rank is")
    names = {
        "RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": local_rank, "LOCAL_WORLD_SIZE": local_size,
        "MASTER_ADDR": "node0", "MASTER_PORT": _PORT,
    }  # fmt: skip
    gpus = {"CUDA_VISIBLE_DEVICES": visible[rank // local_size]} if visible else {}
    return {name: str(value) for name, value in names.items()} | gpus


def main(arguments: list[str]) -> None:
    found = job.detect()
    if found is None or "--" not in arguments:
        raise _core.UsageError("start it with an MPI's launcher: on_hosts [GPUS-OF-A-HOST…] -- PROGRAM…")
    end = arguments.index("--")
    program = arguments[end + 1 :]
    os.execvpe(program[0], program, {**os.environ, **rank_environment(found, arguments[:end])})


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Exception as error:
        launch.fail(error)
