# SPDX-License-Identifier: Apache-2.0
"""What memory is left, by the files of control groups and of the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from lanecast import _core

MIB = 1 << 20
MEMINFO = "MemTotal:  1000000 kB\nMemAvailable: {} kB\nSwapFree: {} kB\n"


@pytest.mark.parametrize("version", [1, 2])
def test_what_a_group_has_left(version: int, tmp_path: Path) -> None:
    limit, used = (
        ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    )
    total = "total_" if version == 1 else ""
    files = {limit: f"{64 * MIB}\n", used: f"{60 * MIB}\n"}
    swap = "memory.swap.max" if version == 2 else "memory.memsw.limit_in_bytes"
    swap_used = "memory.swap.current" if version == 2 else "memory.memsw.usage_in_bytes"

    def shortage(wanted: int, meminfo: str = MEMINFO.format(900000, 0), **more: str) -> str:
        for name, text in (files | more).items():
            (tmp_path / name).write_text(text)
        return _core.memory_shortage(wanted, [str(tmp_path)], meminfo)

    assert not shortage(1 * MIB)  # and 2 MiB are kept
    assert shortage(3 * MIB) == (
        f"the memory cgroup {tmp_path} has 4 MiB left of 64 MiB; raise its limit ({limit}), or use fewer or smaller "
        "communicators"
    )
    cached = {"memory.stat": f"anon 5\n{total}inactive_file {MIB}\n{total}active_file {2 * MIB}\nfile_dirty 9\n"}
    assert not shortage(3 * MIB, **cached), "copies of files are dropped first"
    assert "7 MiB left" in shortage(9 * MIB, **cached)
    swapping = MEMINFO.format(900000, 100 * 1024)
    assert not shortage(9 * MIB, swapping), "no limit of swap is known"
    none = {swap: "0\n" if version == 2 else f"{64 * MIB}\n", swap_used: "0\n" if version == 2 else f"{60 * MIB}\n"}
    assert "7 MiB left" in shortage(9 * MIB, swapping, **none)
    unlimited = "max\n" if version == 2 else "9223372036854771712\n"
    assert not shortage(9 * MIB, **{limit: unlimited})
    assert "this host has 9 MiB of memory left; end other programs" in shortage(
        9 * MIB, MEMINFO.format(9 * 1024, 0), **{limit: unlimited}
    )
    assert not _core.memory_shortage(1, [str(tmp_path / "absent")], "")


UNIFIED = "36 31 0:33 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
SPLIT = (
    "35 31 0:32 / /cg/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
    "36 31 0:33 / /cg/cpu rw - cgroup c rw,cpu\n"
)


@pytest.mark.parametrize(
    ("cgroup", "mounts", "expected"),
    [
        ("0::/a/b\n", UNIFIED, ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]),
        ("0::/\n", UNIFIED, ["/sys/fs/cgroup"]),
        ("3:cpu:/x\n4:memory:/job\n0::/\n", SPLIT, ["/cg/memory/job", "/cg/memory"]),
        # A container that sees its own group alone, as docker has them in version 1.
        ("4:memory:/docker/1\n", SPLIT.replace("0:32 /", "0:32 /docker/1"), ["/cg/memory"]),
        ("4:memory:/docker/1/x\n", SPLIT.replace("0:32 /", "0:32 /docker/1"), ["/cg/memory/x", "/cg/memory"]),
        ("4:memory:/elsewhere\n", SPLIT.replace("0:32 /", "0:32 /docker/1"), ["/cg/memory"]),
        ("", UNIFIED, []),
        ("0::/a\n", "", []),
    ],
)
def test_which_groups_count_a_process(cgroup: str, mounts: str, expected: list[str]) -> None:
    assert _core.memory_groups(cgroup, mounts) == expected
