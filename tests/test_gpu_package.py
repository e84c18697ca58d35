# SPDX-License-Identifier: Apache-2.0
"""Kernels that came with the library: which of them serve a GPU, that stale or spoilt ones are never loaded, and that
the build makes them; on a driver and a compiler without a GPU."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gpu_host_library
import lanecast
from gpu_stand_in import tensor
from lanecast import Communicator, _core
from pipe_jobs import PipeJob, Tell
from test_cli import run
from test_gpu_code import NAMES, PUMPED, needs_nvrtc

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.timeout(400)  # the first one builds the driver

NO_BINARY_FOR_GPU = 209


def listed_targets() -> list[str]:
    found = re.search(r"set\(kernel_targets (sm_[^)]*)\)", (ROOT / "CMakeLists.txt").read_text())
    assert found is not None
    return found[1].split()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of an empty package, which this process and its jobs take for the library's own."""
    monkeypatch.setenv("LANECAST_KERNEL_FOLDER", str(tmp_path / "package"))
    return tmp_path / "package"


@pytest.fixture
def machine_code(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Of the GPU that the driver of these tests has, an sm_90."""
    monkeypatch.setenv("LANECAST_NVRTC_LIBRARY", str(gpu_host_library.library()))
    code = _core.gpu_machine_code("sm_90", [], "")
    monkeypatch.delenv("LANECAST_NVRTC_LIBRARY")
    return code


@pytest.fixture
def ptx(machine_code: bytes) -> bytes:
    """What that driver takes for it: its kernels go by their names."""
    names = _core.gpu_kernel_names(machine_code)
    return "".join(f".visible .entry {name}(\n\t.param .u64 x\n)\n" for name in names).encode()


def package(folder: Path, *targets: str, code: bytes = b"code") -> None:
    for target in targets:
        _core.gpu_package_kernels(str(folder), target, code)


def serving(architecture: str) -> list[str]:
    found = _core.gpu_packaged_kernels(architecture)
    assert [fault for _, fault in found if fault] == []
    return [target for target, _ in found]


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [
        ("sm_75", []),
        ("sm_80", ["sm_80"]),
        ("sm_86", ["sm_86", "sm_80"]),
        ("sm_89", ["sm_89", "sm_86", "sm_80"]),
        ("sm_90", ["sm_90"]),
        ("sm_100", ["sm_100", "compute_100"]),
        ("sm_103", ["sm_103", "sm_100", "compute_100"]),
        ("sm_110", ["compute_100"]),
        ("sm_121", ["sm_120", "compute_100"]),
        ("sm_200", ["compute_100"]),
        ("gfx90a", []),
    ],
)
def test_what_serves_a_gpu(architecture: str, expected: list[str], folder: Path) -> None:
    package(folder, *listed_targets())
    for other in ("sm_90a", "sm_", "compute_x", "gfx90a"):
        (folder / other).mkdir()
    assert _core.gpu_kernel_package() == (str(folder), listed_targets())
    assert serving(architecture) == expected


def test_no_package_serves_nobody(folder: Path) -> None:
    assert _core.gpu_kernel_package() == (str(folder), [])
    assert serving("sm_90") == []


def test_the_package_lies_beside_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANECAST_KERNEL_FOLDER", raising=False)
    assert Path(_core.gpu_kernel_package()[0]) == Path(_core.__file__).parent / "lanecast-kernels"


LOADED = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("_core", sys.argv[1])
core = importlib.util.module_from_spec(spec)
spec.loader.exec_module(core)
print(core.gpu_kernel_package()[0])
"""


def test_the_package_lies_beside_what_a_link_leads_to(tmp_path: Path) -> None:
    """As where liblanecast_nccl.so is found under NCCL's name: kernels were compiled anew there, for a minute."""
    for folder in ("real/lanecast-kernels", "place"):
        (tmp_path / folder).mkdir(parents=True)
    name = Path(_core.__file__).name
    shutil.copy(_core.__file__, tmp_path / "real")
    (tmp_path / "place" / name).symlink_to(tmp_path / "real" / name)
    environment = {key: value for key, value in os.environ.items() if key != "LANECAST_KERNEL_FOLDER"}
    words = [sys.executable, "-c", LOADED, str(tmp_path / "place" / name)]
    said = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
    assert said == f"{tmp_path / 'real' / 'lanecast-kernels'}\n"


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "a bit": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "cut off": lambda content: content[:-1],
    "empty": lambda _: b"",
    "another source": lambda content: re.sub(rb"source \d", b"source x", content),
    "other options": lambda content: content.replace(b"--fmad=false", b"--fmad=true "),
    "another architecture": lambda content: content.replace(b"sm_90", b"sm_80"),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT.keys())
def test_what_is_spoilt_or_stale_is_of_no_use(spoil: Callable[[bytes], bytes], folder: Path) -> None:
    package(folder, "sm_90")
    file = folder / "sm_90" / "kernels"
    file.write_bytes(spoil(file.read_bytes()))
    assert _core.gpu_packaged_kernels("sm_90") == [("sm_90", f"{file} is spoilt, or not of this version of Lanecast")]


def test_a_folder_in_the_place_of_a_file(folder: Path) -> None:
    package(folder, "sm_90")
    file = folder / "sm_90" / "kernels"
    file.unlink()
    file.mkdir()
    assert _core.gpu_packaged_kernels("sm_90") == [("sm_90", f"{file} is spoilt, or not of this version of Lanecast")]


def test_a_module_that_is_missing(folder: Path) -> None:
    package(folder, "sm_90")
    (folder / "sm_90" / "kernels").unlink()
    ((target, fault),) = _core.gpu_packaged_kernels("sm_90")
    assert (target, fault) == ("sm_90", f"{folder / 'sm_90' / 'kernels'} cannot be read: No such file or directory")


def all_reduce(comm: Communicator, _: Tell) -> float:
    x = tensor(comm, 1000)
    comm.all_reduce(x)
    comm.synchronize()
    return float(x.array.sum())


def refused_once(comm: Communicator, tell: Tell) -> float:
    gpu_host_library.fail_next("cuModuleLoadData", NO_BINARY_FOR_GPU)
    return all_reduce(comm, tell)


def on_two_gpus(folder: Path, cache: Path | str, body: Any = all_reduce, **variables: str) -> tuple[list[Any], str]:
    """What each rank returns or raises, and what rank 0 has printed."""
    environment = {**gpu_host_library.environment(), "LANECAST_KERNEL_FOLDER": str(folder), **variables}
    job = PipeJob(2, body, kernel_cache=str(cache), environment=environment, timeout_s=100)
    ended = [job.outcome(rank, timeout_s=300) for rank in range(2)]
    assert job.end() == [0, 0]
    return [outcome.text or outcome.value for outcome in ended], job.words(0)


NO_COMPILER = {"LANECAST_NVRTC_LIBRARY": "/nowhere/libnvrtc.so"}


def test_a_package_needs_neither_compiler_nor_cache(folder: Path, machine_code: bytes, tmp_path: Path) -> None:
    package(folder, "sm_90", code=machine_code)
    assert on_two_gpus(folder, tmp_path / "cache", **NO_COMPILER) == ([2000.0, 2000.0], "")
    assert not (tmp_path / "cache").exists()


def test_ptx_where_there_is_no_machine_code(folder: Path, ptx: bytes) -> None:
    package(folder, "compute_80", code=ptx)
    assert on_two_gpus(folder, "", **NO_COMPILER) == ([2000.0, 2000.0], "")


def test_a_spoilt_package_is_named_and_the_kernels_are_compiled(
    folder: Path, machine_code: bytes, kernel_cache: str
) -> None:
    package(folder, "sm_90", code=machine_code)
    file = folder / "sm_90" / "kernels"
    file.write_bytes(file.read_bytes()[:-1])
    sums, said = on_two_gpus(folder, kernel_cache)
    assert sums == [2000.0, 2000.0]
    assert said == (
        "lanecast: the GPU kernels that came with this library for sm_90 are left aside: "
        f"{file} is spoilt, or not of this version of Lanecast\n"
    )


def test_what_the_driver_refuses_gives_way_to_the_next(folder: Path, machine_code: bytes, ptx: bytes) -> None:
    package(folder, "sm_90", code=machine_code)
    package(folder, "compute_80", code=ptx)
    sums, said = on_two_gpus(folder, "", refused_once, **NO_COMPILER)
    assert sums == [2000.0, 2000.0]
    assert re.fullmatch(r"lanecast: the GPU kernels .* for sm_90 are left aside: cuModuleLoadData: .*\n", said)


def test_neither_package_nor_compiler(folder: Path) -> None:
    sums, _ = on_two_gpus(folder, "", **NO_COMPILER)
    assert all("LANECAST_NVRTC_LIBRARY names no usable library" in said for said in sums)


def test_info_says_where_kernels_come_from(folder: Path, machine_code: bytes, ptx: bytes, tmp_path: Path) -> None:
    environment = {**gpu_host_library.environment(), "LANECAST_KERNEL_FOLDER": str(folder)}
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")

    def shown(**variables: str) -> str:
        everything: dict[str, Any] = {**environment, **variables}
        return " ".join(run("info", **everything).stdout.split())

    kept = tmp_path / "cache" / "lanecast" / "kernels"
    assert f"none came with this library sm_90: compiled by the first communicator, into {kept}" in shown()
    assert "sm_90: none: LANECAST_NVRTC_LIBRARY names no usable library" in shown(**NO_COMPILER)
    assert on_two_gpus(folder, kept)[0] == [2000.0, 2000.0]
    assert f"sm_90: compiled before, in {kept}" in shown()
    package(folder, "compute_80", code=ptx)
    assert f"for compute_80 {folder} sm_90: those that came for compute_80, which the driver compiles once" in shown()
    package(folder, "sm_90", code=machine_code)
    assert f"for sm_90, compute_80 {folder} sm_90: those that came for sm_90" in shown()
    (folder / "sm_90" / "kernels").write_bytes(b"")
    assert f"left aside: {folder}/sm_90/kernels is spoilt" in shown()


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of the build, which compiles the kernels."""
    program = tmp_path_factory.mktemp("tools") / "compile_kernels"
    core = Path(_core.__file__).parent / "simulator" / "libsimulated_core.a"
    command = ["g++", "-std=c++20", f"-I{ROOT / 'src'}", str(ROOT / "tools" / "compile_kernels.cpp"), str(core)]
    subprocess.run([*command, "-ldl", "-pthread", "-o", str(program)], check=True)
    return program


def build(builder: Path, folder: Path, *targets: str, nvrtc: Path | str = "") -> list[str]:
    """What it says of each target."""
    environment = {**os.environ, **({"LANECAST_NVRTC_LIBRARY": str(nvrtc)} if nvrtc else {})}
    said = []
    for target in targets:
        command = [str(builder), str(folder), str(folder.with_name("cache")), target]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said.append(done.stderr)
    return said


def test_the_build_compiles_what_its_compiler_knows(builder: Path, folder: Path, machine_code: bytes) -> None:
    """Once, though it packages again; and leaves none of another build that it cannot make."""
    package(folder, "sm_120", code=b"of another build")
    (folder / "sm_120.stamp").touch()
    (folder / "sm_90").mkdir()
    (folder / "sm_90" / "no_module_any_more").touch()
    known, unknown = build(builder, folder, "sm_90", "sm_120", nvrtc=gpu_host_library.library())
    assert known == ""
    # So the build tries again.
    assert (folder / "sm_90.stamp").exists()
    assert not (folder / "sm_120.stamp").exists()
    assert unknown.startswith("lanecast: no GPU kernels for sm_120 in this package: NVRTC 13.0, ")
    assert _core.gpu_kernel_package() == (str(folder), ["sm_90"])
    assert (serving("sm_90"), [path.name for path in (folder / "sm_90").iterdir()]) == (["sm_90"], ["kernels"])
    first = (folder / "sm_90" / "kernels").read_bytes()
    assert first.endswith(machine_code)
    kept = sorted(folder.with_name("cache").iterdir())
    build(builder, folder, "sm_90", nvrtc=gpu_host_library.library())
    assert (folder / "sm_90" / "kernels").read_bytes() == first
    assert sorted(folder.with_name("cache").iterdir()) == kept


def test_a_build_without_a_compiler_of_kernels(builder: Path, folder: Path) -> None:
    (said,) = build(builder, folder, "sm_90", nvrtc="/nowhere/libnvrtc.so")
    assert "lanecast: no GPU kernels for sm_90 in this package: LANECAST_NVRTC_LIBRARY names no usable library" in said
    assert _core.gpu_kernel_package() == (str(folder), [])


def packaged_code(folder: Path, target: str) -> bytes:
    return (folder / target / "kernels").read_bytes().split(b"\n\n", 1)[1]


@needs_nvrtc
@pytest.mark.timeout(3600)  # NVRTC compiles them all, for minutes where the machine is busy
@pytest.mark.parametrize(
    "target",
    [
        pytest.param(target, marks=pytest.mark.slow if target == "compute_100" else pytest.mark.long)
        for target in listed_targets()
    ],
)
def test_the_build_makes_code_for_each_listed_target(builder: Path, folder: Path, target: str) -> None:
    nvrtc = _core.gpu_compiler(False, lanecast.gpu_libraries.folders())[1]
    assert build(builder, folder, target, nvrtc=nvrtc) == [""]
    names = set(_core.gpu_kernel_names(packaged_code(folder, target)))
    assert names >= NAMES
    assert names & PUMPED == (PUMPED if target == "sm_90" else set())
    assert serving(target.replace("compute", "sm")) == [target]


def test_a_release_without_kernels_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "lanecast.whl"
    shutil.make_archive(str(wheel.with_suffix("")), "zip", ROOT / "include")
    wheel.with_suffix(".zip").rename(wheel)
    done = subprocess.run([str(ROOT / ".ci" / "wheel"), str(wheel)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, f"wheel: no GPU kernels for sm_80 in {wheel}\n")
