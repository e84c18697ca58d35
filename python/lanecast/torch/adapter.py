# SPDX-License-Identifier: Apache-2.0
"""The C++ between torch and the core: compiled for the torch that is found, once for each, and loaded."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import torch

from lanecast import _core, cache

_NAME = "lanecast_c10d"
_SOURCES = Path(__file__).parent / "csrc"
_PACKAGE = Path(_core.__file__).parent  # with the core's library and header, also where the Python is elsewhere
_HEADER = _PACKAGE / "include"
_SHARED = _PACKAGE / "bindings"  # what the core's Python and the adapter both include
_FLAGS = ("-std=c++20", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", f"-DTORCH_EXTENSION_NAME={_NAME}")


@functools.cache
def load() -> ModuleType:
    """The adapter for this torch, Python and core. Compiles it the first time, in about half a minute.

    Raises UsageError without a compiler, and TransportError (command, the compiler's words) where it fails.
    """
    compiler = _compiler()
    path = library_path(compiler)
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        # The other ranks of this host wait for the one that compiles.
        with (path.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.is_file():
                _compile(compiler, path)
    # In the process before the adapter, which names it as a library that it needs but not where it is.
    ctypes.CDLL(str(_PACKAGE / "liblanecast.so"), mode=os.RTLD_LOCAL)
    spec = importlib.util.spec_from_file_location(_NAME, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def library_path(compiler: str) -> Path:
    """Where the adapter for this torch, Python, core and compiler is, or will be."""
    facts = [torch.__version__, str(torch.compiled_with_cxx11_abi()), _core.VERSION, sys.version, compiler, *_FLAGS]
    for file in [
        Path(__file__),
        *_sources(),
        *sorted((_HEADER / "lanecast").glob("*.h")),
        *sorted(_SHARED.glob("*.h")),
    ]:
        facts += [file.name, file.read_text()]
    digest = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:20]
    return cache.folder("torch") / f"{torch.__version__}-{digest}" / f"{_NAME}.so"


def _sources() -> list[Path]:
    return sorted([*_SOURCES.glob("*.h"), *_SOURCES.glob("*.cpp")])


def _compiler() -> str:
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if not compiler:
        raise _core.UsageError(
            f"the backend is compiled for torch {torch.__version__} at first use and needs a C++20 compiler: "
            "apt-get install g++, or set CXX"
        )
    return compiler


def _compile(compiler: str, path: Path) -> None:
    include = Path(torch.__file__).parent / "include"
    libraries = Path(torch.__file__).parent / "lib"
    folders = [include, include / "torch/csrc/api/include", Path(sysconfig.get_path("include"))]
    # As one source: most of the time goes into torch's headers.
    whole = "".join(f'#include "{source.name}"\n' for source in _sources() if source.suffix == ".cpp")
    unfinished = path.with_suffix(f".{os.getpid()}")
    command = [
        *compiler.split(), *_FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f"-I{_SOURCES}", f"-I{_HEADER}", f"-I{_SHARED}", *(f"-isystem{folder}" for folder in folders),
        # A compiler that links libstdc++ into it: the locales of that one and of torch's must not become one.
        "-Wl,--exclude-libs,libstdc++.a",
        "-x", "c++", "-", "-o", str(unfinished), f"-L{_PACKAGE}", "-llanecast",
        f"-L{libraries}", "-ltorch_python", "-ltorch_cpu", "-ltorch", "-lc10",
    ]  # fmt: skip
    done = subprocess.run(command, input=whole, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        errors = "\n".join(line for line in done.stderr.splitlines() if "error" in line) or done.stderr
        raise _core.TransportError(
            f"the backend for torch {torch.__version__} does not compile; {' '.join(command)} says: {errors[:2000]}"
        )
    unfinished.replace(path)
