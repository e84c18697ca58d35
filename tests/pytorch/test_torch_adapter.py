# SPDX-License-Identifier: Apache-2.0
"""What the adapter is built with: a compiler of the user's, which may bring its own libstdc++; headers of torch alone,
as for a wheel."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lanecast.compiler import PYTHON

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


IN_A_WHEEL = """
import pathlib, lanecast.torch.adapter
lanecast.torch.adapter.PACKAGED = pathlib.Path({folder!r})
"""


@pytest.mark.long  # likewise
@pytest.mark.timeout(400)
def test_one_that_was_made_of_headers_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is loaded where there is neither a compiler nor a folder to keep one in."""
    import torch

    compiler = shutil.which("g++")
    assert compiler is not None
    tool = Path(__file__).parent.parent.parent / "tools" / "adapters.py"
    spec = importlib.util.spec_from_file_location("adapters", tool)
    assert spec is not None
    assert spec.loader is not None
    adapters = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(adapters)
    release, headers = torch.__version__.partition("+")[0], tmp_path / "headers"
    headers.mkdir()
    (headers / release).symlink_to(Path(torch.__file__).parent / "include")
    monkeypatch.setattr(adapters, "HEADERS", headers)
    adapters.make([compiler], release, tmp_path / "adapters" / PYTHON)
    nothing = {"CXX": "/no/compiler", "XDG_CACHE_HOME": "/proc", "TMPDIR": "/proc"}
    told = subprocess.run(
        [sys.executable, "-c", IN_A_WHEEL.format(folder=str(tmp_path / "adapters")) + SCRIPT],
        env=os.environ | nothing, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "this rank's input has 3 elements, the output for it 2" in told.stdout
