# SPDX-License-Identifier: Apache-2.0
"""The cache of machine code: made once, and never taken from a file that is stale, cut off or another user's."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lanecast import _core

KEY = "source 1\nNVRTC 13.0\nsm_90"
CODE = bytes(range(256)) * 300 + b"\n\n"


def made(code: bytes, log: list[bytes]) -> Callable[[], bytes]:
    def make() -> bytes:
        log.append(code)
        return code

    return make


def refuse() -> bytes:
    raise AssertionError("compiled, though the cache holds it")


def only_file(folder: Path) -> Path:
    (file,) = (path for path in folder.iterdir() if path.suffix != ".lock")
    return file


@pytest.fixture(autouse=True)
def _own_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a cache that holds CODE under KEY."""
    folder = tmp_path / "a" / "b"
    assert _core.cached_code(str(folder), KEY, made(CODE, [])) == CODE
    return folder


def test_made_once_and_private(folder: Path) -> None:
    assert _core.cached_code(str(folder), KEY, refuse) == CODE
    assert only_file(folder).stat().st_mode & 0o777 == 0o600


def test_another_key_is_another_file(folder: Path) -> None:
    log: list[bytes] = []
    assert _core.cached_code(str(folder), KEY.replace("90", "80"), made(b"other", log)) == b"other"
    assert log
    assert _core.cached_code(str(folder), KEY, refuse) == CODE


def test_a_file_under_another_files_name_is_not_taken(folder: Path) -> None:
    """As if digests met: the file itself says what it is of."""
    mine = only_file(folder)
    _core.cached_code(str(folder), "other", made(b"other", []))
    (other,) = (path for path in folder.iterdir() if path.suffix != ".lock" and path != mine)
    mine.write_bytes(other.read_bytes())
    log: list[bytes] = []
    assert _core.cached_code(str(folder), KEY, made(CODE, log)) == CODE
    assert log


def flip_last_byte(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize(
    "spoil",
    [
        flip_last_byte,
        lambda content: content[:-1],
        lambda content: content + b"x",
        lambda content: content[: len(content) - len(CODE)],
        lambda content: content[:20],
        lambda content: content.replace(b"sm_90", b"sm_80"),
        lambda _: b"",
    ],
    ids=["a bit", "cut off", "longer", "header alone", "half a header", "another key", "empty"],
)
def test_a_spoilt_file_is_made_again(folder: Path, spoil: Callable[[bytes], bytes]) -> None:
    file = only_file(folder)
    file.write_bytes(spoil(file.read_bytes()))
    log: list[bytes] = []
    assert _core.cached_code(str(folder), KEY, made(CODE, log)) == CODE
    assert log
    assert _core.cached_code(str(folder), KEY, refuse) == CODE


@pytest.mark.parametrize("mode", [0o602, 0o666])
def test_a_file_that_others_can_write_is_not_trusted(folder: Path, mode: int) -> None:
    only_file(folder).chmod(mode)
    log: list[bytes] = []
    _core.cached_code(str(folder), KEY, made(CODE, log))
    assert log


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_another_users_file_is_not_trusted(folder: Path) -> None:
    os.chown(only_file(folder), 12345, -1)
    log: list[bytes] = []
    _core.cached_code(str(folder), KEY, made(CODE, log))
    assert log
    assert only_file(folder).stat().st_uid == os.geteuid()


def test_links_of_this_user_are_followed(folder: Path, tmp_path: Path) -> None:
    file = only_file(folder)
    file.symlink_to(file.rename(tmp_path / "elsewhere"))
    assert _core.cached_code(str(folder), KEY, refuse) == CODE


@pytest.mark.parametrize("name", ["", "/proc/lanecast", "/dev/null/lanecast"])
def test_without_a_folder_that_can_be_written(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/proc")
    log: list[bytes] = []
    for _ in range(2):
        assert _core.cached_code(name, KEY, made(CODE, log)) == CODE
    assert len(log) == 2


@pytest.mark.parametrize("name", ["/proc/lanecast", "shared"])
def test_the_folder_of_temporary_files_stands_in(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "own"))
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    assert _core.cached_code(str(tmp_path / name), KEY, made(CODE, [])) == CODE
    assert _core.cached_code(str(tmp_path / name), KEY, refuse) == CODE
    assert only_file(tmp_path / "own" / f"lanecast-{os.geteuid()}" / "kernels").read_bytes().endswith(CODE)
    assert not list((tmp_path / "shared").iterdir())


def test_what_one_place_does_not_take_goes_to_the_next(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk; here its name is taken."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    file = only_file(folder)
    file.unlink()
    file.mkdir()
    assert _core.cached_code(str(folder), KEY, made(CODE, [])) == CODE
    assert _core.cached_code(str(folder), KEY, refuse) == CODE
    assert not [path for path in folder.iterdir() if path.suffix == ".tmp"]


def test_a_full_cache_of_an_image_is_enough(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be read-only, and belong to root."""
    for each in (folder, *folder.iterdir()):
        each.chmod(0o555 if each.is_dir() else 0o444)
    monkeypatch.setenv("TMPDIR", "/proc")
    assert _core.cached_code(str(folder), KEY, refuse) == CODE


def test_an_error_of_the_compiler_is_handed_on_and_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> bytes:
        raise ValueError("no such instruction")

    with pytest.raises(ValueError, match="no such instruction"):
        _core.cached_code(str(tmp_path), KEY, fail)
    assert _core.cached_code(str(tmp_path), KEY, made(CODE, [])) == CODE


def test_threads_make_it_once(tmp_path: Path) -> None:
    log: list[bytes] = []

    def make() -> bytes:
        log.append(CODE)
        time.sleep(0.2)  # long enough for the others to come
        return CODE

    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(_core.cached_code(str(tmp_path), KEY, make))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == 4 * [CODE]
    assert len(log) == 1


PROCESS = """
import os, sys, time
from pathlib import Path
from lanecast import _core
def make():
    with open(sys.argv[2], "a") as log: log.write("made\\n")
    time.sleep(0.5)
    return b"code"
Path(sys.argv[3]).touch()
while len(list(Path(sys.argv[3]).parent.glob("ready*"))) < 3: time.sleep(0.01)
assert _core.cached_code(sys.argv[1], "key", make) == b"code"
"""


def test_processes_make_it_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", PROCESS, str(tmp_path / "cache"), str(log)]
    processes = [subprocess.Popen([*command, str(tmp_path / f"ready{k}")]) for k in range(3)]
    assert [process.wait(timeout=240) for process in processes] == [0, 0, 0]
    assert log.read_text() == "made\n"


def test_a_process_that_dies_while_it_compiles_holds_nobody_up(tmp_path: Path) -> None:
    script = "import os, sys; from lanecast import _core; _core.cached_code(sys.argv[1], 'key', lambda: os._exit(7))"
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, timeout=240).returncode == 7
    assert _core.cached_code(str(tmp_path), "key", made(CODE, [])) == CODE
