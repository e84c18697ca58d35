# SPDX-License-Identifier: Apache-2.0
"""The GPU kernels as text: every compiler takes them, and what comes out holds every kernel by its name."""

import os
import shutil
import subprocess
from pathlib import Path
from unittest import mock

import pytest

import lanecast
from lanecast import _core, gpu_libraries

NAMES = {
    "lanecast_exchange",
    "lanecast_broadcast",
    "lanecast_chain",
    "lanecast_barrier",
    "lanecast_handover",
    "lanecast_messages",
    "lanecast_copy",
    "lanecast_direct",
    "lanecast_meeting",
    *(
        f"lanecast_{kind}_{dtype}"
        for kind in ("exchange", "two_shot", "summed_chain", "reduce", "direct")
        for dtype in _core.DTYPES
    ),
}
# By the copy engines of multiprocessors, as GPUs of this architecture have them.
PUMPED = {
    "lanecast_pumped_chain",
    *(f"lanecast_pumped_two_shot_{dtype}" for dtype in ("float32", "float16", "bfloat16")),
}
SOURCE = Path(__file__).parent.parent / "src"
MAIN = "device/gpu/kernels/kernels.cu"


def has_nvrtc() -> bool:
    try:
        _core.gpu_compiler(False, gpu_libraries.folders())
    except lanecast.UsageError:
        return False
    return True


needs_nvrtc = pytest.mark.skipif(not has_nvrtc(), reason="no NVRTC; its wheel is pinned in requirements/test.txt")


def test_the_library_holds_the_source_as_it_is() -> None:
    files = {str(path.relative_to(SOURCE)): path.read_text() for path in (SOURCE / MAIN).parent.iterdir()}
    assert _core.gpu_kernel_files() == files


# Each takes two to three minutes on two busy cores.
@pytest.mark.slow
@needs_nvrtc
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("gpu", ["sm_75", "sm_80", "sm_90", "sm_100"])
def test_nvrtc_takes_the_source(gpu: str) -> None:
    code = _core.gpu_machine_code(gpu, gpu_libraries.folders(), "")
    names = set(_core.gpu_kernel_names(code))
    assert names >= NAMES
    assert names & PUMPED == (PUMPED if gpu == "sm_90" else set())


def nvcc() -> str | None:
    return shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")


@pytest.mark.slow  # see above
@pytest.mark.timeout(1800)
@pytest.mark.skipif(nvcc() is None, reason="no nvcc")
def test_nvcc_takes_the_source(tmp_path: Path) -> None:
    out = tmp_path / "kernels.cubin"
    command = [nvcc() or "", "-std=c++17", "-arch=sm_90", "-cubin", "--expt-relaxed-constexpr", f"-I{SOURCE}"]
    done = subprocess.run([*command, str(SOURCE / MAIN), "-o", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(_core.gpu_kernel_names(out.read_bytes())) >= NAMES | PUMPED


@needs_nvrtc
def test_a_gpu_that_nvrtc_does_not_know() -> None:
    with pytest.raises(lanecast.UsageError, match="does not know GPUs of architecture sm_35; install"):
        _core.gpu_machine_code("sm_35", gpu_libraries.folders(), "")


def test_no_nvrtc(tmp_path: Path) -> None:
    missing = tmp_path / "libnvrtc.so.13"
    with mock.patch.dict(os.environ, {"LANECAST_NVRTC_LIBRARY": str(missing)}):
        with pytest.raises(lanecast.UsageError, match="LANECAST_NVRTC_LIBRARY names no usable library"):
            _core.gpu_compiler(False, gpu_libraries.folders())
        missing.write_bytes(b"no library")
        with pytest.raises(lanecast.UsageError, match=r"libnvrtc\.so\.13"):
            _core.gpu_compiler(False, gpu_libraries.folders())


def test_what_is_no_machine_code() -> None:
    for code in (b"", b"\x7fELF", b"PTX"):
        with pytest.raises(lanecast.InternalError, match="machine code"):
            _core.gpu_kernel_names(code)
