# SPDX-License-Identifier: Apache-2.0
"""The C++ between torch and the core, loaded: from the wheel for the releases of torch that it was made for, else
compiled for the torch that is found, once for each."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import torch

from lanecast import _core, cache, compiler
from lanecast.torch import compiling
from lanecast.torch.compiling import FILE, FLAGS, NAME, PACKAGE, Torch, compile_adapter

_FOLDER = "torch"  # of the cache
PACKAGED = Path(__file__).parent / "adapters"  # a folder for each Python, and in it for each release of torch


@functools.cache
def load() -> ModuleType:
    """The adapter for this torch, Python and core. Where none came along it is compiled once, in about half a minute.

    Raises UsageError without a compiler or a folder to keep it in, and TransportError (command, the compiler's words)
    where it does not compile.
    """
    left_aside = ""
    if packaged := _packaged():
        try:
            return _loaded(packaged)
        except _core.TransportError as error:  # where libstdc++ is older than the one that it was made with, say
            left_aside = f"{error}; "
    key = _key()
    found = cache.find_program(_FOLDER, f"{key}/{FILE}")
    if found is None:
        folders = ", ".join(f"{place.folder} ({place.variable})" for place in cache.places(_FOLDER))
        why = f"no adapter for torch {torch.__version__} that is whole and to be trusted lies in {folders}"
        return _loaded(_made(key, left_aside + why))
    try:
        return _loaded(found)
    except _core.TransportError as error:  # torch was built anew under the same version, say
        return _loaded(_made(key, str(error), found.stat()))


def _packaged() -> Path | None:
    """The one that came along. Builds of a release for CPUs and for kinds of GPUs have the same headers."""
    release, _, _ = torch.__version__.partition("+")
    path = PACKAGED / compiler.PYTHON / release / FILE
    return path if torch.compiled_with_cxx11_abi() and path.is_file() else None


def _loaded(path: Path) -> ModuleType:
    # In the process before the adapter, which names it as a library that it needs but not where it is.
    library = PACKAGE / "liblanecast.so"
    if not library.is_file():
        raise ImportError(f"{library} is missing; in a checkout `make install` builds it, `make demo` does not")
    ctypes.CDLL(str(library), mode=os.RTLD_LOCAL)
    spec = importlib.util.spec_from_file_location(NAME, path)
    assert spec is not None
    assert spec.loader is not None
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise _core.TransportError(
            f"the adapter {path} for torch {torch.__version__} cannot be loaded: {error}"
        ) from None
    return module


def _made(key: str, why: str, spoilt: os.stat_result | None = None) -> Path:
    """A new one. spoilt: the file that is of no use."""
    words = compiler.command(f"{why}; it is compiled at first use, which needs a C++20 compiler")
    place = cache.place_for(_FOLDER, key, runs=True)
    path = place.folder / FILE
    with _alone_in(place.folder):
        if not _is_usable(path, spoilt):
            for each in place.passed_over:
                warnings.warn(f"{each}; the adapter for torch goes into {place.folder}", RuntimeWarning, stacklevel=3)
            root = Path(torch.__file__).parent
            wanted = Torch(torch.__version__, root / "include", root / "lib", torch.compiled_with_cxx11_abi())
            compile_adapter(words, wanted, path)
    return path


def _is_usable(path: Path, spoilt: os.stat_result | None) -> bool:
    """Another rank may have made it meanwhile."""
    real = cache.usable(path)
    return real is not None and not (spoilt and os.path.samestat(real.stat(), spoilt))


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """The other ranks of this host wait for the one that compiles; on a file system without locks each does."""
    with (folder / "lock").open("w") as lock:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _key() -> str:
    """What an adapter is for: torch, Python, core, sources, and the compiler that the environment names.

    One that is only found is left out: a machine without a compiler may have the adapter.
    """
    facts = [torch.__version__, str(torch.compiled_with_cxx11_abi()), _core.VERSION, sys.version, compiler.named()]
    facts += FLAGS
    for file in [Path(__file__), Path(compiling.__file__), *compiling.files()]:
        facts += [file.name, file.read_text()]
    return f"{torch.__version__}-{hashlib.sha256(chr(0).join(facts).encode()).hexdigest()[:20]}"
