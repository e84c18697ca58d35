# SPDX-License-Identifier: Apache-2.0
"""Where things are kept: what goes on where a folder is shared, read-only, impossible or not there at all."""

import errno
import json
import os
import re
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

import lanecast
import other_users
from lanecast import UsageError, _core, cache, compiler, marked_json
from lanecast.profiles import finding, surprises
from lanecast.profiles.profile import default_folder, file_name, save
from lanecast.profiles.surprises import Surprise, Surprises
from lanecast.scale import build, point
from lanecast.scale.build import SimGrid, Simulator
from test_tune import profile_for, shape_here

OWN = f"lanecast-{os.geteuid()}"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Both places, the user's cache in a folder to which every user may write."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    return SimpleNamespace(shared=tmp_path / "shared", temporary=tmp_path / "temporary" / OWN)


def test_the_folder_of_temporary_files_stands_in_for_a_shared_cache(places: SimpleNamespace) -> None:
    kept = cache.place_for("things", "some")
    assert kept.folder == places.temporary / "things" / "some"
    assert len(kept.passed_over) == 1
    assert kept.passed_over[0].startswith(
        f"XDG_CACHE_HOME: every user may write to {places.shared}, so what lies there is not trusted"
    )
    assert stat.S_IMODE(kept.folder.stat().st_mode) == 0o700
    (kept.folder / "file").write_text("")
    assert cache.find("things", "some/file") == kept.folder / "file"


def test_a_strangers_file_is_not_found(places: SimpleNamespace) -> None:
    folder = places.shared / "lanecast" / "things"
    folder.mkdir(parents=True)
    (folder / "file").write_text("")
    assert cache.find("things", "file") is None
    places.shared.chmod(0o755)
    assert cache.find("things", "file") == folder / "file"
    (folder / "file").chmod(0o666)
    assert cache.find("things", "file") is None


@pytest.mark.parametrize(("name", "variable"), [("XDG_CACHE_HOME", "XDG_CACHE_HOME"), ("HOME", "HOME")])
def test_an_error_names_every_folder_and_its_variable(
    name: str, variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv(name, str(tmp_path / "file"))
    monkeypatch.setenv("TMPDIR", "/proc")
    with pytest.raises(UsageError) as told:
        cache.place_for("things")
    assert re.search(rf"{variable}: {tmp_path}/file.*: Not a directory", str(told.value))
    assert f"TMPDIR: /proc/{OWN}: No such file or directory; set XDG_CACHE_HOME to a folder of yours" in str(told.value)


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_core, "user_cache", lambda _: None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert cache.place_for("things").folder == tmp_path / OWN / "things"
    monkeypatch.setenv("TMPDIR", "/proc")
    with pytest.raises(UsageError, match="HOME: not set, and the system knows no home of this user; TMPDIR: "):
        cache.place_for("things")


@pytest.mark.parametrize("relative", ["cache", "~/.cache", "./x", "."])
def test_a_relative_folder_is_ignored(relative: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As the specification has it; else whose cache it is would hang on where a program is started."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", relative)
    assert cache.folder("things") == tmp_path / ".cache" / "lanecast" / "things"
    monkeypatch.setenv("TMPDIR", relative)
    assert _core.temporary_cache("things") == Path("/tmp", OWN, "things")


def test_programs_are_not_kept_where_none_can_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    asked: list[str] = []

    def flags(path: Path) -> SimpleNamespace:
        asked.append(str(path))
        return SimpleNamespace(f_flag=os.ST_NOEXEC if "XDG" in str(path) else 0)

    monkeypatch.setattr(os, "statvfs", flags)
    kept = cache.place_for("things", runs=True)
    assert kept.folder == tmp_path / "TMPDIR" / OWN / "things"
    assert kept.passed_over == [f"XDG_CACHE_HOME: {asked[0]}: mounted noexec, so no program runs from there"]
    assert cache.place_for("things").passed_over == []


def test_programs_are_not_compiled_where_none_fits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    sizes = [errno.EDQUOT, 0]

    def allocate(*_: object) -> None:
        if error := sizes.pop(0):
            raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    kept = cache.place_for("things", runs=True)
    assert kept.folder == tmp_path / "TMPDIR" / OWN / "things"
    assert kept.passed_over == [f"XDG_CACHE_HOME: {tmp_path}/XDG_CACHE_HOME/lanecast/things: Disk quota exceeded"]
    assert list(kept.folder.iterdir()) == []


def test_what_is_written_is_whole_private_to_write_and_goes_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("before")
    path = tmp_path / "a" / "file"
    before = os.umask(0)
    try:
        cache.write(path, "é")
    finally:
        os.umask(before)
    assert path.read_text() == "é"
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o644, 0o700)
    path.unlink()
    path.symlink_to(tmp_path / "target")
    cache.write(path, "after")
    assert (path.is_symlink(), path.read_text(), (tmp_path / "target").read_text()) == (False, "after", "before")
    assert list(path.parent.iterdir()) == [path]
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match=f"{tmp_path}/folder: cannot be written: Is a directory"):
        cache.write(tmp_path / "folder", "")


def test_a_draft_that_was_laid_there_is_not_written_through(tmp_path: Path) -> None:
    """Its name can be guessed, and the folder may be one in which others write."""
    (tmp_path / "target").write_text("before")
    drafts = []
    for number in range(3):
        drafts.append(tmp_path / f"file.{os.getpid()}-{number}.tmp")  # the main thread's id is the process's
        drafts[-1].symlink_to(tmp_path / "target")
    cache.write(tmp_path / "file", "after")
    assert (tmp_path / "target").read_text() == "before"
    assert (tmp_path / "file").read_text() == "after"
    assert sorted(tmp_path.iterdir()) == sorted([*drafts, tmp_path / "file", tmp_path / "target"])


def test_files_of_ours_that_cannot_be_written_are_named() -> None:
    with pytest.raises(UsageError, match=r"^profile /proc/x: No such file or directory"):
        save(profile_for(shape_here("2", 2)), Path("/proc/x/p.json"))


def chosen(comm: lanecast.Communicator) -> str:
    return comm.explain("all_reduce", 1000).algorithm


def test_profiles_of_a_shared_cache_are_left_aside(places: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(finding.VARIABLE)
    shape = shape_here("4", 4)
    default = lanecast.run_threads(4, chosen, profile="none")
    save(profile_for(shape), default_folder() / file_name(shape))
    with pytest.warns(RuntimeWarning, match=f"left aside: profile .*: every user may write to {places.shared}, so"):
        assert lanecast.run_threads(4, chosen) == default
    # One that the user names is believed, whoever may write to it.
    named = lanecast.run_threads(4, chosen, profile=str(default_folder() / file_name(shape)))
    assert named == lanecast.run_threads(4, chosen, profile=str(default_folder())) != default
    places.shared.chmod(0o700)
    assert lanecast.run_threads(4, chosen) == named


def test_a_pipe_in_a_folder_of_profiles_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / file_name(shape_here("2", 2)))
    assert lanecast.run_threads(2, lambda comm: comm.size, profile=str(tmp_path)) == [2, 2]


def test_profiles_that_cannot_be_looked_at_are_said() -> None:
    """As where root has made the cache, in a sudo."""
    other_users.needs_root()
    look = (
        "import os, sys, warnings, lanecast\n"
        "os.environ['XDG_CACHE_HOME'] = sys.argv[1]\n"
        "with warnings.catch_warnings(record=True) as told:\n"
        "    lanecast.run_threads(2, lambda comm: comm.size)\n"
        "print(*(each.message for each in told))"
    )
    with other_users.shared_folder() as name:
        folder = Path(name) / "lanecast" / "profiles"
        folder.mkdir(mode=0o700, parents=True)
        assert other_users.run(look, name) == f"left aside: profiles {folder}: Permission denied\n"
        folder.rmdir()
        assert other_users.run(look, name) == "\n"


def surprised(measured_s: float = 1.0) -> Surprises:
    return Surprises(shape_here("2", 2), [Surprise("all_reduce", 4096, "ring", 1, 1e-3, measured_s)])


def test_surprises_of_a_shared_cache_are_not_believed(places: SimpleNamespace) -> None:
    found = surprised()
    path = surprises.folder() / file_name(found.shape)
    marked_json.save(surprises.FORMAT, found, path)
    assert surprises.known(found.shape) == []
    assert [f"every user may write to {places.shared}" in line for line in surprises.lines()] == [True]
    places.shared.chmod(0o755)
    assert surprises.known(found.shape) == found.found


def test_surprises_that_cannot_be_forgotten_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """After minutes of measuring, whose profile is written already."""
    found = surprised()
    monkeypatch.setattr(surprises, "known", lambda _: found.found)
    monkeypatch.setattr(surprises, "folder", lambda: Path("/proc/lanecast"))
    surprises.forget(found.shape, [("all_reduce", 8)])  # nothing to forget
    monkeypatch.setattr(Path, "unlink", _refuse)
    with pytest.warns(RuntimeWarning, match="surprises are not forgotten: .*Read-only file system"):
        surprises.forget(found.shape, [("all_reduce", 4096)])


def _refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def fake_simulator(folder: Path) -> Simulator:
    """Counts how often it runs."""
    program = folder / "simulate"
    said = json.dumps({"seconds": 1.5, "wrong_elements": 0, "wall_s": 0.1, "memory_MiB": 1})
    program.write_text(f"#!/bin/sh\necho run >> {folder}/runs\necho '{said}'\n")
    program.chmod(0o755)
    return Simulator(program, "digest", "3.32")


def runs(folder: Path) -> int:
    return (folder / "runs").read_text().count("run")


def test_simulations_go_on_without_a_folder_to_keep_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.setenv(name, "/proc")
    simulator = fake_simulator(tmp_path)
    for _ in range(2):
        assert point.run(simulator, ["x"]).seconds == 1.5
    assert runs(tmp_path) == 2


def test_simulations_are_kept_and_strangers_are_not_believed(places: SimpleNamespace, tmp_path: Path) -> None:
    simulator = fake_simulator(tmp_path)
    for _ in range(2):
        assert point.run(simulator, ["x"]).seconds == 1.5
    assert runs(tmp_path) == 1
    (kept,) = (places.temporary / "scale").iterdir()
    planted = places.shared / "lanecast" / "scale" / kept.name
    planted.parent.mkdir(parents=True)
    planted.write_text(kept.read_text().replace("1.5", "9.5"))
    assert point.run(simulator, ["x"]).seconds == 1.5
    kept.write_text(kept.read_text()[:9])  # cut off
    assert point.run(simulator, ["x"]).seconds == 1.5
    assert runs(tmp_path) == 2


def touched(folder: Path) -> Path:
    (folder / "new").touch()
    return folder / "new"


def test_a_simulator_that_is_there_needs_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "find_simgrid", lambda: SimGrid(Path("/usr"), "3.32"))
    monkeypatch.delenv(compiler.VARIABLE, raising=False)
    monkeypatch.setattr(build, "_compile", lambda _words, _simgrid, program: cache.seal(touched(tmp_path), program))
    made = build.simulator(print)
    assert made.program.parent.parent == tmp_path / "lanecast" / "simulator"
    monkeypatch.setenv("PATH", "/nowhere")
    assert build.simulator(print) == made
    made.program.chmod(0o666)
    with pytest.raises(UsageError, match="needs a C\\+\\+20 compiler: apt-get install g\\+\\+, or set CXX"):
        build.simulator(print)


def test_a_compiler_that_cannot_be_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/g++ -x")
    with pytest.raises(UsageError, match=r"^needed, and CXX=/nowhere/g\+\+ -x names none that can be run"):
        compiler.command("needed")
