# SPDX-License-Identifier: Apache-2.0
"""Builds the wheels that users get, into dist/: with the GPU kernels and torch's adapters.

wheels.py [--core] [PYTHON ...]: commands, such as python3.13; without one, the Python that runs this. There is one
wheel for all Pythons from 3.12 on, by their limited API, with adapters for those that are named, and one for 3.11. Each
Python has an environment in build/wheels, and the core's objects, in build/objects, are compiled once for all. A wheel
is tried in a clean environment of each Python, by a program of torch as well where TORCH_TRIED names a release of
torch; PyPI's takes some GB. --core leaves kernels and adapters out, and the wheels in build/wheels: so CI tries them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "wheels"
LIMITED_API = "cp312"  # nanobind has it from this Python on
# What the oldest system that is served has: RHEL 9 and Ubuntu 22.04.
PLATFORM = f"manylinux_2_34_{os.uname().machine}"
# Of torch and of the wheel itself; they are in the process before the adapter.
EXCLUDED = ["libtorch_python.so", "libtorch_cpu.so", "libtorch.so", "libc10.so", "liblanecast.so"]


def run(*command: str | Path) -> None:
    subprocess.run([str(word) for word in command], cwd=ROOT, check=True)


@dataclass(frozen=True)
class Python:
    command: str
    version: tuple[int, int]

    @staticmethod
    def of(command: str) -> Python:
        asked = [command, "-c", "import sys; print(*sys.version_info[:2], sys.abiflags)"]
        major, minor, *flags = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split()
        if flags:
            raise SystemExit(
                f"{command}: no wheel is made for a Python of the kind {flags[0]}; pip install . serves it"
            )
        return Python(command, (int(major), int(minor)))

    @property
    def tag(self) -> str:
        return "cp{}{}".format(*self.version)

    @property
    def is_limited(self) -> bool:
        return self.version >= (3, int(LIMITED_API.removeprefix("cp3")))

    @property
    def programs(self) -> Path:
        """The folder of its environment here, which is made if it is not there."""
        environment = WORK / self.tag
        if not (environment / "bin" / "pip").exists():
            run(self.command, "-m", "venv", environment)
        return environment / "bin"


def by_wheel(pythons: list[Python]) -> list[list[Python]]:
    """Those of one wheel together, the oldest first."""
    ordered = sorted(pythons, key=lambda python: python.version)
    limited = [python for python in ordered if python.is_limited]
    return [*([python] for python in ordered if not python.is_limited), *([limited] if limited else [])]


def require(python: Python, *names: str) -> None:
    files = [word for name in names for word in ("-r", f"requirements/{name}.txt")]
    run(python.programs / "pip", "install", "--quiet", *files)


def raw(python: Python, kind: str, adapters: Path | str = "", *settings: str) -> Path:
    """As the build makes it: its tag says that it is for this machine."""
    into = WORK / python.tag / kind
    shutil.rmtree(into, ignore_errors=True)
    limited = [f"--config-settings=wheel.py-api={LIMITED_API}"] if python.is_limited else []
    run(python.programs / "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", into, ".",
        f"--config-settings=build-dir={ROOT / 'build' / 'objects'}", *limited, *settings,
        f"--config-settings=cmake.define.LANECAST_ADAPTERS={adapters}")  # fmt: skip
    (wheel,) = into.glob("*.whl")
    return wheel


def build(pythons: list[Python]) -> Path:
    """One wheel for all of them; the first, which is the oldest, builds it."""
    oldest = pythons[0]
    tags = f"{LIMITED_API}-abi3" if oldest.is_limited else f"{oldest.tag}-{oldest.tag}"
    adapters = ROOT / "build" / "adapters" / tags
    require(oldest, "build", "wheel")
    # The adapters are compiled against what the wheel installs.
    without = raw(oldest, "without")
    for other in adapters.glob("*"):
        if other.name not in {python.tag for python in pythons}:
            shutil.rmtree(other)
    for python in pythons:
        run(python.programs / "pip", "install", "--quiet", "--no-deps", "--force-reinstall", without)
        run(python.programs / "python", "tools/adapters.py", adapters)
    whole = raw(oldest, "whole", adapters)
    for old in (ROOT / "dist").glob(f"lanecast-*-{tags}-*.whl"):
        old.unlink()
    excluded = [word for library in EXCLUDED for word in ("--exclude", library)]
    # auditwheel looks for patchelf on the path.
    path = f"PATH={oldest.programs}{os.pathsep}{os.environ['PATH']}"
    run("env", path, "auditwheel", "repair", "--plat", PLATFORM, *excluded, "--wheel-dir", "dist", whole)
    (made,) = (ROOT / "dist").glob(f"lanecast-*-{tags}-*.whl")
    return made


def releases_for(python: Python) -> list[str]:
    """Of torch, which each Python has of its own."""
    listed = [str(python.programs / "python"), "tools/adapters.py", "--list"]
    return subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()


def core(pythons: list[Python]) -> Path:
    """Without kernels and adapters."""
    require(pythons[0], "build")
    return raw(pythons[0], "core", "", "--config-settings=cmake.define.LANECAST_KERNELS=OFF")


def check(pythons: list[Python], wheel: Path) -> None:
    if pythons[0].is_limited:
        require(pythons[0], "limited_api")
        run(pythons[0].programs / "abi3audit", "--strict", wheel)
    for python in pythons:
        run(".ci/wheel_runs", wheel, python.command, *os.environ.get("TORCH_TRIED", "").split())


def main(arguments: list[str]) -> None:
    os.environ.update(PIP_DISABLE_PIP_VERSION_CHECK="1")
    commands = [argument for argument in arguments if argument != "--core"] or [sys.executable]
    for pythons in by_wheel([Python.of(command) for command in commands]):
        if "--core" in arguments:
            wheel = core(pythons)
        else:
            wheel = build(pythons)
            releases = [f"{python.tag}/{release}" for python in pythons for release in releases_for(python)]
            run(".ci/wheel", wheel, *releases)
        check(pythons, wheel)


if __name__ == "__main__":
    main(sys.argv[1:])
