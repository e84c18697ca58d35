# SPDX-License-Identifier: Apache-2.0
"""Scripts run as another user, with lists of users and groups of their own; only root can do so."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

USER, STRANGER, TEAM = 47110, 47111, 47112  # nobody has these numbers

_AS_USER = """
mount --bind "$1" /etc/passwd && mount --bind "$2" /etc/group || exit 99
id=$3; shift 3; exec setpriv --reuid "$id" --regid "$id" --clear-groups "$@"
"""


def run(script: str, *arguments: str | Path, home: str = "", groups: str = "") -> str:
    """What a Python script prints that runs as USER, whose name is ada. home: without one it has no name at all.

    groups: lines of /etc/group.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        passwd, group = Path(folder) / "passwd", Path(folder) / "group"
        root = "root:x:0:0:root:/root:/bin/sh\n"
        passwd.write_text(root + (f"ada:x:{USER}:{USER}::{home}:/bin/sh\n" if home else ""))
        group.write_text("root:x:0:\n" + groups)
        command = ["unshare", "-m", "sh", "-c", _AS_USER, "sh", str(passwd), str(group), str(USER)]
        done = subprocess.run(
            [*command, sys.executable, "-c", script, *map(str, arguments)],
            env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True, text=True, check=False, cwd="/",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.cache
def _possible() -> bool:
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("setpriv"):
        return False
    try:
        run("import lanecast")
    except AssertionError:
        return False
    return True


def needs_root() -> None:
    """Skip where no other user can be played."""
    if not _possible():
        pytest.skip("only root, where it may make mount namespaces, can play other users")


def shared_folder() -> tempfile.TemporaryDirectory[str]:
    """One that every user can reach, which those of pytest are not."""
    found = tempfile.TemporaryDirectory(dir="/tmp")
    Path(found.name).chmod(0o755)
    return found
