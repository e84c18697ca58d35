# SPDX-License-Identifier: Apache-2.0
"""The installed package is whole: version, library, types, headers."""

import platform
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import lanecast
from lanecast import _core

ROOT = Path(__file__).parent.parent


def test_version_is_the_one_in_cmake() -> None:
    written = re.search(r"project\(lanecast VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert written is not None
    assert lanecast.__version__ == version("lanecast") == written[1]


def test_core_library_lies_beside_the_extension() -> None:
    package = Path(_core.__file__).parent
    assert (package / "liblanecast.so").is_file()
    assert (package / "liblanecast_nccl.so").is_file() or platform.machine() != "x86_64"
    assert (package / "_core.pyi").is_file()


def test_extension_shows_its_entry_alone() -> None:
    """Else its copy of the standard library's templates and locales is mixed with another of the process."""
    names = ["nm", "--dynamic", "--defined-only", "--format=just-symbols", _core.__file__]
    assert subprocess.run(names, check=True, capture_output=True, text=True).stdout.split() == ["PyInit__core"]


def test_what_it_takes_long_to_import_is_imported_when_it_is_used() -> None:
    """A first group of torch waits for the import of lanecast, and needs its errors and the core alone."""
    program = """
import sys
import lanecast
assert not {"numpy", "lanecast.communicator", "lanecast.startup"} & sys.modules.keys(), sys.modules.keys()
assert all(hasattr(lanecast, name) for name in lanecast.__all__) and set(lanecast.__all__) <= set(dir(lanecast))
assert not hasattr(lanecast, "of_no_such_name")
assert lanecast.compose.Composition and lanecast.init is lanecast.init
from lanecast import *
assert Communicator is lanecast.Communicator
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_a_subcommand_waits_for_no_other() -> None:
    """Each rank of a job is a process that imports one."""
    program = """
import sys
sys.argv = ["lanecast", *sys.argv[1:]]
from lanecast.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code
print(*sys.modules, file=sys.stderr)
"""

    def imported(*words: str) -> set[str]:
        command = [sys.executable, "-c", program, *words]
        return set(subprocess.run(command, capture_output=True, text=True, check=True).stderr.split())

    assert not {"numpy", "lanecast.bench"} & imported("--version")
    assert not {"lanecast.scale", "lanecast.cli.learn"} & imported("bench", "--help")
    assert {"lanecast.scale", "lanecast.cli.learn"} <= imported("--help")


def test_a_fork_beside_a_running_mpi_imports_what_opens_it_alone() -> None:
    program = """
import os, sys, types
import lanecast
sys.modules["mpi4py.MPI"] = types.SimpleNamespace(Is_initialized=lambda: True)
forked = os.fork()
if forked == 0:
    os._exit(0)
assert os.waitpid(forked, 0)[1] == 0
assert sys.modules["lanecast.mpi_library"].find_mpi.cache_info().misses == 1
assert not {"numpy", "lanecast.communicator", "lanecast.startup"} & sys.modules.keys(), sys.modules.keys()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_sources_without_the_core_say_how_to_build_it(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "python", tmp_path / "python", ignore=shutil.ignore_patterns("__pycache__"))
    isolated = [sys.executable, "-S", "-c", "import lanecast"]  # without this environment's packages
    ended = subprocess.run(isolated, cwd=tmp_path / "python", capture_output=True, text=True, check=False)
    assert "ImportError" in ended.stderr
    assert "make install" in ended.stderr


def test_headers_are_installed() -> None:
    installed = Path(_core.__file__).parent / "include"
    headers = [path.relative_to(ROOT / "include") for path in (ROOT / "include").rglob("*.h")]
    assert [header for header in headers if not (installed / header).is_file()] == []


def test_headers_of_the_adapter_for_torch_find_what_they_include() -> None:
    folder = Path(_core.__file__).parent / "bindings"
    headers = list(folder.rglob("*.h"))
    assert {"gil.h", "quiet_thread.h", "endless_wait.h"} <= {header.name for header in headers}
    wanted = {name for header in headers for name in re.findall(r'^#include "(.*)"', header.read_text(), re.MULTILINE)}
    assert [name for name in sorted(wanted) if not (folder / name).is_file()] == []


def test_the_program_that_is_trained_is_installed() -> None:
    installed = Path(_core.__file__).parent / "examples"
    programs = [path.relative_to(ROOT / "examples") for path in (ROOT / "examples").rglob("*.py")]
    assert [path for path in programs if not (installed / path).is_file()] == []


def test_what_the_simulator_is_made_of_is_installed() -> None:
    installed = Path(_core.__file__).parent / "simulator"
    needed = [path.relative_to(ROOT / "simulator") for path in (ROOT / "simulator").iterdir()]
    needed += [path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*.h")]
    needed += [Path("libsimulated_core.a")]
    assert [file for file in needed if not (installed / file).is_file()] == []
