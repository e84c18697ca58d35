# SPDX-License-Identifier: Apache-2.0
"""The door for what is run or believed because it lies in a folder: only this user and root can have put it there."""

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import other_users
from lanecast import UsageError, _core
from other_users import STRANGER, TEAM, USER

DOOR = """
import os, sys
from lanecast import _core
for path in sys.argv[1:]:
    try:
        print(_core.trusted_path(path))
    except _core.UsageError as error:
        print(str(error).partition(", so what")[0])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a file "file" in "a/b"."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("text")
    return tmp_path


@pytest.fixture
def shared() -> Iterator[Path]:
    """That other users can reach, of USER; with a file "file" in "a/b"."""
    other_users.needs_root()
    with other_users.shared_folder() as name:
        folder = Path(name)
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "a" / "b" / "file").write_text("text")
        for each in (folder, *folder.rglob("*")):
            os.chown(each, USER, USER)
        yield folder


def test_of_this_user(folder: Path) -> None:
    file = folder / "a" / "b" / "file"
    assert _core.trusted_path(file) == file
    assert _core.trusted_text(file) == b"text"
    assert _core.trusted_path(folder / "a") == folder / "a"
    assert _core.trusted_path(folder / "a" / "none" / "file") is None
    assert _core.trusted_text(folder / "none") is None


def test_of_root() -> None:
    """As what a site has installed."""
    assert _core.trusted_path("/etc/passwd") == Path("/etc/passwd")


def test_names_are_taken_as_the_system_takes_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder / "a")
    assert _core.trusted_path("b/.././b//file") == folder / "a" / "b" / "file"
    with pytest.raises(UsageError, match="file: Not a directory"):
        _core.trusted_path("b/file/x")


@pytest.mark.parametrize("who", ["a/b/file", "a/b", "a"])
@pytest.mark.parametrize("mode", [0o777, 0o722])
def test_what_every_user_may_write_to_is_named(folder: Path, who: str, mode: int) -> None:
    (folder / who).chmod(mode)
    words = re.escape(
        f"every user may write to {folder / who}, so what lies there is not trusted: nobody but you and root"
    )
    for door in (_core.trusted_path, _core.trusted_text):
        with pytest.raises(UsageError, match=words):
            door(folder / "a" / "b" / "file")
    with pytest.raises(UsageError, match="every user"):
        _core.trusted_path(folder / "a" / "b" / "file" if who.endswith("file") else folder / who / "none")


def test_in_a_folder_where_only_owners_move_entries(folder: Path) -> None:
    """As /tmp."""
    (folder / "a").chmod(0o1777)
    assert _core.trusted_text(folder / "a" / "b" / "file") == b"text"


def test_links_are_followed_and_what_they_lead_to_is_judged(folder: Path) -> None:
    (folder / "whole").symlink_to(folder / "a")
    (folder / "a" / "part").symlink_to("b/../b/file")
    (folder / "a" / "gone").symlink_to("nowhere")
    file = folder / "a" / "b" / "file"
    assert _core.trusted_path(folder / "whole" / "part") == file
    assert _core.trusted_path(folder / "whole" / "gone") is None
    (folder / "a" / "b").chmod(0o777)
    with pytest.raises(UsageError, match=f"every user may write to {folder}/a/b,"):
        _core.trusted_path(folder / "whole" / "part")
    (folder / "x").symlink_to("x")
    with pytest.raises(UsageError, match="Too many levels of symbolic links"):
        _core.trusted_path(folder / "x")


def test_what_is_no_file_holds_nobody_up(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    for name, words in (("pipe", "is no ordinary file"), ("a", "Is a directory")):
        with pytest.raises(UsageError, match=words):
            _core.trusted_text(folder / name)


def test_folders_are_made_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        _core.make_private(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o7777 for path in (tmp_path / "a", tmp_path / "a" / "b")] == [0o700] * 2
    (tmp_path / "a").chmod(0o755)
    _core.make_private(tmp_path / "a" / "b")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o755, "one that is there stays as it is"


def test_nothing_is_made_where_it_would_not_be_trusted(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(UsageError, match="every user may write"):
        _core.make_private(tmp_path / "a")
    assert not list(tmp_path.iterdir())
    tmp_path.chmod(0o700)
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "a"):
        with pytest.raises(UsageError, match="Not a directory"):
            _core.make_private(path)


def test_threads_may_make_one_folder(tmp_path: Path) -> None:
    threads = [threading.Thread(target=_core.make_private, args=(tmp_path / "a" / "b" / "c",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "a" / "b" / "c").is_dir()


@pytest.mark.parametrize("who", ["a/b/file", "a/b", "a", "."])
def test_of_another_user(shared: Path, who: str) -> None:
    os.chown(shared / who, STRANGER, -1)
    said = other_users.run(DOOR, shared / "a" / "b" / "file")
    assert said == f"{(shared / who).resolve()} belongs to user {STRANGER}\n"


def test_a_link_of_another_user_leads_nowhere(shared: Path) -> None:
    """In a sticky folder its owner may turn it."""
    (shared / "link").symlink_to(shared / "a")
    assert other_users.run(DOOR, shared / "link" / "b" / "file") == f"{shared}/a/b/file\n", "root's is as good"
    os.lchown(shared / "link", STRANGER, STRANGER)
    assert other_users.run(DOOR, shared / "link" / "b" / "file") == f"{shared}/link belongs to user {STRANGER}\n"


def test_a_group_is_others_unless_it_is_private(shared: Path) -> None:
    (shared / "a").chmod(0o775)
    file, refused = shared / "a" / "b" / "file", f"group {USER} (ada) may write to {shared}/a\n"
    trusted, own = f"{file}\n", f"ada:x:{USER}:"
    assert other_users.run(DOOR, file, home="/nowhere", groups=own) == trusted
    assert other_users.run(DOOR, file, home="/nowhere", groups=f"{own}ada") == trusted
    assert other_users.run(DOOR, file, home="/nowhere", groups=f"{own}ada,bob") == refused
    assert other_users.run(DOOR, file, home="/nowhere") == f"group {USER} may write to {shared}/a\n"
    assert other_users.run(DOOR, file) == f"group {USER} may write to {shared}/a\n", "a user without a name"
    os.chown(shared / "a", USER, TEAM)
    team = f"{own}\nteam:x:{TEAM}:ada\n"
    assert other_users.run(DOOR, file, home="/nowhere", groups=team) == f"group {TEAM} (team) may write to {shared}/a\n"
    os.chown(shared / "a", USER, 0)
    assert other_users.run(DOOR, file, home="/nowhere") == trusted, "the group of root"


def test_what_is_above_the_home_is_the_sites_affair(shared: Path) -> None:
    os.chown(shared, STRANGER, TEAM)
    shared.chmod(0o777)
    file = shared / "a" / "b" / "file"
    assert other_users.run(DOOR, file, home=f"{shared}/a") == f"{file}\n"
    assert other_users.run(DOOR, file, home=f"{shared}/c") == f"{shared} belongs to user {STRANGER}\n"
    # But a link that somebody else may turn does not lead home.
    (shared / "link").symlink_to(shared / "a")
    assert other_users.run(DOOR, shared / "link/b/file", home=f"{shared}/a") == f"{shared} belongs to user {STRANGER}\n"
    (shared / "a").chmod(0o777)
    assert other_users.run(DOOR, file, home=f"{shared}/a") == f"every user may write to {shared}/a\n"


def test_in_a_user_namespace_roots_folders_have_no_name(shared: Path) -> None:
    """As in a container without root: / and /tmp belong to nobody, who cannot have written this user's file."""
    within = (
        f"from lanecast import _core\nfrom lanecast.cluster import namespaces\nnamespaces.become_root_of_own()\n{DOOR}"
    )
    file = shared / "a" / "b" / "file"
    assert other_users.run(within, file, "/tmp") == f"{file}\n/tmp\n"
    os.chown(file, STRANGER, -1)
    assert "belongs to user 65534" in other_users.run(within, file)
