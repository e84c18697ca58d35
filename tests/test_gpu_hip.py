# SPDX-License-Identifier: Apache-2.0
"""The GPU kernels as text for AMD's compiler, which takes the same files and links all kernels. None of it is run."""

import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from test_gpu_code import MAIN, NAMES, SOURCE

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


def kernel_names(code: bytes) -> set[str]:
    """Each has a descriptor, whose name ends so."""
    return {name.decode() for name in re.findall(rb"(?<=\0)(\w+)\.kd(?=\0)", code)}


@needs_hipcc
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "gpu", ["gfx90a", *(pytest.param(gpu, marks=pytest.mark.long) for gpu in MACHINES if gpu != "gfx90a")]
)
def test_hipcc_takes_and_links_the_source(gpu: str, tmp_path: Path) -> None:
    empty, out = tmp_path / "empty.cu", tmp_path / "kernels.hsaco"
    empty.touch()
    if "target ID" in compiled(gpu, empty, out).stderr:
        pytest.skip(f"{HIPCC} does not know {gpu}")
    done = compiled(gpu, SOURCE / MAIN, out)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    code = out.read_bytes()
    machine, flags = struct.unpack_from("<H", code, 18)[0], struct.unpack_from("<I", code, 48)[0]
    assert (code[:4], machine, flags & 0xFF) == (b"\x7fELF", AMD_GPU, MACHINES[gpu])
    assert kernel_names(code) >= NAMES


@needs_hipcc
def test_a_gpu_whose_warps_are_not_known(tmp_path: Path) -> None:
    done = compiled("gfx1030", SOURCE / MAIN, tmp_path / "kernels.hsaco")
    assert done.returncode != 0
    assert "of AMD's GPUs only gfx90a" in done.stderr
