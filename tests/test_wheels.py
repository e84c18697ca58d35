# SPDX-License-Identifier: Apache-2.0
"""tools/wheels.py: which Pythons share a wheel. `make wheel` itself takes many minutes."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def wheels() -> ModuleType:
    tool = Path(__file__).parent.parent / "tools" / "wheels.py"
    spec = importlib.util.spec_from_file_location("wheels", tool)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["wheels"] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("minors", "together"),
    [
        ([11], [[11]]),
        ([12], [[12]]),
        ([14, 11, 12, 13], [[11], [12, 13, 14]]),
        ([15, 13], [[13, 15]]),
    ],
)
def test_pythons_from_3_12_on_share_a_wheel(wheels: ModuleType, minors: list[int], together: list[list[int]]) -> None:
    pythons = [wheels.Python(f"python3.{minor}", (3, minor)) for minor in minors]
    found = wheels.by_wheel(pythons)
    assert [[python.version[1] for python in each] for each in found] == together
    assert [python.tag for each in found for python in each] == [f"cp3{minor}" for each in together for minor in each]


def test_a_python_without_its_lock_gets_no_wheel(wheels: ModuleType, tmp_path: Path) -> None:
    python = tmp_path / "python3.14t"
    python.write_text("#!/bin/sh\necho 3 14 t\n")
    python.chmod(0o755)
    with pytest.raises(SystemExit, match=r"python3.14t: no wheel is made for a Python of the kind t; pip install \."):
        wheels.Python.of(str(python))


def test_a_python_says_its_version(wheels: ModuleType) -> None:
    assert wheels.Python.of(sys.executable).version == sys.version_info[:2]
