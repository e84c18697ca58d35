# SPDX-License-Identifier: Apache-2.0
"""The C++ compiler of this machine, for what is compiled when it is first used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from lanecast import _core

VARIABLE = "CXX"
# For which Python a compiled module is, as wheels call it: cp312, cp314t.
PYTHON = f"cp{sys.version_info.major}{sys.version_info.minor}{sys.abiflags}"


def named() -> str:
    """What the environment asks for; empty: the one that is found."""
    return os.environ.get(VARIABLE, "")


def command(need: str) -> list[str]:
    """How to call it, with what CXX adds. Raises UsageError that begins with `need` where there is none."""
    words = named().split() or [shutil.which("g++") or shutil.which("c++") or ""]
    if not words[0]:
        raise _core.UsageError(f"{need}: apt-get install g++, or set {VARIABLE}")
    if not shutil.which(words[0]):
        raise _core.UsageError(f"{need}, and {VARIABLE}={named()} names none that can be run")
    return words


def run(words: list[str], made: Path, source: str = "") -> subprocess.CompletedProcess[str]:
    """What it says while it makes a file; `source`: its standard input.

    In a program that ignores SIGCHLD no exit status can be told, so a file that is not there counts as well.
    """
    done = subprocess.run([*words, "-o", str(made)], input=source, capture_output=True, text=True, check=False)
    if not made.exists():
        done.returncode = done.returncode or 1
    return done
