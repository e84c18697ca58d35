# SPDX-License-Identifier: Apache-2.0
"""What the adapter is built with, where it is kept, and which one is loaded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import torch, torch.distributed as dist
dist.init_process_group("lanecast", store=dist.HashStore(), rank=0, world_size=1)
try:
    dist.group.WORLD._get_backend(torch.device("cpu")).allgather([[torch.zeros(2)]], [torch.zeros(3)])
except ValueError as error:
    print(error)
"""


@pytest.mark.long  # compiles the adapter once more
@pytest.mark.timeout(400)
def test_a_compiler_that_links_its_own_libstdcxx(tmp_path: Path) -> None:
    environment = {**os.environ, "CXX": "g++ -static-libstdc++", "XDG_CACHE_HOME": str(tmp_path)}
    told = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    assert "this rank's input has 3 elements, the output for it 2" in told.stdout


LOAD = """
import warnings
from lanecast import UsageError
from lanecast.torch import adapter
with warnings.catch_warnings(record=True) as told:
    try:
        print(adapter.load().__file__)
    except UsageError as error:
        print("UsageError:", error)
for each in told:
    print("warning:", each.message)
"""
# Instead of a compiler: takes the adapter that is there, and counts.
COMPILER = """#!/bin/sh
for last; do :; done
echo compiled >> {log}
cp {adapter} "$last"
chmod 777 "$last"
"""


@pytest.fixture(scope="module")
def adapter() -> Path:
    """The one of this installation."""
    return Path(subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, check=True).stdout.strip())


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
        self.adapter = adapter
        self.file = self.kept_in(self.cache / "lanecast")
        self.stand_in = self.kept_in(self.temporary / f"lanecast-{os.geteuid()}")

    def kept_in(self, place: Path) -> Path:
        return place / "torch" / self.adapter.parent.name / self.adapter.name

    def load(self, first: str = "", **variables: str) -> list[str]:
        """The lines that a program prints which loads the adapter; `first`: what it does before."""
        environment = {name: value for name, value in os.environ.items() if name != "CXX"}
        environment |= {"XDG_CACHE_HOME": str(self.cache), "TMPDIR": str(self.temporary)}
        environment |= {"PATH": f"{self._programs}:/usr/bin:/bin"} | variables
        done = subprocess.run(
            [sys.executable, "-c", first + LOAD], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    @property
    def compilations(self) -> int:
        return self._log.read_text().count("compiled") if self._log.exists() else 0


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


def test_without_the_adapter_it_says_where_it_has_looked_and_what_is_missing(image: Image) -> None:
    (said,) = image.load(PATH="/nowhere")
    assert f"lies in {image.file.parents[1]} (XDG_CACHE_HOME), {image.stand_in.parents[1]} (TMPDIR); it is" in said
    assert said.endswith("needs a C++20 compiler: apt-get install g++, or set CXX")


def test_a_strangers_adapter_is_not_loaded(image: Image) -> None:
    """Beside it lies one that this user makes."""
    image.file.parent.mkdir(parents=True)
    image.file.write_text("a stranger's")
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


def test_an_adapter_that_is_cut_off_is_made_again(image: Image) -> None:
    image.load()
    whole = image.file.read_bytes()
    image.file.write_bytes(whole[:1000])
    (said,) = image.load(PATH="/nowhere")
    assert f"the adapter {image.file} for torch" in said
    assert "cannot be loaded: " in said
    assert "needs a C++20 compiler" in said
    assert image.load() == [str(image.file)]
    assert image.file.read_bytes() == whole


@pytest.mark.parametrize("error", ["ENOSYS", "ENOLCK"])
def test_a_file_system_without_locks(image: Image, error: str) -> None:
    """As Lustre mounted without them, or an NFS whose server has no lock daemon."""
    refuse = f"import errno, fcntl\ndef refuse(*_): raise OSError(errno.{error}, '')\nfcntl.flock = refuse\n"
    assert image.load(refuse) == [str(image.file)]
