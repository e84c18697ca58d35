# SPDX-License-Identifier: Apache-2.0
"""How much memory communicators of one host take, when, and what happens where there is none."""

from __future__ import annotations

import contextlib
import errno
import functools
import gc
import os
import platform
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import lanecast
from forbidding import forbid
from lanecast import _core
from open_files import open_files
from ranks import Rank, in_processes

MIB = 1 << 20
FEW_FILES = 16  # beyond those that a process has open anyway


def communicator(me: Rank) -> lanecast.Communicator:
    return lanecast.from_all_gather(me.rank, me.size, me.all_gather, transports="shm", profile="none")


def taken(me: Rank) -> int:
    """Bytes of Lanecast's shared memory in all ranks together, each page once: their proportional shares."""
    me.barrier()
    here = 0
    counts = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            counts = "memfd:lanecast" in line
        elif counts and line.startswith("Pss:"):
            here += int(line.split()[1]) * 1024
    shares = me.all_gather(here.to_bytes(8, "little"))
    me.barrier()
    return sum(int.from_bytes(shares[8 * rank : 8 * rank + 8], "little") for rank in range(me.size))


def reserved_addresses() -> int:
    """Bytes of Lanecast's shared memory that this process has mapped: what all ranks together can ever take."""
    found = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "memfd:lanecast" in line:
            begin, end = line.split()[0].split("-")
            found += int(end, 16) - int(begin, 16)
    return found


def use(comm: lanecast.Communicator, elements: int) -> None:
    """Every pair talks, of long messages as well as short ones."""
    mine = np.full(elements * comm.size, comm.rank + 1, np.float32)
    everybody = np.repeat(np.arange(1, comm.size + 1, dtype=np.float32), elements)
    out = np.empty_like(mine)
    comm.all_to_all_single(out, mine)
    assert np.array_equal(out, everybody)
    comm.all_gather_into_tensor(out, mine[:elements].copy())
    assert np.array_equal(out, everybody)
    comm.all_reduce(mine)
    assert np.all(mine == comm.size * (comm.size + 1) / 2)
    for root in range(comm.size):
        mine[:] = comm.rank
        comm.broadcast(mine, root)
        assert np.all(mine == root)


def use_until_refused(comm: lanecast.Communicator, elements: int) -> str:
    try:
        for _ in range(3):
            use(comm, elements)
    except lanecast.TransportError as error:
        return str(error)
    raise AssertionError("no error")


def _before_and_in_use(me: Rank) -> tuple[int, int, int, int]:
    comm = communicator(me)
    at_most = reserved_addresses()
    before = taken(me)
    comm.barrier()
    after_barrier = taken(me)
    use(comm, 2 if me.size > 8 else 4096)
    use(comm, 2 if me.size > 8 else 1 << 20)
    return before, after_barrier, taken(me), at_most


BOARDS = 12 << 10  # of a rank
LANE = 8 << 10  # from one rank to another, of few short messages
WHOLE_LANE = (4 + 256) << 10  # of many, among 4 ranks


@pytest.mark.parametrize(("ranks", "bound_mib"), [(2, 1.1), (4, 7.2), (8, 8), (9, 24), (16, 70), (32, 84)])
def test_memory_is_taken_as_ranks_talk(ranks: int, bound_mib: float) -> None:
    before, after_barrier, in_use, at_most = in_processes(ranks, _before_and_in_use)[0]
    assert before <= ranks * BOARDS + 2 * (ranks - 1) * LANE <= MIB, "rank 0 has told the others its profile"
    all_pairs = ranks * BOARDS + ranks * (ranks - 1) * LANE
    assert after_barrier <= all_pairs
    assert in_use <= max(8 * MIB, all_pairs)
    assert at_most <= bound_mib * MIB


def use_little(comm: lanecast.Communicator | None) -> None:
    assert comm is not None
    use(comm, 1)


def _many_splits(me: Rank) -> tuple[int, int, int]:
    comm = communicator(me)
    files = open_files()
    children = [comm.split(0, me.rank) for _ in range(200)]
    before = taken(me)
    list(map(use_little, children))
    used = taken(me)
    assert open_files() <= files + FEW_FILES
    children.clear()
    gc.collect()
    use_little(comm)
    return before, used, taken(me)


def test_two_hundred_splits_take_little() -> None:
    before, used, left = in_processes(4, _many_splits)[0]
    of_parent = 4 * BOARDS + 12 * WHOLE_LANE
    assert before <= of_parent + 200 * 4 * BOARDS
    assert used <= of_parent + 200 * (4 * BOARDS + 12 * LANE)
    assert left <= of_parent, "closed communicators keep memory"


MADVISE = {"x86_64": 28, "aarch64": 233}.get(platform.machine(), -1)
POPULATE_WRITE = 23
needs_numbers = pytest.mark.skipif(MADVISE < 0, reason="no number of the system call is known here")


def _none_left_at_first_talk(me: Rank) -> str:
    comm = communicator(me)
    if me.rank == 1:
        forbid(MADVISE, errno.EFAULT, POPULATE_WRITE)  # what it says where an access would end in SIGBUS
    return use_until_refused(comm, 4096)


@needs_numbers
@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_no_memory_when_ranks_first_talk_is_named_on_every_rank(ranks: int) -> None:
    for text in in_processes(ranks, _none_left_at_first_talk):
        assert re.search(
            r"rank 1 cannot exchange messages with rank \d: cannot reserve \d+ bytes of shared memory: "
            r"the host has none left; free memory or raise the limit",
            text,
        ), text


def _no_more_for_long_messages(me: Rank) -> str:
    comm = communicator(me)
    use(comm, 2)
    if me.rank == 1:
        forbid(MADVISE, errno.EFAULT, POPULATE_WRITE)
    return use_until_refused(comm, 1 << 18)


@needs_numbers
@pytest.mark.parametrize("ranks", [2, 3])
def test_no_memory_for_longer_messages_is_named_on_every_rank(ranks: int) -> None:
    for text in in_processes(ranks, _no_more_for_long_messages):
        assert re.search(r"rank 1 cannot exchange messages with rank \d: cannot reserve \d+ bytes", text), text


def _on_an_older_kernel(me: Rank) -> int:
    forbid(MADVISE, errno.EINVAL, POPULATE_WRITE)
    comm = communicator(me)
    use(comm, 1 << 16)
    # The memory is charged, so that a host without any refuses; here a limit of files' sizes stands for that.
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    return taken(me)


@needs_numbers
@pytest.mark.parametrize("ranks", [2, 3])
def test_before_linux_5_14_memory_is_reserved_by_the_file(ranks: int) -> None:
    assert 0 < in_processes(ranks, _on_an_older_kernel)[0] <= 8 * MIB


def _limited(limit: int, me: Rank) -> str:
    """The error where rank 1 is at a limit of its own."""
    soft, hard = resource.getrlimit(limit)
    held = []
    if me.rank == 1 and limit == resource.RLIMIT_NOFILE:
        resource.setrlimit(limit, (64, hard))
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
    elif me.rank == 1:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(limit, (pages * resource.getpagesize() + MIB // 2, hard))
    try:
        _core.open_shm(me.rank, me.size, me.all_gather, list(range(me.size)), {})
    except _core.TransportError as error:
        return str(error)
    finally:
        resource.setrlimit(limit, (soft, hard))
        for file in held:
            os.close(file)
    return "no error"


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        (resource.RLIMIT_NOFILE, r"Too many open files; .* raise the limit \(ulimit -n\)"),
        (
            resource.RLIMIT_AS,
            r"cannot map \d{7} bytes of shared memory: .*, or raise the limit of address space \(ulimit -v\)",
        ),
    ],
    ids=["files", "addresses"],
)
def test_limits_of_a_process_are_named_on_every_rank(limit: int, told: str) -> None:
    for text in in_processes(3, functools.partial(_limited, limit)):
        assert re.search("shared memory cannot be set up on rank 1: .*" + told, text), text


def own_groups() -> list[str]:
    cgroup, mounts = (Path("/proc/self", name).read_text() for name in ("cgroup", "mountinfo"))
    return _core.memory_groups(cgroup, mounts)


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A memory cgroup of 256 MiB, where this process may make one."""
    for folder in own_groups():
        group = Path(folder, f"lanecast-test-{os.getpid()}")
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            for name in ("memory.max", "memory.limit_in_bytes"):
                if (group / name).exists():
                    (group / name).write_text(str(256 * MIB))
                    yield group
                    return
        finally:
            end = time.monotonic() + 10  # its processes have ended, which the kernel may notice a moment later
            while (group / "cgroup.procs").read_text() and time.monotonic() < end:
                time.sleep(0.01)
            group.rmdir()
    pytest.skip("needs to make a memory cgroup")


def _until_the_group_is_full(group: str, me: Rank) -> str:
    Path(group, "cgroup.procs").write_text(str(os.getpid()))
    comm = communicator(me)
    children: list[lanecast.Communicator] = []
    text = ""
    while not text:
        assert len(children) < 500, "no error"
        try:
            child = comm.split(0, me.rank)
            assert child is not None
            children.append(child)
            use(child, 1 << 16)
        except lanecast.TransportError as error:
            text = str(error)
    assert len(children) > 16
    return text


def test_the_limit_of_a_control_group_is_an_error_on_every_rank(small_group: Path) -> None:
    for text in in_processes(4, functools.partial(_until_the_group_is_full, str(small_group))):
        assert re.search(r"cannot reserve \d+ bytes of shared memory: the memory cgroup .* MiB left of 256 MiB", text)
        assert "raise its limit (memory." in text


def job_script(folder: Path, ranks: int) -> Path:
    script = folder / "job.py"
    script.write_text(
        "from test_shm_memory import communicator, use\n"
        "from ranks import in_processes\n"
        "def main(me):\n    use(communicator(me), 1 << 14)\n"
        f"if __name__ == '__main__':\n    in_processes({ranks}, main)\n"
    )
    return script


def run_script(shell: list[str], script: Path) -> None:
    here = str(Path(__file__).parent)
    environment = os.environ | {"PYTHONPATH": f"{here}:{os.environ.get('PYTHONPATH', '')}"}
    command = [*shell, sys.executable, str(script)]
    job = subprocess.run(command, capture_output=True, env=environment, cwd=here, text=True, timeout=240, check=False)
    assert job.returncode == 0, job.stderr


def test_a_full_dev_shm_does_not_matter(tmp_path: Path) -> None:
    mount = "mount -t tmpfs -o size=4k tmpfs /dev/shm && head -c 4096 /dev/zero >/dev/shm/full"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs to mount a small /dev/shm")
    run_script(["unshare", "-m", "sh", "-c", f'{mount} && exec "$0" "$1"'], job_script(tmp_path, 3))


def test_vm_memfd_noexec_does_not_matter(tmp_path: Path) -> None:
    """Where it is 2, memory that might be executed is refused; it can be set for a pid namespace alone."""
    script = job_script(tmp_path, 2)
    setting = "echo 2 >/proc/sys/vm/memfd_noexec"
    in_namespace = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c"]
    if subprocess.run([*in_namespace, setting], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs a pid namespace, and Linux 6.3")
    run_script([*in_namespace, f'{setting} && exec "$0" "$1"'], script)
