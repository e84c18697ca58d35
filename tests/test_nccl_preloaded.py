# SPDX-License-Identifier: Apache-2.0
"""liblanecast_nccl.so before programs for NCCL, over a driver and an NCCL that stand in for NVIDIA's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import gpu_host_library
from lanecast import _core
from lanecast.profiles.gpu_profile import save
from launch import PACKAGE, ROOT, STRICT
from test_gpu_tune import profile_for

SHIM = PACKAGE / "liblanecast_nccl.so"
SOURCES = ROOT / "tests" / "c"
pytestmark = pytest.mark.skipif(not SHIM.exists(), reason="liblanecast_nccl.so is for x86-64")


def own_header() -> Path | None:
    """NCCL's, of nvidia-nccl-cu12 or -cu13, or where NCCL_INCLUDE says."""
    if named := os.environ.get("NCCL_INCLUDE"):
        return Path(named)
    spec = find_spec("nvidia")
    places = spec.submodule_search_locations if spec else None
    found = [Path(place) / "nccl/include" for place in places or []]
    return next((place for place in found if (place / "nccl.h").exists()), None)


def program(into: Path, name: str = "nccl_preloaded", *, library: Path | None = None, own: bool = False) -> Path:
    """Linked with an NCCL that stands in for the real one, under the name of its file."""
    library = library or gpu_host_library.library()
    built = into / name
    header = own_header() if own else None
    headers = ["-DNCCL_OWN_HEADER", f"-isystem{header}", f"-isystem{SOURCES / 'cuda'}"] if header else []
    command = ["cc", "-std=c11", "-D_GNU_SOURCE", *STRICT, *headers, f"-I{SOURCES}", str(SOURCES / f"{name}.c")]
    linked = [f"-L{library.parent}", f"-l:{library.name}", f"-Wl,-rpath,{library.parent}", "-ldl"]
    subprocess.run([*command, *linked, "-o", str(built)], check=True)
    return built


def preloaded(**more: str) -> dict[str, str]:
    return {"LD_PRELOAD": str(SHIM), "NCCL_DEBUG": "INFO", **gpu_host_library.environment(), **more}


def outputs(
    built: Path | list[str],
    ranks: int,
    folder: Path,
    *how: str,
    env: dict[str, str],
    of_rank: dict[int, dict[str, str]] | None = None,
) -> list[str]:
    """What each rank says, on both streams; fails the test unless all end with 0.

    built: a program, or the words that start it.
    """
    cache = {"XDG_CACHE_HOME": str(folder / "cache")}
    words = built if isinstance(built, list) else [str(built)]
    processes = [
        subprocess.Popen(
            [*words, str(rank), str(ranks), str(folder / "id"), *how],
            env={**os.environ, **cache, **env, **(of_rank or {}).get(rank, {})},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(ranks)
    ]  # fmt: skip
    said = [process.communicate(timeout=200)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * ranks, "\n".join(said)
    return said


@pytest.mark.timeout(400)  # the first one builds the driver
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_an_unchanged_program(ranks: int, tmp_path: Path) -> None:
    for said in outputs(program(tmp_path), ranks, tmp_path, env=preloaded()):
        if ranks == 1:
            assert "all goes by NCCL: it has one rank" in said
            continue
        assert "collectives and messages go by Lanecast" in said
        for name in ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "AlltoAll", "Gather", "Scatter"):
            assert re.search(rf"rank \d: {name} of 1003 elements .* by Lanecast: .", said), name
        assert re.search(r"Send of 1003 elements .* by Lanecast", said)
        assert re.search(r"AllReduce of 1003 elements .* by NCCL: its operator is the program's own", said)
        assert re.search(r"AllReduce of 1003 elements .* by NCCL: Lanecast has averages of floats alone", said)


@pytest.mark.timeout(400)
@pytest.mark.skipif(own_header() is None, reason="no nccl.h: pip install nvidia-nccl-cu12, or set NCCL_INCLUDE")
def test_compiled_against_the_header_of_nccl(tmp_path: Path) -> None:
    for said in outputs(program(tmp_path, own=True), 2, tmp_path, env=preloaded()):
        assert "collectives and messages go by Lanecast" in said


@pytest.mark.timeout(400)
def test_a_communicator_made_in_a_group(tmp_path: Path) -> None:
    for said in outputs(program(tmp_path), 2, tmp_path, "group", env=preloaded()):
        assert "collectives and messages go by Lanecast" in said


@pytest.mark.timeout(400)
def test_communicators_made_in_one_group_are_left_to_nccl(tmp_path: Path) -> None:
    for said in outputs(program(tmp_path), 2, tmp_path, "two", env=preloaded()):
        assert said.count("all goes by NCCL: it was made in one group with others") == 2
        assert said.count("collectives and messages go by Lanecast") == 0


COPIED = ("Broadcast", "Reduce", "AlltoAll", "Gather", "Scatter")  # NCCL keeps those in windows


@pytest.mark.timeout(400)
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("how", ["windows", "left"])
def test_symmetric_windows_made_in_a_group(ranks: int, how: str, tmp_path: Path) -> None:
    """In memory that NCCL's allocator has mapped, so that peers map it by a file; closed by the program, or by the
    communicator's end."""
    for said in outputs(program(tmp_path), ranks, tmp_path, how, env=preloaded()):
        for name in ("AllReduce", "AllGather", "ReduceScatter"):
            assert re.search(rf"{name} of 1003 elements .*, in symmetric windows by Lanecast: .", said), name
            assert re.search(rf"{name} of [1-9]\d{{5}} elements .*, in symmetric windows by Lanecast: .", said), name
        for name in COPIED:
            assert re.search(rf"{name} of 1003 .* by NCCL: its buffers lie in symmetric windows, where", said), name
        # The peers have mapped the windows by the second long turn, if not in the calls before.
        assert int(re.search(r"(\d+) calls have copied nothing, in windows", said)[1]) in {6, 9}  # type: ignore[index]


@pytest.mark.timeout(400)
def test_windows_that_no_other_process_can_map(tmp_path: Path) -> None:
    for said in outputs(program(tmp_path), 2, tmp_path, "windows", env=preloaded(GPU_HOST_NCCL_UNSHARED="1")):
        assert re.search(r"calls copy what lies in \d+ registered bytes: .*without CU_MEM_HANDLE_TYPE_POSIX_FILE", said)
        assert re.search(r"AllReduce of 1003 elements .*, in symmetric windows by Lanecast: .", said)
        assert "calls have copied nothing" not in said


@pytest.mark.timeout(400)
def test_no_file_is_left_of_windows(tmp_path: Path) -> None:
    outputs(program(tmp_path), 2, tmp_path, "many", env=preloaded())


@pytest.mark.timeout(400)
def test_a_group_of_long_and_short_messages(tmp_path: Path) -> None:
    for said in outputs(program(tmp_path), 2, tmp_path, "long", env=preloaded()):
        assert re.search(r"of 4718593 elements .* by NCCL: it is longer than what the slots hold", said)
        assert re.search(r"of 1835008 elements .* by Lanecast", said)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("of_rank", "reason"),
    [
        ({1: {"LANECAST_NCCL": "0"}}, "all goes by NCCL: rank 1: LANECAST_NCCL=0"),
        ({0: {"LANECAST_NCCL": "yes"}}, "all goes by NCCL: rank 0: LANECAST_NCCL=yes is none of 0, 1 and hosts"),
        ({1: {"LANECAST_HOST": "other"}}, "all goes by NCCL: its ranks are on several hosts"),
        ({1: {"LANECAST_HOST": "other", "LANECAST_NCCL": "hosts"}}, "and rank 0 has no LANECAST_NCCL=hosts"),
        ({0: {"LANECAST_TOPOLOGY": "7x7"}}, "all goes by NCCL: rank 0: "),  # refused while the communicator is made
    ],
)
def test_all_ranks_take_lanecast_or_none(of_rank: dict[int, dict[str, str]], reason: str, tmp_path: Path) -> None:
    for said in outputs(program(tmp_path), 2, tmp_path, env=preloaded(), of_rank=of_rank):
        assert reason in said
        assert "by Lanecast" not in said


@pytest.mark.timeout(400)
@pytest.mark.parametrize("hosts", ["ab", "aab"])
def test_between_hosts(hosts: str, tmp_path: Path) -> None:
    """By UCX alone: no MPI takes part. Messages of any length go to the other host by Lanecast."""
    env = preloaded(LANECAST_NCCL="hosts", LANECAST_UCX_LIBRARY=_core.ucx()[1])
    of_rank = {rank: {"LANECAST_HOST": host} for rank, host in enumerate(hosts)}
    how = ["long"] if len(hosts) == 2 else []
    for said in outputs(program(tmp_path), len(hosts), tmp_path, *how, env=env, of_rank=of_rank):
        assert "collectives and messages go by Lanecast" in said
        for name in ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "AlltoAll", "Gather", "Scatter"):
            assert re.search(rf"rank \d: {name} of 1003 elements .* by Lanecast: .", said), name
        assert re.search(r"Send of 1003 elements .* by Lanecast", said)
        assert not how or re.search(r"of 4718593 elements .* by Lanecast", said)


@pytest.mark.timeout(400)
def test_hosts_that_nothing_connects(tmp_path: Path) -> None:
    env = preloaded(LANECAST_NCCL="hosts", LANECAST_UCX_LIBRARY="/none")
    of_rank = {rank: {"LANECAST_HOST": host} for rank, host in enumerate("ab")}
    said = outputs(program(tmp_path), 2, tmp_path, env=env, of_rank=of_rank)
    assert re.search("the program goes on by NCCL alone: rank 0: .*LANECAST_UCX_LIBRARY", said[0])
    assert "by Lanecast" not in "".join(said)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("fastest", ["nccl", "peer_kernel"])
def test_a_profile_decides_who_is_faster(fastest: str, tmp_path: Path) -> None:
    profile = tmp_path / "profile.json"
    save(profile_for(fastest), profile)
    env = preloaded(LANECAST_PROFILE=str(profile), LANECAST_MAX_CTAS="")
    for said in outputs(program(tmp_path), 2, tmp_path, env=env):
        way = "by NCCL: Lanecast's own choice takes it" if fastest == "nccl" else "by Lanecast"
        assert re.search(rf"AllReduce of 1003 elements of type 7, operator 0 {way}", said)
        assert re.search(r"Send of 1003 elements .* by Lanecast", said)  # no profile knows messages


@pytest.mark.timeout(400)
def test_a_call_that_is_passed_on_costs_at_most_a_microsecond(tmp_path: Path) -> None:
    # The best of many: what another process takes is not counted.
    (said, _) = outputs(program(tmp_path), 2, tmp_path, "bench", env=preloaded(NCCL_DEBUG=""))
    assert int(re.search(r"passed on: (\d+) ns", said)[1]) <= 1000  # type: ignore[index]


@pytest.mark.timeout(400)
def test_found_by_what_is_loaded_beside_another_with_its_names(tmp_path: Path) -> None:
    real = tmp_path / "libnccl.so.2"
    real.symlink_to(gpu_host_library.library())
    other = tmp_path / "libother.so"
    text = "int ncclGetVersion(int* version) { return *version = 1, 0; }\n"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(other)], input=text.encode(), check=True)
    env = preloaded(LD_PRELOAD=f"{SHIM}:{other}", LANECAST_NCCL_LIBRARY="")
    for said in outputs(program(tmp_path, library=real), 2, tmp_path, env=env):
        assert f"NCCL 2.28.9 in {real} makes the communicators" in said
        assert f"{other} has NCCL's names as well" in said


@pytest.mark.timeout(400)
def test_in_place_of_nccl(tmp_path: Path) -> None:
    """The loader finds ours under NCCL's name, and the real one is named by the variable."""
    stub, place = tmp_path / "stub", tmp_path / "place"
    stub.mkdir()
    place.mkdir()
    shutil.copy(gpu_host_library.library(), stub / "libnccl.so.2")
    (place / "libnccl.so.2").symlink_to(SHIM)
    built = program(tmp_path, library=stub / "libnccl.so.2")
    (stub / "libnccl.so.2").unlink()
    env = preloaded(LD_PRELOAD="", LD_LIBRARY_PATH=str(place))
    for said in outputs(built, 2, tmp_path, env=env):
        assert "collectives and messages go by Lanecast" in said


# As JAX does: by the path of NVIDIA's package, and later by the name alone, from a library with folders of its own.
OPENS_LATER = """
import ctypes, sys
ctypes.CDLL(sys.argv[1])
nccl, version = ctypes.CDLL("libnccl.so.2"), ctypes.c_int()
assert nccl.ncclGetVersion(ctypes.byref(version)) == 0
print(nccl._handle == ctypes.CDLL(sys.argv[2])._handle, version.value)
"""


@pytest.mark.parametrize(("preload", "ours"), [("libnccl.so.2", True), ("", False)])
def test_a_program_that_opens_nccl_by_itself(preload: str, ours: bool, tmp_path: Path) -> None:
    """The name must be taken before the program opens NCCL's own file: a folder for the loader alone is too late."""
    place, real = tmp_path / "in-place", tmp_path / "nvidia" / "libnccl.so.2"
    place.mkdir()
    real.parent.mkdir()
    (place / "libnccl.so.2").symlink_to(SHIM)
    text = b"int ncclGetVersion(int* version) { return *version = 22809, 0; }\n"
    make = ["cc", "-shared", "-fPIC", "-Wl,-soname,libnccl.so.2", "-x", "c", "-", "-o", str(real)]
    subprocess.run(make, input=text, check=True)
    env = {**os.environ, "LD_LIBRARY_PATH": str(place), "LD_PRELOAD": preload, "LANECAST_NCCL_LIBRARY": ""}
    words = [sys.executable, "-c", OPENS_LATER, str(real), str(SHIM)]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.stdout == f"{ours} 22809\n", done.stderr


@pytest.mark.timeout(400)
def test_a_whole_job_over_an_nccl_that_is_too_old(tmp_path: Path) -> None:
    for said in outputs(program(tmp_path), 2, tmp_path, env=preloaded(GPU_HOST_NCCL_VERSION="21705")):
        assert re.search(r"all goes by NCCL: rank 0: NCCL in .* is older than 2.18", said)
        assert "by Lanecast" not in said


@pytest.mark.timeout(400)
def test_a_forked_child(tmp_path: Path) -> None:
    for said in outputs(program(tmp_path), 2, tmp_path, "fork", env=preloaded()):
        assert "collectives and messages go by Lanecast" in said


WITHOUT_SHARED_MEMORY = 'mount -t tmpfs -o ro none /dev/shm && exec "$@"'


@pytest.mark.timeout(400)
def test_a_container_without_shared_memory(tmp_path: Path) -> None:
    by = ["unshare", "-m", "sh", "-c", WITHOUT_SHARED_MEMORY, "sh"]
    if not shutil.which("unshare") or subprocess.run([*by, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("only root, where it may make mount namespaces, can take /dev/shm away")
    words = [*by, str(program(tmp_path))]
    for said in outputs(words, 2, tmp_path, env=preloaded(GPU_HOST_MEETINGS=str(tmp_path))):
        assert "collectives and messages go by Lanecast" in said


@pytest.mark.timeout(400)
def test_nccl_inside_of_torch_for_all_to_see(tmp_path: Path) -> None:
    inside = tmp_path / "libtorch_cuda.so"
    inside.symlink_to(gpu_host_library.library())
    (tmp_path / "kernels.o").symlink_to(gpu_host_library.library().parent / "kernels.o")  # looked for beside it
    for said in outputs(program(tmp_path, library=inside), 2, tmp_path, env=preloaded(LANECAST_NCCL_LIBRARY="")):
        assert f"NCCL 2.28.9 in {inside} makes the communicators" in said
        assert "collectives and messages go by Lanecast" in said


INSIDE = """
#include <stdio.h>
__attribute__((visibility("hidden"))) int ncclGetVersion(int* version) { return *version = 7, 0; }
int main(void) {
  int version = 0;
  ncclGetVersion(&version);
  return printf("%d\\n", version) != 2;
}
"""


def test_nccl_inside_that_nobody_else_sees(tmp_path: Path) -> None:
    built = tmp_path / "inside"
    subprocess.run(["cc", "-rdynamic", "-x", "c", "-", "-o", str(built)], input=INSIDE.encode(), check=True)
    env = {**os.environ, **preloaded()}
    done = subprocess.run([str(built)], env=env, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("7\n", "")


CALLS = """
#include <stdio.h>
int ncclGetVersion(int*), ncclCommSuspend(void*, int), ncclGroupStart(void), ncclCommInitRank(void*, int, ...);
const char *ncclGetErrorString(int), *ncclGetLastError(void*);
int main(void) {
  int version = -1;
  printf("%d", ncclGetVersion(&version));
  printf(" %d %d %s %s\\n", version, ncclCommSuspend(0, 1), ncclGetErrorString(5), ncclGetLastError(0));
  return 0;
}
"""


def said_by_calls(tmp_path: Path, nccl: str) -> str:
    source, built = tmp_path / "calls.c", tmp_path / "calls"
    source.write_text(CALLS)
    subprocess.run(["cc", str(source), str(SHIM), f"-Wl,-rpath,{PACKAGE}", "-o", str(built)], check=True)
    env = {**os.environ, "LANECAST_NCCL_LIBRARY": nccl}
    done = subprocess.run([str(built)], env=env, check=True, capture_output=True, text=True, timeout=240)
    return done.stdout + done.stderr


def test_without_nccl(tmp_path: Path) -> None:
    said = said_by_calls(tmp_path, "/nowhere/libnccl.so.2")
    assert 2 * " there is no NCCL to ask: LANECAST_NCCL_LIBRARY names its file" in said.split("5 -1 5", 1)[1]
    assert "no NCCL is loaded, and none was found" in said
    assert "/nowhere/libnccl.so.2" in said
    assert "Install it" in said


def test_an_nccl_that_is_too_old(tmp_path: Path) -> None:
    text = (
        "int ncclGetVersion(int* version) { return *version = 21403, 0; }\n"
        'const char* ncclGetErrorString(int result) { return result == 5 ? "invalid usage" : ""; }\n'
        'const char* ncclGetLastError(void* comm) { return comm ? "" : "none"; }\n'
    )
    old = tmp_path / "libnccl.so.2"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(old)], input=text.encode(), check=True)
    said = said_by_calls(tmp_path, str(old))
    assert "0 21403 5 invalid usage none" in said
    assert f"NCCL in {old} is older than 2.18; the program goes on by it alone" in said
    assert f"ncclCommSuspend: not in NCCL {old}, which is older than the program" in said


def exported(library: Path) -> set[str]:
    listing = subprocess.run(
        ["nm", "--dynamic", "--defined-only", str(library)], check=True, capture_output=True, text=True
    )
    return {line.split()[-1] for line in listing.stdout.splitlines()}


def test_it_shows_the_functions_of_nccl_and_nothing_else() -> None:
    names = exported(SHIM)
    assert all(re.fullmatch(r"p?nccl[A-Z]\w*", name) for name in names)
    header = own_header()
    real = header and header.parent / "lib" / "libnccl.so.2"
    if real and real.exists():
        functions = {name for name in exported(real) if re.match(r"p?nccl[A-Z]", name)}
        assert functions - names - {"ncclResetDebugInitInternal"} == set()
    # What programs of NCCL 2.28 and newer call, at least.
    assert {"ncclCommInitRankScalable", "ncclCommWindowRegister", "ncclDevCommCreate", "ncclAllReduceConfig"} <= names


def test_preloading_alone_opens_nothing() -> None:
    """Shells and helpers of a job are preloaded, too."""
    env = {**os.environ, **preloaded()}
    done = subprocess.run(["sh", "-c", "cat /proc/self/maps"], env=env, check=True, capture_output=True, text=True)
    assert str(SHIM) in done.stdout
    assert "gpu_host" not in done.stdout
    assert done.stderr == ""
