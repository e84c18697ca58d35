# SPDX-License-Identifier: Apache-2.0
"""Which adapter for torch is loaded, where it is kept, and when it is compiled. Torch and compiler are make-believe."""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import lanecast
from lanecast.compiler import PYTHON

WITH_ADAPTER = f"""
import os, pathlib, sys, types, warnings
from lanecast import UsageError
torch = types.ModuleType("torch")
torch.__version__, torch.__file__, torch.compiled_with_cxx11_abi = "9.9", "/nowhere/torch/__init__.py", lambda: True
package = types.ModuleType("lanecast.torch")
package.__path__ = [{str(Path(lanecast.__file__).parent / "torch")!r}]
sys.modules |= {{"torch": torch, "lanecast.torch": package}}
from lanecast.torch import adapter
"""
LOAD_IT = """
with warnings.catch_warnings(record=True) as told:
    try:
        torch.__version__ = os.environ.get("TORCH", torch.__version__)
        adapter.PACKAGED = pathlib.Path(os.environ.get("PACKAGED", "/nowhere"))
        print(adapter.load().__file__)
    except UsageError as error:
        print("UsageError:", error)
for each in told:
    print("warning:", each.message)
"""
EXTENSION = """
#include <Python.h>
static PyModuleDef self = {PyModuleDef_HEAD_INIT, "lanecast_c10d", nullptr, -1, nullptr};
PyMODINIT_FUNC PyInit_lanecast_c10d() { return PyModule_Create(&self); }
"""
# Instead of a compiler: takes the adapter that is there, and counts.
COMPILER = """#!/bin/sh
for last; do :; done
echo compiled >> {log}
cp {adapter} "$last"
chmod 777 "$last"
"""


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the make-believe compiler makes."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ here")
    made = tmp_path_factory.mktemp("adapter") / "lanecast_c10d.so"
    include = f"-I{sysconfig.get_path('include')}"
    words = [
        compiler,
        "-shared",
        "-fPIC",
        "-Wno-missing-field-initializers",
        include,
        "-x",
        "c++",
        "-",
        "-o",
        str(made),
    ]
    subprocess.run(words, input=EXTENSION, text=True, check=True)
    return made


class Image:
    """A machine whose only compiler is a make-believe one, with a user's cache and temporary files of its own."""

    def __init__(self, root: Path, adapter: Path) -> None:
        self.cache, self.temporary = root / "cache", root / "temporary"
        self._log = root / "log"
        self._programs = root / "bin"
        self._programs.mkdir()
        program = self._programs / "g++"
        program.write_text(COMPILER.format(log=self._log, adapter=adapter))
        program.chmod(0o755)
        key = self._run("print(adapter._key())")[0]
        self.file = self.cache / "lanecast" / "torch" / key / adapter.name
        self.stand_in = self.temporary / f"lanecast-{os.geteuid()}" / "torch" / key / adapter.name

    def load(self, first: str = "", **variables: str) -> list[str]:
        """The lines that a program prints which loads the adapter; `first`: what it does before."""
        return self._run(LOAD_IT, first, **variables)

    def _run(self, then: str, first: str = "", **variables: str) -> list[str]:
        environment = {name: value for name, value in os.environ.items() if name != "CXX"}
        environment |= {"XDG_CACHE_HOME": str(self.cache), "TMPDIR": str(self.temporary)}
        environment |= {"PATH": f"{self._programs}:/usr/bin:/bin"} | variables
        done = subprocess.run(
            [sys.executable, "-c", first + WITH_ADAPTER + then],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    @property
    def compilations(self) -> int:
        return self._log.read_text().count("compiled") if self._log.exists() else 0


def sealed(program: bytes) -> bytes:
    return program + hashlib.sha256(program).digest()


@pytest.fixture
def image(tmp_path: Path, adapter: Path) -> Image:
    return Image(tmp_path, adapter)


def test_compiled_once_for_this_user_alone(image: Image) -> None:
    for _ in range(2):
        assert image.load("import os\nos.umask(0)\n") == [str(image.file)]
    assert image.compilations == 1
    assert [path.stat().st_mode & 0o777 for path in (image.file, image.file.parent)] == [0o755, 0o700]


def test_an_image_with_the_adapter_needs_no_compiler(image: Image) -> None:
    image.load()
    image.file.parent.chmod(0o555)
    assert image.load(PATH="/nowhere", TMPDIR="/proc") == [str(image.file)]


@pytest.mark.parametrize("build", ["", "+cpu", "+cu130"])
def test_one_that_came_along_needs_neither_compiler_nor_cache(
    image: Image, adapter: Path, tmp_path: Path, build: str
) -> None:
    """For its own release of torch, whatever device that is built for, and for no other."""
    packaged = tmp_path / PYTHON / "9.8.1" / adapter.name
    packaged.parent.mkdir(parents=True)
    shutil.copy(adapter, packaged)
    wheel = {"PACKAGED": str(tmp_path), "PATH": "/nowhere", "XDG_CACHE_HOME": "/proc", "TMPDIR": "/proc"}
    assert image.load(TORCH=f"9.8.1{build}", **wheel) == [str(packaged)]
    for other in ("9.8", "9.8.0", "9.8.1a0", "9.8.1.dev20261126"):
        (said,) = image.load(TORCH=other + build, **wheel)
        assert f"no adapter for torch {other}{build} that is whole" in said


def test_one_that_came_along_is_for_its_own_python(image: Image, adapter: Path, tmp_path: Path) -> None:
    """One wheel has those of several."""
    packaged = tmp_path / "cp399" / "9.9" / adapter.name
    packaged.parent.mkdir(parents=True)
    shutil.copy(adapter, packaged)
    assert image.load(PACKAGED=str(tmp_path)) == [str(image.file)]


def test_one_that_came_along_and_cannot_be_loaded(image: Image, adapter: Path, tmp_path: Path) -> None:
    """As where the system's libstdc++ is too old for it."""
    packaged = tmp_path / PYTHON / "9.9" / adapter.name
    packaged.parent.mkdir(parents=True)
    packaged.write_bytes(b"no library")
    assert image.load(PACKAGED=str(tmp_path)) == [str(image.file)]
    image.file.unlink()
    (said,) = image.load(PACKAGED=str(tmp_path), PATH="/nowhere")
    assert said.startswith(f"UsageError: the adapter {packaged} for torch 9.9 cannot be loaded: ")
    assert said.endswith("needs a C++20 compiler: apt-get install g++, or set CXX")


def test_without_the_adapter_it_says_where_it_has_looked_and_what_is_missing(image: Image) -> None:
    (said,) = image.load(PATH="/nowhere")
    assert f"lies in {image.file.parents[1]} (XDG_CACHE_HOME), {image.stand_in.parents[1]} (TMPDIR); it is" in said
    assert said.endswith("needs a C++20 compiler: apt-get install g++, or set CXX")


def test_a_strangers_adapter_is_not_loaded(image: Image) -> None:
    """Beside it lies one that this user makes."""
    image.file.parent.mkdir(parents=True)
    image.file.write_bytes(sealed(b"a stranger's"))
    image.cache.chmod(0o777)
    path, warning = image.load()
    assert path == str(image.stand_in)
    assert (
        f"warning: XDG_CACHE_HOME: every user may write to {image.cache}, so what lies there is not trusted" in warning
    )
    assert image.load() == [path], "said once"
    image.cache.chmod(0o700)
    image.file.chmod(0o777)
    image.stand_in.unlink()
    assert image.load() == [str(image.file)], "made over it"
    assert image.compilations == 2


def test_a_cache_that_cannot_be_made(image: Image) -> None:
    path, warning = image.load(XDG_CACHE_HOME="/proc")
    assert path == str(image.stand_in)
    assert "XDG_CACHE_HOME: /proc/lanecast: No such file or directory; the adapter for torch goes into" in warning
    (said,) = image.load(XDG_CACHE_HOME="/proc", TMPDIR="/proc")
    assert said.startswith(
        "UsageError: torch: there is no folder to keep it in; XDG_CACHE_HOME: /proc/lanecast: No such"
    )
    assert "TMPDIR: /proc/lanecast-" in said


@pytest.mark.parametrize("left", [0, 20, 1000, -1])
def test_an_adapter_that_is_cut_off_is_made_again(image: Image, left: int) -> None:
    """The loader ends the process that loads such a one."""
    image.load()
    whole = image.file.read_bytes()
    image.file.write_bytes(whole[:left])
    assert image.load() == [str(image.file)]
    assert image.file.read_bytes() == whole
    assert image.compilations == 2


def test_an_adapter_that_cannot_be_loaded_is_made_again(image: Image) -> None:
    """As where torch was built anew under the same version."""
    image.load()
    whole = image.file.read_bytes()
    image.file.write_bytes(sealed(b"no library"))
    (said,) = image.load(PATH="/nowhere")
    assert f"the adapter {image.file} for torch 9.9 cannot be loaded: " in said
    assert "it is compiled at first use, which needs a C++20 compiler" in said
    assert image.load() == [str(image.file)]
    assert image.file.read_bytes() == whole


@pytest.mark.parametrize("error", ["ENOSYS", "ENOLCK"])
def test_a_file_system_without_locks(image: Image, error: str) -> None:
    """As Lustre mounted without them, or an NFS whose server has no lock daemon."""
    refuse = f"import errno, fcntl\ndef refuse(*_): raise OSError(errno.{error}, '')\nfcntl.flock = refuse\n"
    assert image.load(refuse) == [str(image.file)]
