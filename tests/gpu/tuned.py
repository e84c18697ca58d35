# SPDX-License-Identifier: Apache-2.0
"""One rank that chooses by GPU profiles: python tuned.py FILE=ENGINE…; each file makes its engine the fastest."""

from __future__ import annotations

import sys

from lanecast.bench.gpu_ranks import GpuRanks

COUNT = 1 << 20


def main(files: list[str]) -> None:
    import torch

    ranks = GpuRanks()
    for number, (file, engine) in enumerate(each.split("=") for each in files):
        comm = ranks.communicator(f"tuned {number}", profile=file)
        # Copy engines are chosen where a call has named them.
        comm.all_reduce(torch.zeros(COUNT, device=ranks.device.device), algorithm="copy_engine")
        for symmetric in (False, True):
            why = comm.explain_on_gpu("all_reduce", COUNT, symmetric=symmetric)
            assert "measured on this machine" in why.reason, why
            wanted = engine if symmetric or engine != "peer_direct" else "peer_kernel"
            assert why.algorithm == wanted, (wanted, why)
            x = comm.symmetric_empty(COUNT, "float32") if symmetric else torch.empty(COUNT, device=ranks.device.device)
            x.fill_(ranks.rank + 1)
            # Where the others' communicators would choose another than rank 0's, the calls would differ.
            comm.all_reduce(x, algorithm="" if ranks.rank == 0 else why.algorithm)
            comm.synchronize()
            assert bool((x == ranks.size * (ranks.size + 1) / 2).all()), (file, symmetric)
    ranks.close()


if __name__ == "__main__":
    main(sys.argv[1:])
