# SPDX-License-Identifier: Apache-2.0
"""Compiles torch's adapter for the releases of torch that PyPI has, for the wheel. Only their headers are needed.

adapters.py FOLDER [RELEASE ...]: makes FOLDER/PYTHON/RELEASE/lanecast_c10d.so for each, PYTHON being that which runs
this (cp313), and removes its others.
adapters.py --list: the releases. TORCH_RELEASES names them where PyPI is not to be asked.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lanecast import compiler
from lanecast.torch import compiling

OLDEST = (2, 11)
HEADERS = Path(__file__).parent.parent / "build" / "torch-headers"
OLDER = Path(__file__).resolve().parent / "older_libstdcxx.h"
# The libraries that stand in for torch's have nothing that the adapter wants; it has to name them all the same.
OPTIONS = ("-Wl,--no-as-needed", "-Wl,--strip-all", "-include", str(OLDER))
# What a machine may install says nothing about what is only looked at.
FREE = {**os.environ, "PIP_CONSTRAINT": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
PIP = [sys.executable, "-m", "pip"]


def releases() -> list[str]:
    """From the oldest that Lanecast supports to the newest, without those that are yet to come."""
    if named := os.environ.get("TORCH_RELEASES"):
        return named.split()
    told = subprocess.run([*PIP, "index", "versions", "torch"], env=FREE, capture_output=True, text=True, check=True)
    versions = re.search(r"Available versions: (.*)", told.stdout)
    found = [] if versions is None else [each.split("+")[0] for each in versions[1].split(", ")]
    plain = {each for each in found if re.fullmatch(r"\d+(\.\d+)+", each)}
    return sorted((each for each in plain if numbers(each) >= OLDEST), key=numbers)


def numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def headers(release: str) -> Path:
    """Those of a release, kept from one time to the next. Python's version changes nothing in them."""
    kept = HEADERS / release
    if not kept.is_dir():
        HEADERS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=HEADERS) as folder:
            # ===: of this version exactly, and not of a build that has a local one as well.
            subprocess.run([*PIP, "download", "--quiet", "--no-deps", "--dest", folder, f"torch==={release}"],
                           env=FREE, check=True)  # fmt: skip
            (wheel,) = Path(folder).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                names = [name for name in archive.namelist() if name.startswith("torch/include/")]
                archive.extractall(Path(folder) / "unpacked", names)
            (Path(folder) / "unpacked" / "torch" / "include").rename(kept)
    return kept


def make(words: list[str], release: str, folder: Path) -> None:
    """Keeps what was made of the same headers, sources, compiler and Python."""
    path = folder / release / compiling.FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    stamp = folder / f"{release}.stamp"
    texts = [file.read_text() for file in [OLDER, Path(compiling.__file__), *compiling.files()]]
    facts = hashlib.sha256("\0".join([sys.version, *words, *OPTIONS, *texts]).encode()).hexdigest()
    if path.is_file() and stamp.is_file() and stamp.read_text() == facts:
        return
    print(f"compiling the adapter for torch {release}", flush=True)
    with tempfile.TemporaryDirectory() as stand_ins:
        compiling.stand_ins(words, Path(stand_ins))
        torch = compiling.Torch(release, headers(release), Path(stand_ins))
        compiling.compile_adapter(words, torch, path, *OPTIONS)
    stamp.write_text(facts)


def main(arguments: list[str]) -> None:
    if arguments == ["--list"]:
        print("\n".join(releases()))
        return
    folder, wanted = Path(arguments[0]).resolve() / compiler.PYTHON, arguments[1:] or releases()
    folder.mkdir(parents=True, exist_ok=True)
    for other in folder.iterdir():
        if other.name.removesuffix(".stamp") not in wanted:
            shutil.rmtree(other) if other.is_dir() else other.unlink()
    words = compiler.command("the adapter for torch needs a C++20 compiler")
    # Each takes 1.4 GB of memory while it is compiled.
    with ThreadPoolExecutor(int(os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", "2"))) as at_once:
        list(at_once.map(lambda release: make(words, release, folder), wanted))


if __name__ == "__main__":
    main(sys.argv[1:])
