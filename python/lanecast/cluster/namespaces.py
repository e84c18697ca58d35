# SPDX-License-Identifier: Apache-2.0
"""The system calls that make namespaces and mounts; Python has had them only since 3.12, or not at all."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

NEW = {
    "mnt": 0x00020000, "uts": 0x04000000, "ipc": 0x08000000, "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000,
}  # fmt: skip
_PR_SET_DUMPABLE = 4
BIND, RECURSIVE, PRIVATE = 0x1000, 0x4000, 0x40000

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(*kinds: str) -> None:
    """Move this process into new namespaces of these kinds; a new pid namespace begins with the next child."""
    flags = 0
    for kind in kinds:
        flags |= NEW[kind]
    _checked(_libc.unshare(flags), f"making namespaces ({', '.join(kinds)})")


def mount(source: str, target: str, kind: str = "", flags: int = 0) -> None:
    result = _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None)
    _checked(result, f"mounting {kind or source} on {target}")


def bind_text(text: str, target: str, folder: Path) -> None:
    """Let the file `target` read as `text`, in this mount namespace only; `folder` is on a filesystem of its own."""
    file = folder / "text"
    file.write_text(text)
    mount(str(file), target, flags=BIND)
    file.unlink()


def become_root_of_own() -> None:
    """A user namespace in which this user is root, and may make all other kinds."""
    uid, gid = os.geteuid(), os.getegid()
    unshare("user")
    # Gaining rights has hidden this process from its own user, who is to enter its namespaces.
    _checked(_libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "becoming visible")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
