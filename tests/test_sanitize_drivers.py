# SPDX-License-Identifier: Apache-2.0
"""The drivers of `make test-sanitize` compile: that command is run seldom, and they follow interfaces that change."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DRIVERS = sorted((ROOT / "tests" / "sanitize").glob("*.cpp"))


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS, ids=lambda path: path.stem)
def test_a_driver_compiles(driver: Path) -> None:
    command = ["g++", "-std=c++20", "-fsyntax-only", f"-I{ROOT / 'src'}", f"-I{ROOT / 'include'}", str(driver)]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr[:3000]
