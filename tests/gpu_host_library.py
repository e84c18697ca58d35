# SPDX-License-Identifier: Apache-2.0
"""A driver without a GPU, and the kernels compiled for the CPU: tests/gpu_host, built when a source has changed.

It stands in for libcuda.so.1, NVRTC and NCCL, and under their names for HIP and hipRTC: memory is the host's, streams
are threads, blocks of a kernel run beside each other.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"
BUILD = HERE.parent / "build" / "gpu_host"
KERNELS = SOURCE / "device" / "gpu" / "kernels"
SMALLER = {
    "arguments.h": {
        "kMovers": 16, "kCopySenders": 8, "kReduceSenders": 6, "kTwoShotSenders": 5, "kTwoShotReducers": 6,
        "kSlotBytes": 128, "kMostBlocks": 4, "kTile": 16, "kStageBytes": 512, "kAdders": 32, "kAdderGroups": 2,
    },
    "message_arguments.h": {"kMessageThreads": 80, "kMessageBlocks": 2, "kMessageSlots": 6, "kShortestPiece": 32,
        "kCarriedSlots": 40, "kStagedSlots": 20, "kCarriedBlocks": 2, "kLongestParcel": 8, "kCarriedSlotBytes": 64},
    "program_arguments.h": {"kPutters": 8, "kTakers": 16},
}  # of a program's kernels  # fmt: skip
FLAGS = ("-std=c++20", "-ffp-contract=off", "-fno-strict-aliasing", "-Wno-unknown-pragmas", "-pthread")


NAMED = [SOURCE / "device/gpu" / name for name in ("driver.h", "compiler.h")]


def twins() -> list[tuple[str, str]]:
    """What the library calls with NVIDIA's driver and compiler, and by which name with AMD's."""
    text = "".join(path.read_text() for path in NAMED)
    return re.findall(r"\b(?:required|call)\(\s*\"(\w+)\",\s*\"(\w+)\"\)", text)


def _sources() -> list[Path]:
    ours = [path for path in (HERE / "gpu_host").rglob("*") if path.is_file()]
    return sorted([*ours, *KERNELS.iterdir(), *NAMED, Path(__file__)])  # this one has the values of SMALLER


def _built(build: Callable[[Path], None], *names: str) -> Path:
    """The last of the files that build(folder) makes and that are kept; again only when a source has changed."""
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(path.read_bytes())
    folder = BUILD / digest.hexdigest()[:16]
    last = folder / names[-1]
    if last.exists():
        return last
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{names[-1]}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # it takes a minute: who else needs it waits
        if not last.exists():
            with tempfile.TemporaryDirectory(dir=folder) as temporary:
                build(Path(temporary))
                for name in names:
                    (Path(temporary) / name).rename(folder / name)
    return last


def _compile(source: str, into: Path, *flags: str) -> str:
    command = ["g++", *FLAGS, *flags, f"-I{HERE / 'gpu_host'}", f"-I{SOURCE}", "-c", str(HERE / "gpu_host" / source)]
    subprocess.run([*command, "-o", str(into)], check=True)
    return str(into)


@functools.cache
def library() -> Path:
    def build(folder: Path) -> None:
        # It passes for machine code: an ELF file with a section for each kernel.
        code = _compile("kernels.cpp", folder / "kernels.o", "-O2", "-fPIC", "-ffunction-sections")
        others = [
            _compile(path.name, folder / f"{path.stem}.o", "-O2", "-fPIC")
            for path in (HERE / "gpu_host").glob("*.cpp")
            if path.name != "kernels.cpp"
        ]
        own = (HERE / "gpu_host" / "hip.cpp").read_text()
        names = [f"-Wl,--defsym={hip}={cuda}" for cuda, hip in twins() if f" {hip}(" not in own]
        command = ["g++", "-shared", code, *others, *names, "-ldl", "-pthread"]
        subprocess.run([*command, "-o", str(folder / "libgpu_host.so")], check=True)

    return _built(build, "kernels.o", "libgpu_host.so")


def _smaller(folder: Path) -> str:
    """The flag with which the compiler finds sizes that are smaller than on a GPU, which then lie in the folder."""
    small = folder / "small" / "device" / "gpu" / "kernels"
    small.mkdir(parents=True)
    for file, values in SMALLER.items():
        text = (KERNELS / file).read_text()
        for constant, value in values.items():
            text, found = re.subn(rf"\b{constant} = \d+;", f"{constant} = {value};", text)
            assert found == 1, constant
        (small / file).write_text(text)
    return f"-I{folder / 'small'}"


def _flags(sanitized: bool) -> tuple[str, ...]:
    return ("-O1", "-g", *(("-fsanitize=thread", "-Wno-tsan") if sanitized else ()))


def _parts(sanitized: bool) -> list[str]:
    """What all programs consist of."""
    ending = "-sanitized.o" if sanitized else "-small.o"
    names = [f"{part}{ending}" for part in ("block", "bulk", "kernels")]

    def build(folder: Path) -> None:
        block, bulk, kernels = (folder / name for name in names)
        # What takes turns is no part of what is looked at, and tells the sanitizer who has waited for whom.
        turns = ("-O1", *(("-DGPU_HOST_TSAN",) if sanitized else ()))
        _compile("block.cpp", block, *turns)
        _compile("bulk.cpp", bulk, *turns)
        _compile("kernels.cpp", kernels, _smaller(folder), *_flags(sanitized))

    last = _built(build, *names)
    return [str(last.parent / name) for name in names]


def program(name: str, *, sanitized: bool = False) -> Path:
    """A program of tests/gpu_host/programs, with kernels of fewer threads and smaller slots than on a GPU."""

    def build(folder: Path) -> None:
        own = _compile(f"programs/{name}.cpp", folder / f"{name}.o", _smaller(folder), *_flags(sanitized))
        last = ("-fsanitize=thread",) if sanitized else ()
        command = ["g++", *last, own, *parts, "-rdynamic", "-ldl", "-pthread", "-o", str(folder / target)]
        subprocess.run(command, check=True)

    parts, target = _parts(sanitized), f"{name}-sanitized" if sanitized else name
    return _built(build, target)


def watched_calls() -> list[str]:
    """What the library calls of NVIDIA's driver, and this one has."""
    text = (SOURCE / "device/gpu/driver.h").read_text()
    called = set(re.findall(r"\b(?:required|optional|cuda)\(\s*\"(cu\w+)\"", text))
    return sorted(name for name in called if hasattr(opened(), name))


# A call goes through a function of ours first, and on with its arguments as they are.
_THROUGH = """
.globl {name}
.type {name}, @function
{name}:
  push %rdi
  push %rsi
  push %rdx
  push %rcx
  push %r8
  push %r9
  push %rax
  mov ${number}, %edi
  call gpu_watched_enter@PLT
  pop %rax
  pop %r9
  pop %r8
  pop %rcx
  pop %rdx
  pop %rsi
  pop %rdi
  mov gpu_watched_real@GOTPCREL(%rip), %r11
  jmp *{place}(%r11)
"""


@functools.cache
def watched_library() -> Path:
    """library() behind one that counts the calls of each thread, and has a lock as CUDA's driver has; on x86-64."""

    def build(folder: Path) -> None:
        names = watched_calls()
        through = [_THROUGH.format(name=name, number=k, place=8 * k) for k, name in enumerate(names)]
        (folder / "through.s").write_text(".text\n" + "".join(through) + '.section .note.GNU-stack,"",@progbits\n')
        listed = ", ".join(f'"{name}"' for name in names)
        (folder / "names.cpp").write_text(
            f'extern "C" {{ extern const char* const gpu_watched_names[] = {{{listed}}}; void* gpu_watched_real'
            f"[{len(names)}]; extern const unsigned gpu_watched_count = {len(names)}; }}\n"
        )
        sources = [str(folder / "through.s"), str(folder / "names.cpp"), str(HERE / "gpu_host/watched/watched.cpp")]
        flags = [*FLAGS, "-O1", "-fPIC", "-shared", f'-DGPU_HOST_PATH="{library()}"']
        subprocess.run(["g++", *flags, *sources, "-ldl", "-o", str(folder / "libgpu_watched.so")], check=True)

    return _built(build, "libgpu_watched.so")


class Watched:
    """That library in this process, which has opened it as its driver."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(watched_library()))
        self._library.gpu_watched_calls.restype = ctypes.c_char_p

    def load_a_kernel(self, most_s: float) -> bool:
        """As a kernel's first launch does it: with the driver's lock, when the device has nothing to do. Is it so far
        before the deadline?"""
        return bool(self._library.gpu_watched_load(int(most_s * 1e3)))

    def is_held(self) -> bool:
        """Does somebody load one now?"""
        return bool(self._library.gpu_watched_is_held())

    def reset(self) -> None:
        self._library.gpu_watched_reset()

    def calls(self) -> dict[int, list[str]]:
        """Of each thread since then."""
        found: dict[int, list[str]] = {}
        for line in self._library.gpu_watched_calls().decode().splitlines():
            thread, name, count = line.split()
            found.setdefault(int(thread), []).append(f"{name} {count} times")
        return found


# Of 64 blocks, each a thread of the host with hundreds of stacks; more than one, and no divisor of much.
FEW_BLOCKS = {"LANECAST_MAX_CTAS": "3"}


def environment() -> dict[str, str]:
    """With which a process takes it for NVIDIA's driver and compiler, and for NCCL."""
    names = ("CUDA", "NVRTC", "NCCL")
    libraries = {f"LANECAST_{name}_LIBRARY": str(library()) for name in names}
    # No machine code that came with this installation, which is a GPU's.
    return {**libraries, "LANECAST_KERNEL_FOLDER": str(BUILD / "no-kernels"), **FEW_BLOCKS}


def hip_environment() -> dict[str, str]:
    """With which a process takes it for AMD's."""
    return {"LANECAST_HIP_LIBRARY": str(library()), "LANECAST_HIPRTC_LIBRARY": str(library()), **FEW_BLOCKS}


@functools.cache
def opened() -> ctypes.CDLL:
    """The driver of this process, for questions that a GPU's would not answer."""
    driver = ctypes.CDLL(str(library()))
    driver.gpu_host_held.restype = ctypes.c_char_p
    return driver


def held() -> str:
    """What has been taken from the driver and not been given back."""
    text: bytes = opened().gpu_host_held()
    return text.decode()


def nccl_held() -> int:
    """Communicators of NCCL's that have not been given back."""
    return int(opened().gpu_host_nccl_held())


def nccl_calls() -> int:
    """Collectives that NCCL has enqueued."""
    return int(opened().gpu_host_nccl_calls())


def costs(kernel_us: float, nccl_us: float) -> None:
    """What kernels and NCCL's collectives take from now on, by the clock of events."""
    opened().gpu_host_costs(ctypes.c_double(kernel_us), ctypes.c_double(nccl_us))


@contextlib.contextmanager
def entered(ordinal: int) -> Iterator[ctypes.CDLL]:
    driver, context = opened(), ctypes.c_void_p()
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), ordinal) == 0
    assert driver.cuCtxPushCurrent_v2(context) == 0
    try:
        yield driver
    finally:
        driver.cuCtxPopCurrent_v2(ctypes.byref(context))
        driver.cuDevicePrimaryCtxRelease_v2(ordinal)


@contextlib.contextmanager
def held_up(ordinal: int, stream: int = 0) -> Iterator[None]:
    """Nothing that is enqueued meanwhile on a stream of a GPU, by itself the default one, runs before the end."""
    word = ctypes.c_uint32(0)
    with entered(ordinal):  # for calls of the driver's in between
        wait_for_one(ordinal, stream, word)
        try:
            yield
        finally:
            word.value = 1
            synchronize(ordinal, stream)


def wait_for_one(ordinal: int, stream: int, word: ctypes.c_uint32) -> None:
    """The stream goes on when it is 1."""
    address, equal = ctypes.c_uint64(ctypes.addressof(word)), ctypes.c_uint(1)
    with entered(ordinal) as driver:
        assert driver.cuStreamWaitValue32_v2(ctypes.c_void_p(stream), address, ctypes.c_uint32(1), equal) == 0


class Event:
    """Of a GPU, for as long as the process."""

    def __init__(self, ordinal: int) -> None:
        self._ordinal, self._handle = ordinal, ctypes.c_void_p()
        with entered(ordinal) as driver:
            assert driver.cuEventCreate(ctypes.byref(self._handle), 0) == 0

    def record(self, stream: int) -> None:
        with entered(self._ordinal) as driver:
            assert driver.cuEventRecord(self._handle, ctypes.c_void_p(stream)) == 0

    def hold(self, stream: int) -> None:
        """What the stream does from now on comes after what is recorded."""
        with entered(self._ordinal) as driver:
            assert driver.cuStreamWaitEvent(ctypes.c_void_p(stream), self._handle, 0) == 0

    def is_reached(self) -> bool:
        return int(opened().cuEventQuery(self._handle)) == 0


def write(ordinal: int, stream: int, word: ctypes.c_uint32) -> None:
    """The stream makes it 1."""
    address = ctypes.c_uint64(ctypes.addressof(word))
    with entered(ordinal) as driver:
        assert driver.cuStreamWriteValue32_v2(ctypes.c_void_p(stream), address, ctypes.c_uint32(1), 0) == 0


def stream(ordinal: int) -> int:
    """Another stream of a GPU, for as long as the process."""
    driver, context, made = opened(), ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), ordinal) == 0
    assert driver.cuCtxPushCurrent_v2(context) == 0
    assert driver.cuStreamCreateWithPriority(ctypes.byref(made), 1, 0) == 0
    assert driver.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0
    return made.value or 0


def memory(ordinal: int, size_bytes: int) -> int:
    """Where memory of a GPU begins, which stays as long as the process; of its bytes only those that are touched take
    any of this machine's, and all but the first are zero."""
    driver, context, begin = opened(), ctypes.c_void_p(), ctypes.c_uint64()
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), ordinal) == 0
    assert driver.cuCtxPushCurrent_v2(context) == 0
    assert driver.cuMemAlloc_v2(ctypes.byref(begin), ctypes.c_size_t(size_bytes)) == 0
    assert driver.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0
    return begin.value


def capture(*, on: bool) -> None:
    """From now on every stream says that it is being captured, or that it is not."""
    opened().gpu_host_capture(int(on))


class Graph:
    """What `calls` enqueue on the default stream of a GPU, captured in CUDA's global mode."""

    def __init__(self, ordinal: int, calls: Callable[[], object]) -> None:
        self._ordinal, self._exec = ordinal, ctypes.c_void_p()
        captured = self._capture(calls)
        with entered(ordinal) as driver:
            assert driver.cuGraphInstantiateWithFlags(ctypes.byref(self._exec), captured, ctypes.c_ulonglong(0)) == 0
            assert driver.cuGraphDestroy(captured) == 0

    def _capture(self, calls: Callable[[], object]) -> ctypes.c_void_p:
        captured = ctypes.c_void_p()
        with entered(self._ordinal) as driver:
            assert driver.cuStreamBeginCapture_v2(None, 0) == 0
            try:
                calls()
            finally:
                assert driver.cuStreamEndCapture(None, ctypes.byref(captured)) == 0
        return captured

    def update(self, calls: Callable[[], object]) -> None:
        """It launches these instead from now on, which are as many."""
        captured = self._capture(calls)
        with entered(self._ordinal) as driver:
            assert driver.cuGraphExecUpdate_v2(self._exec, captured, None) == 0
            assert driver.cuGraphDestroy(captured) == 0

    def launch(self, stream: int = 0) -> None:
        with entered(self._ordinal) as driver:
            assert driver.cuGraphLaunch(self._exec, ctypes.c_void_p(stream)) == 0

    def destroy(self) -> None:
        with entered(self._ordinal) as driver:
            assert driver.cuGraphExecDestroy(self._exec) == 0


def synchronize(ordinal: int, stream: int = 0) -> int:
    """A CUresult."""
    with entered(ordinal) as driver:
        return int(driver.cuStreamSynchronize(ctypes.c_void_p(stream)))


@contextlib.contextmanager
def captured_globally() -> Iterator[None]:
    """Some thread captures meanwhile in CUDA's global mode; fails where another one has asked what spoils that."""
    opened().gpu_host_capture_globally(1)
    try:
        yield
    finally:
        opened().gpu_host_capture_globally(0)
    assert opened().gpu_host_spoilt() == 0


def fail_next(call: str, result: int, after: int = 0) -> None:
    """The next call of this name, or the one after so many others, fails with a CUresult."""
    opened().gpu_host_fail_next(call.encode(), result, after)


def fail_no_more(call: str) -> bool:
    """Takes that back; True where no call has failed for it yet."""
    return bool(opened().gpu_host_fail_no_more(call.encode()))


def slow_next(call: str, ms: int) -> None:
    """The next call of this name takes so much longer."""
    opened().gpu_host_slow_next(call.encode(), ms)


def end_in(call: str, after: int = 0) -> None:
    """This process is killed in its next call of this name, or the one after so many others."""
    opened().gpu_host_end_in(call.encode(), after)


def torn() -> int:
    """How often memory was freed that another process had mapped."""
    return int(opened().gpu_host_torn())
