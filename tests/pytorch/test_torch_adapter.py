# SPDX-License-Identifier: Apache-2.0
"""What the adapter is built with: a compiler of the user's, which may bring its own libstdc++."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import torch, torch.distributed as dist
dist.init_process_group("lanecast", store=dist.HashStore(), rank=0, world_size=1)
try:
    dist.group.WORLD._get_backend(torch.device("cpu")).allgather([[torch.zeros(2)]], [torch.zeros(3)])
except ValueError as error:
    print(error)
"""


@pytest.mark.long  # compiles the adapter once more
@pytest.mark.timeout(400)
def test_a_compiler_that_links_its_own_libstdcxx(tmp_path: Path) -> None:
    environment = {**os.environ, "CXX": "g++ -static-libstdc++", "XDG_CACHE_HOME": str(tmp_path)}
    told = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    assert "this rank's input has 3 elements, the output for it 2" in told.stdout
