# SPDX-License-Identifier: Apache-2.0
"""Makes the adapter from its sources and the headers of a torch, which need not be installed."""

from __future__ import annotations

import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lanecast import _core, cache, compiler

NAME = "lanecast_c10d"
FILE = f"{NAME}.so"
PACKAGE = Path(_core.__file__).parent  # with the core's library and header, also where the Python is elsewhere
FLAGS = ("-std=c++20", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", f"-DTORCH_EXTENSION_NAME={NAME}")
_SOURCES = Path(__file__).parent / "csrc"
_HEADER = PACKAGE / "include"
_SHARED = PACKAGE / "bindings"  # what the core's Python and the adapter both include
_LIBRARIES = ("torch_python", "torch_cpu", "torch", "c10")


@dataclass(frozen=True)
class Torch:
    """What an adapter is compiled for."""

    version: str
    include: Path
    libraries: Path
    cxx11_abi: bool = True


def files() -> list[Path]:
    """All that an adapter is made from, beside torch's headers."""
    texts = [*sorted(_SOURCES.glob("*.h")), *sorted(_SOURCES.glob("*.cpp"))]
    return [*sorted(texts), *sorted((_HEADER / "lanecast").glob("*.h")), *sorted(_SHARED.rglob("*.h"))]


def compile_adapter(words: list[str], torch: Torch, path: Path, *options: str) -> None:
    """words: the compiler. Raises TransportError (command, the compiler's words) where it does not compile."""
    folders = [torch.include, torch.include / "torch/csrc/api/include", Path(sysconfig.get_path("include"))]
    # As one source: most of the time goes into torch's headers.
    whole = "".join(f'#include "{source.name}"\n' for source in files() if source.suffix == ".cpp")
    command = [
        *words, *FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.cxx11_abi)}", *options,
        f"-I{_SOURCES}", f"-I{_HEADER}", f"-I{_SHARED}", *(f"-isystem{folder}" for folder in folders),
        # A compiler that links libstdc++ into it: the locales of that one and of torch's must not become one.
        "-Wl,--exclude-libs,libstdc++.a",
        "-x", "c++", "-", f"-L{PACKAGE}", "-llanecast",
        f"-L{torch.libraries}", *(f"-l{library}" for library in _LIBRARIES),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / FILE
        done = compiler.run(command, made, whole)
        if done.returncode != 0:
            errors = "\n".join(line for line in done.stderr.splitlines() if "error" in line) or done.stderr
            raise _core.TransportError(
                f"the adapter for torch {torch.version} does not compile in {path.parent}; {' '.join(command)} "
                f"says: {errors[:2000]}"
            )
        cache.seal(made, path)


def stand_ins(words: list[str], folder: Path) -> None:
    """Libraries with the names of torch's and nothing in them, to link against where there are only headers."""
    for library in _LIBRARIES:
        name = f"lib{library}.so"
        done = compiler.run([*words, "-shared", f"-Wl,-soname,{name}", "-x", "c++", "-"], folder / name)
        if done.returncode != 0:
            raise _core.TransportError(f"{folder / name}: {done.stderr[:2000]}")
