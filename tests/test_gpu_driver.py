# SPDX-License-Identifier: Apache-2.0
"""The driver's calls as this library declares them: against NVIDIA's header, and with libraries that lack something."""

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import gpu_host_library
import lanecast
from lanecast import _core
from test_cli import run

SOURCE = Path(__file__).parent.parent / "src"
HEADER = Path("/usr/local/cuda/include/cuda.h")

# Declarations agree when they take as many arguments of the same sizes: ours has integers for enumerations.
CHECK = """
#include <cuda.h>
#include "device/gpu/driver.h"
template <class... As> struct Sizes {};
template <class R, class... As> Sizes<R, As...> list(R (*)(As...));
template <class A, class B> struct Same;
template <class... As, class... Bs> struct Same<Sizes<As...>, Sizes<Bs...>> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(As) != sizeof...(Bs)) return false;
    else return ((sizeof(As) == sizeof(Bs) && std::is_pointer_v<As> == std::is_pointer_v<Bs>) && ...);
  }();
};
using lanecast::gpu::Driver;
"""
CLUSTERS = """
using lanecast::gpu::LaunchAttribute;
using lanecast::gpu::LaunchConfig;
static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute) && sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(LaunchAttribute{}.which == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
"""
CALL = """
static_assert(Same<decltype(list(std::declval<Driver>().{name})), decltype(list(&::{symbol}))>::value, "{symbol}");"""


def declared() -> list[tuple[str, str]]:
    """(name, symbol) of each call of Driver that CUDA has."""
    text = (SOURCE / "device/gpu/driver.h").read_text()
    return re.findall(r"int \(\*const (\w+)\)[^;]*?(?:required|optional|cuda)\(\s*\"(\w+)\"", text, re.DOTALL)


def declared_hip() -> list[tuple[str, str]]:
    """(name, symbol) of each call of Driver that HIP has."""
    text = (SOURCE / "device/gpu/driver.h").read_text()
    common = r"\(\*const (\w+)\)[^;]*?(?:required|optional)\(\s*\"\w+\",\s*\"(\w+)\""
    return re.findall(common, text, re.DOTALL) + re.findall(r"\(\*const (\w+)\)[^;]*? hip\(\"(\w+)\"", text, re.DOTALL)


@pytest.mark.skipif(not HEADER.exists(), reason="no cuda.h")
def test_declarations_are_those_of_the_header(tmp_path: Path) -> None:
    calls = declared()
    assert len(calls) > 45
    program = tmp_path / "check.cpp"
    program.write_text(CHECK + CLUSTERS + "".join(CALL.format(name=name, symbol=symbol) for name, symbol in calls))
    command = ["g++", "-std=c++20", f"-I{SOURCE}", f"-I{HEADER.parent}", "-D__CUDA_API_VERSION_INTERNAL"]
    done = subprocess.run([*command, "-fsyntax-only", str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_library_without_a_gpu_has_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANECAST_CUDA_LIBRARY", str(gpu_host_library.library()))
    assert _core.gpu_driver() == ("CUDA 13.0", str(gpu_host_library.library()))
    assert gpu_host_library.held().endswith("contexts 0")


def test_an_event_is_recorded_again_while_streams_wait_for_it() -> None:
    """On the driver without a GPU: whoever waits has the record that was there when the wait was enqueued."""
    ordinal = 0
    first, other, behind = (gpu_host_library.stream(ordinal) for _ in range(3))
    passed = ctypes.c_uint32(0)
    event = gpu_host_library.Event(ordinal)
    with gpu_host_library.held_up(ordinal, first):
        event.record(first)
        event.hold(behind)
        gpu_host_library.write(ordinal, behind, passed)
        event.record(other)
        assert gpu_host_library.synchronize(ordinal, other) == 0
        assert event.is_reached()
        assert passed.value == 0
    assert gpu_host_library.synchronize(ordinal, first) == 0
    assert gpu_host_library.synchronize(ordinal, behind) == 0
    assert passed.value == 1
    assert event.is_reached()  # the later record, which lies behind


def test_info_shows_gpus() -> None:
    environment: dict[str, Any] = gpu_host_library.environment()
    found = run("info", **environment)
    assert found.returncode == 0, found.stderr
    for fact in ("CUDA 13.0", "7: GPU on the host, sm_90, 132 multiprocessors, 0000:07:00.0"):
        assert fact in found.stdout


def test_info_without_any_of_it(tmp_path: Path) -> None:
    missing: dict[str, Any] = {
        f"LANECAST_{name}_LIBRARY": str(tmp_path / "none.so") for name in ("CUDA", "NVRTC", "NCCL")
    }
    found = run("info", **missing)
    assert found.returncode == 0, found.stderr
    for name in missing:
        assert f"{name} names no usable library" in found.stdout


def test_a_driver_that_finds_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANECAST_CUDA_LIBRARY", str(gpu_host_library.library()))
    monkeypatch.setenv("GPU_HOST_NO_GPU", "1")
    with pytest.raises(lanecast.UsageError, match="cuInit: CUDA_ERROR_NO_DEVICE"):
        _core.gpus()


def test_a_library_that_is_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANECAST_CUDA_LIBRARY", "libm.so.6")
    with pytest.raises(lanecast.UsageError, match="has no cuInit"):
        _core.gpus()
