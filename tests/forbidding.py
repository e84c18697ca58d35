# SPDX-License-Identifier: Apache-2.0
"""Refuse this process a system call, as containers, sandboxes and old kernels do."""

from __future__ import annotations

import ctypes
import errno
import struct


def forbid(system_call: int, error: int = errno.EPERM, third_argument: int | None = None) -> None:
    """From now on it fails with that error in this process, for good; only with that argument, if there is one."""
    load, equal, ret = 0x20, 0x15, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | error
    number_at, third_at = 0, 16 + 2 * 8
    checks = [(number_at, system_call), *([] if third_argument is None else [(third_at, third_argument)])]
    lines: list[tuple[int, int, int, int]] = []
    for k, (offset, value) in enumerate(checks):
        to_allow = 2 * (len(checks) - k - 1) + 1
        lines += [(load, 0, 0, offset), (equal, 0, to_allow, value)]
    lines += [(ret, 0, 0, refuse), (ret, 0, 0, allow)]
    program = b"".join(struct.pack("HBBI", *line) for line in lines)

    class Filter(ctypes.Structure):
        _fields_ = (("lines", ctypes.c_ushort), ("program", ctypes.c_char_p))

    set_no_new_privileges, set_seccomp, by_filter = 38, 22, 2
    prctl = ctypes.CDLL(None).prctl
    assert prctl(set_no_new_privileges, 1, 0, 0, 0) == 0
    assert prctl(set_seccomp, by_filter, ctypes.byref(Filter(len(lines), program))) == 0
