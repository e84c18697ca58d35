# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel that users get, into dist/: with the GPU kernels and torch's adapters, one for each Python.

wheels.py [PYTHON ...]: commands, such as python3.13; without one, the Python that runs this. Each has an environment in
build/wheels, and the core's objects, in build/objects, are compiled once for all. Each wheel is tried in a clean
environment, by a program of torch as well where TORCH_TRIED names a release of torch; PyPI's takes some GB.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "wheels"
REQUIREMENTS = [word for name in ("build", "runtime", "wheel") for word in ("-r", f"requirements/{name}.txt")]
# What the oldest system that is served has: RHEL 9 and Ubuntu 22.04.
PLATFORM = f"manylinux_2_34_{os.uname().machine}"
# Of torch and of the wheel itself; they are in the process before the adapter.
EXCLUDED = ["libtorch_python.so", "libtorch_cpu.so", "libtorch.so", "libc10.so", "liblanecast.so"]


def run(*command: str | Path) -> None:
    subprocess.run([str(word) for word in command], cwd=ROOT, check=True)


def tag_of(python: str) -> str:
    asked = [python, "-c", "import sys; print('cp{}{}'.format(*sys.version_info))"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def raw(pip: Path, into: Path, adapters: Path | str) -> Path:
    """As the build makes it: its tag says that it is for this machine."""
    shutil.rmtree(into, ignore_errors=True)
    run(pip, "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", into, ".",
        f"--config-settings=build-dir={ROOT / 'build' / 'objects'}",
        f"--config-settings=cmake.define.LANECAST_ADAPTERS={adapters}")  # fmt: skip
    (wheel,) = into.glob("*.whl")
    return wheel


def build(python: str) -> Path:
    tag = tag_of(python)
    environment, adapters = WORK / tag, ROOT / "build" / "adapters" / tag
    bin_folder = environment / "bin"
    if not (bin_folder / "pip").exists():
        run(python, "-m", "venv", environment)
    run(bin_folder / "pip", "install", "--quiet", *REQUIREMENTS)
    # The adapters are compiled against what the wheel installs.
    without = raw(bin_folder / "pip", environment / "without", "")
    run(bin_folder / "pip", "install", "--quiet", "--no-deps", "--force-reinstall", without)
    run(bin_folder / "python", "tools/adapters.py", adapters)
    whole = raw(bin_folder / "pip", environment / "whole", adapters)
    for old in (ROOT / "dist").glob(f"lanecast-*-{tag}-*.whl"):
        old.unlink()
    excluded = [word for library in EXCLUDED for word in ("--exclude", library)]
    # auditwheel looks for patchelf on the path.
    path = f"PATH={bin_folder}{os.pathsep}{os.environ['PATH']}"
    run("env", path, "auditwheel", "repair", "--plat", PLATFORM, *excluded, "--wheel-dir", "dist", whole)
    (made,) = (ROOT / "dist").glob(f"lanecast-*-{tag}-*.whl")
    return made


def check(python: str, wheel: Path) -> None:
    own = WORK / tag_of(python) / "bin" / "python"
    listed = [str(own), "tools/adapters.py", "--list"]
    releases = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    run(".ci/wheel", wheel, *releases)
    run(".ci/wheel_runs", wheel, python, *os.environ.get("TORCH_TRIED", "").split())


def main(pythons: list[str]) -> None:
    os.environ.update(PIP_DISABLE_PIP_VERSION_CHECK="1")
    for python in pythons or [sys.executable]:
        check(python, build(python))


if __name__ == "__main__":
    main(sys.argv[1:])
