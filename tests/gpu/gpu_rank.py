# SPDX-License-Identifier: Apache-2.0
"""One rank of the tests on GPUs: python gpu_rank.py FOLDER SECTION… [stand-in | shared]; writes what it has found.

stand-in: a driver that runs kernels on the CPU; shared: there are more ranks than GPUs.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import compositions
import faults
import graphs
import grid
import messages
import own_of_nccl
import streams
import symmetric_memory
import windows
from campaign import Campaign, ending
from lanecast.bench.gpu_ranks import GpuRanks

SECTIONS = {
    "grid": grid.run_small,
    "large": grid.run_large,
    "sums": grid.run_long_sums,
    "codes": grid.run_codes,
    "streams": streams.run,
    "graphs": graphs.run,
    "messages": messages.run,
    "compositions": compositions.run,
    "nccl": own_of_nccl.run,
    "symmetric": symmetric_memory.run,
    "windows": windows.run,
    "faults": faults.run,
}


def main(folder: Path, sections: list[str]) -> None:
    if "stand-in" in sections:
        from gpu_bench_rank import StandIn

        ranks = GpuRanks(StandIn(), "gloo")
        sections.remove("stand-in")
    else:
        ranks = GpuRanks(shared_gpus="shared" in sections)
    sections = [section for section in sections if section != "shared"]
    campaign = Campaign(ranks)
    if sections == ["killed"]:
        faults.killed(campaign, folder)
        ending(0)
    for section in sections:
        SECTIONS[section](campaign)
    campaign.write(folder)
    campaign.together()
    ranks.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
