# SPDX-License-Identifier: Apache-2.0
"""CUDA tensors in a torch without CUDA, on a machine without a GPU: tests/pytorch/pretend_cuda, over tests/gpu_host."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import torch

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))

import gpu_host_library  # noqa: E402

NAME = "pretend_cuda"
SOURCES = HERE / NAME
KERNELS = "PRETEND_CUDA_KERNELS"  # the environment variable of the ranks that pretend: a folder for compiled kernels


def environment(kernels: Path) -> dict[str, str]:
    """Of a rank that pretends."""
    return {**gpu_host_library.environment(), KERNELS: str(kernels)}


def library() -> Path:
    """Built when a source or torch has changed."""
    sources = sorted(SOURCES.iterdir())
    digest = hashlib.sha256(torch.__version__.encode())
    for path in sources:
        digest.update(path.read_bytes())
    built = gpu_host_library.BUILD / digest.hexdigest()[:16] / f"{NAME}.so"
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        unfinished = built.with_suffix(f".{os.getpid()}")
        include = Path(torch.__file__).parent / "include"
        folders = [include, include / "torch/csrc/api/include", Path(sysconfig.get_path("include"))]
        whole = "".join(f'#include "{path.name}"\n' for path in sources if path.suffix == ".cpp")
        command = [
            "g++", "-std=c++20", "-O1", "-shared", "-fPIC", f"-DTORCH_EXTENSION_NAME={NAME}",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
            f"-I{SOURCES}", *(f"-isystem{folder}" for folder in folders), "-x", "c++", "-", "-o", str(unfinished),
            f"-L{Path(torch.__file__).parent / 'lib'}", "-ltorch_python", "-ltorch_cpu", "-ltorch", "-lc10", "-ldl",
        ]  # fmt: skip
        subprocess.run(command, input=whole, text=True, check=True)
        unfinished.replace(built)
    return built


def load() -> ModuleType:
    """In a process with environment(): torch has CUDA devices from now on, as far as the tests need them."""
    if NAME not in sys.modules:
        spec = importlib.util.spec_from_file_location(NAME, library())
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[NAME] = module
    return sys.modules[NAME]
