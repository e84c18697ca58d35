# SPDX-License-Identifier: Apache-2.0
"""The C++ between torch and the core: compiled for the torch that is found, once for each, and loaded."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import importlib.util
import os
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import torch

from lanecast import _core, cache, compiler

_NAME = "lanecast_c10d"
_FOLDER = "torch"  # of the cache
_FILE = f"{_NAME}.so"
_SOURCES = Path(__file__).parent / "csrc"
_PACKAGE = Path(_core.__file__).parent  # with the core's library and header, also where the Python is elsewhere
_HEADER = _PACKAGE / "include"
_SHARED = _PACKAGE / "bindings"  # what the core's Python and the adapter both include
_FLAGS = ("-std=c++20", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", f"-DTORCH_EXTENSION_NAME={_NAME}")


@functools.cache
def load() -> ModuleType:
    """The adapter for this torch, Python and core. Compiles it the first time, in about half a minute.

    Raises UsageError without a compiler or a folder to keep it in, and TransportError (command, the compiler's words)
    where it does not compile.
    """
    key = _key()
    found = cache.find_program(_FOLDER, f"{key}/{_FILE}")
    if found is None:
        folders = ", ".join(f"{place.folder} ({place.variable})" for place in cache.places(_FOLDER))
        why = f"no adapter for torch {torch.__version__} that is whole and to be trusted lies in {folders}"
        return _loaded(_made(key, why))
    try:
        return _loaded(found)
    except _core.TransportError as error:  # torch was built anew under the same version, say
        return _loaded(_made(key, str(error), found.stat()))


def _loaded(path: Path) -> ModuleType:
    # In the process before the adapter, which names it as a library that it needs but not where it is.
    ctypes.CDLL(str(_PACKAGE / "liblanecast.so"), mode=os.RTLD_LOCAL)
    spec = importlib.util.spec_from_file_location(_NAME, path)
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
    path = place.folder / _FILE
    with _alone_in(place.folder):
        if not _is_usable(path, spoilt):
            for each in place.passed_over:
                warnings.warn(f"{each}; the adapter for torch goes into {place.folder}", RuntimeWarning, stacklevel=3)
            _compile(words, path)
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
    facts += _FLAGS
    for file in [
        Path(__file__),
        *_sources(),
        *sorted((_HEADER / "lanecast").glob("*.h")),
        *sorted(_SHARED.glob("*.h")),
    ]:
        facts += [file.name, file.read_text()]
    return f"{torch.__version__}-{hashlib.sha256(chr(0).join(facts).encode()).hexdigest()[:20]}"


def _sources() -> list[Path]:
    return sorted([*_SOURCES.glob("*.h"), *_SOURCES.glob("*.cpp")])


def _compile(words: list[str], path: Path) -> None:
    include = Path(torch.__file__).parent / "include"
    libraries = Path(torch.__file__).parent / "lib"
    folders = [include, include / "torch/csrc/api/include", Path(sysconfig.get_path("include"))]
    # As one source: most of the time goes into torch's headers.
    whole = "".join(f'#include "{source.name}"\n' for source in _sources() if source.suffix == ".cpp")
    command = [
        *words, *_FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f"-I{_SOURCES}", f"-I{_HEADER}", f"-I{_SHARED}", *(f"-isystem{folder}" for folder in folders),
        # A compiler that links libstdc++ into it: the locales of that one and of torch's must not become one.
        "-Wl,--exclude-libs,libstdc++.a",
        "-x", "c++", "-", f"-L{_PACKAGE}", "-llanecast",
        f"-L{libraries}", "-ltorch_python", "-ltorch_cpu", "-ltorch", "-lc10",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / _FILE
        done = compiler.run([*command, "-o", str(made)], whole)
        if done.returncode != 0:
            errors = "\n".join(line for line in done.stderr.splitlines() if "error" in line) or done.stderr
            raise _core.TransportError(
                f"the adapter for torch {torch.__version__} does not compile in {path.parent}; {' '.join(command)} "
                f"says: {errors[:2000]}"
            )
        cache.seal(made, path)
