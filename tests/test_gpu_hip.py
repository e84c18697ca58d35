# SPDX-License-Identifier: Apache-2.0
"""AMD's GPUs without one: their compilers take and link the kernels, HIP's header and library have what is called, and
the library's path for them runs on the driver without a GPU, which has HIP's names, too. No kernel runs as AMD's code.
"""

import ctypes
import itertools
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

import gpu_host_library
import lanecast
from collective_cases import Case, even
from gpu_stand_in import KINDS, in_place_is_offered, judge, outcomes, tensor
from lanecast import Communicator, _core
from pipe_jobs import Outcome, Tell
from test_cli import run
from test_gpu_code import MAIN, NAMES, SOURCE
from test_gpu_driver import CALL, CHECK, declared_hip
from test_gpu_without_gpu import ENGINES, NOTHING_HELD, launch_fails, make_and_drop, messages_of_each_kind

# Of machine code for each GPU, as ELF's header has it: those whose warps and clock the primitives know.
MACHINES = {"gfx90a": 0x3F, "gfx940": 0x40, "gfx942": 0x4C, "gfx950": 0x4F}
AMD_GPU = 224  # EM_AMDGPU
# Results have the same bits as the CPU's: nothing becomes fma, small numbers stay, quotients are rounded.
OPTIONS = (
    "-std=c++17",
    "-O3",
    "-ffp-contract=off",
    "-fno-gpu-flush-denormals-to-zero",
    "-fhip-fp32-correctly-rounded-divide-sqrt",
)

HIPCC = shutil.which("hipcc") or shutil.which("hipcc", path="/opt/rocm/bin")
needs_hipcc = pytest.mark.skipif(HIPCC is None, reason="no hipcc; Debian has it as a package")


def compiled(gpu: str, source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """By hipcc, for AMD's GPUs also where it finds an nvcc."""
    command = [HIPCC or "", "--genco", "--no-gpu-bundle-output", f"--offload-arch={gpu}", "-x", "hip", *OPTIONS]
    return subprocess.run(
        [*command, f"-I{SOURCE}", str(source), "-o", str(out)],
        env={**os.environ, "HIP_PLATFORM": "amd"},
        capture_output=True,
        text=True,
        check=False,
    )


def expect_kernels_of(gpu: str, code: bytes) -> None:
    machine, flags = struct.unpack_from("<H", code, 18)[0], struct.unpack_from("<I", code, 48)[0]
    assert (code[:4], machine, flags & 0xFF) == (b"\x7fELF", AMD_GPU, MACHINES[gpu])
    assert set(_core.gpu_kernel_names(code)) >= NAMES


@needs_hipcc
@pytest.mark.long  # the compiler is the one behind hipRTC, which compiles below
@pytest.mark.timeout(600)
@pytest.mark.parametrize("gpu", MACHINES)
def test_hipcc_takes_and_links_the_source(gpu: str, tmp_path: Path) -> None:
    empty, out = tmp_path / "empty.cu", tmp_path / "kernels.hsaco"
    empty.touch()
    if "target ID" in compiled(gpu, empty, out).stderr:
        pytest.skip(f"{HIPCC} does not know {gpu}")
    done = compiled(gpu, SOURCE / MAIN, out)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    expect_kernels_of(gpu, out.read_bytes())


def has_hiprtc() -> bool:
    try:
        _core.gpu_compiler(True, [])
    except lanecast.UsageError:
        return False
    return True


needs_hiprtc = pytest.mark.skipif(not has_hiprtc(), reason="no hipRTC; Debian's package hipcc brings it")


@needs_hiprtc
@pytest.mark.slow  # a minute and a half
@pytest.mark.timeout(1800)
def test_hiprtc_takes_the_source() -> None:
    expect_kernels_of("gfx90a", _core.gpu_machine_code("gfx90a", [], ""))
    with pytest.raises(
        lanecast.UsageError, match="the kernels know gfx90a, gfx940 to gfx942 and gfx950, and not gfx1100"
    ):
        _core.gpu_machine_code("gfx1100", [], "")


@needs_hipcc
def test_a_gpu_whose_warps_are_not_known(tmp_path: Path) -> None:
    done = compiled("gfx1030", SOURCE / MAIN, tmp_path / "kernels.hsaco")
    assert done.returncode != 0
    assert "of AMD's GPUs only gfx90a" in done.stderr


HEADER = Path("/usr/include/hip/hip_runtime_api.h")
NUMBERS = """
using namespace lanecast::gpu;
static_assert(kHipAttributes == std::array<int, 4>{hipDeviceAttributeWarpSize, hipDeviceAttributeMultiprocessorCount,
              hipDeviceAttributeComputeCapabilityMajor, hipDeviceAttributeComputeCapabilityMinor});
static_assert(offsetof(hipDeviceProp_t, gcnArchName) ==
              (HIP_VERSION_MAJOR >= 6 ? kHipProperties6 : kHipProperties5).architecture);
static_assert(sizeof(hipDeviceProp_t) <= kHipPropertiesBytes && sizeof(hipIpcMemHandle_t) == sizeof(IpcHandle));
static_assert(kHipFineGrained == hipDeviceMallocFinegrained && kHipAnyDirection == hipMemcpyDefault);
static_assert(kHipCoherent == hipHostMallocCoherent && kMemHostAllocPortable == hipHostMallocPortable);
static_assert(kMemHostAllocDeviceMap == hipHostMallocMapped && kStreamNonBlocking == hipStreamNonBlocking);
static_assert(kEventDisableTiming == hipEventDisableTiming && kNotReady == hipErrorNotReady);
static_assert(hipIpcMemLazyEnablePeerAccess == kIpcLazyEnablePeerAccess ||
              hipIpcMemLazyEnablePeerAccess == kHipOldLazyEnablePeerAccess);
static_assert(kPointerDeviceOrdinal == HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
"""


@pytest.mark.skipif(not HEADER.exists(), reason="no header of HIP's; Debian's package hipcc brings it")
def test_declarations_are_those_of_the_header(tmp_path: Path) -> None:
    calls = declared_hip()
    assert len(calls) > 40
    check = CHECK.replace("#include <cuda.h>", '#include <hip/hip_runtime_api.h>\n#include "device/gpu/hip.h"')
    equal = "std::is_pointer_v<As> == std::is_pointer_v<Bs>"
    assert equal in check
    check = check.replace(equal, "std::is_pointer_v<As> <= std::is_pointer_v<Bs>")  # HIP's addresses are pointers
    program = tmp_path / "check.cpp"
    program.write_text(check + NUMBERS + "".join(CALL.format(name=name, symbol=symbol) for name, symbol in calls))
    macros = ("-D__HIP_PLATFORM_AMD__", "-D__HIP_DISABLE_CPP_FUNCTIONS__")
    command = ["g++", "-std=c++20", f"-I{SOURCE}", *macros, "-Wno-deprecated-declarations", "-fsyntax-only"]
    done = subprocess.run([*command, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@needs_hiprtc
def test_hip_itself_has_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its lack would be what is said, before that of a GPU."""
    monkeypatch.setenv("LANECAST_HIP_LIBRARY", _core.gpu_compiler(True, [])[1].replace("libhiprtc", "libamdhip64"))
    said = ""
    try:
        _core.gpus()
    except lanecast.UsageError as error:
        said = str(error)
    assert re.match(r"$|cuInit, as HIP has it: hipError(No|Invalid)Device\b", said)


def test_info_shows_gpus() -> None:
    environment: dict[str, Any] = gpu_host_library.hip_environment()
    found = run("info", **environment)
    assert found.returncode == 0, found.stderr
    for fact in ("HIP 6.2", "hipRTC 13.0", "7: GPU on the host, gfx90a, 110 multiprocessors, 0000:07:00.0"):
        assert fact in found.stdout


@pytest.mark.timeout(400)
@pytest.mark.parametrize("engine", ENGINES)
def test_each_kind(engine: str, kernel_cache: str) -> None:
    cases = [
        Case(kind, even(kind, count, 3), engine, in_place=in_place, root=2)
        for kind, count in itertools.product(KINDS, (0, 5, 2003))
        for in_place in in_place_is_offered(kind)
    ]
    judge(3, cases, kernel_cache, variables=gpu_host_library.hip_environment())


def on_two(body: Any, kernel_cache: str) -> list[Outcome]:
    return outcomes(2, body, kernel_cache, timeout_s=60.0, variables=gpu_host_library.hip_environment())


@pytest.mark.timeout(400)
def test_messages_between_two_ranks(kernel_cache: str) -> None:
    for outcome in on_two(messages_of_each_kind, kernel_cache):
        assert (outcome.text, outcome.value) == ("", [])


def test_a_communicator_that_goes_leaves_nothing(kernel_cache: str) -> None:
    held = NOTHING_HELD.replace("contexts 1", "contexts 0")  # it has none
    assert [outcome.value or outcome.text for outcome in on_two(make_and_drop, kernel_cache)] == [held] * 2


def test_a_launch_that_fails(kernel_cache: str) -> None:
    for outcome in on_two(launch_fails, kernel_cache):
        assert outcome.error == "TransportError"
        assert "cuLaunchKernel, as HIP has it: CUDA_ERROR_OUT_OF_MEMORY" in outcome.text


def call_beside_another_device(comm: Communicator, _: Tell) -> int:
    driver, found = gpu_host_library.opened(), ctypes.c_int()
    driver.hipSetDevice(5)
    comm.all_reduce(tensor(comm, 8))
    comm.synchronize()
    driver.hipGetDevice(ctypes.byref(found))
    return found.value


def test_a_call_leaves_the_threads_device_as_it_is(kernel_cache: str) -> None:
    assert [outcome.value or outcome.text for outcome in on_two(call_beside_another_device, kernel_cache)] == [5, 5]
