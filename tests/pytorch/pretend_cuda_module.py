# SPDX-License-Identifier: Apache-2.0
"""CUDA tensors in a torch without CUDA, on a machine without a GPU: tests/pytorch/pretend_cuda, over tests/gpu_host."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))

import gpu_host_library  # noqa: E402

NAME = "pretend_cuda"
SOURCES = HERE / NAME
captured_globally = gpu_host_library.captured_globally
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


@contextlib.contextmanager
def _use_mem_pool(pool: Any, _: Any = None) -> Iterator[None]:
    pool.begin()
    try:
        yield
    finally:
        pool.end()


class _PluggableAllocator:
    def __init__(self, library: str, *functions: str) -> None:
        named = ctypes.CDLL(library)
        self._functions = tuple(ctypes.cast(getattr(named, name), ctypes.c_void_p).value for name in functions)

    def allocator(self) -> Any:
        return self._functions


def load() -> ModuleType:
    """In a process with environment(): torch has CUDA devices from now on, as far as the tests need them."""
    if NAME not in sys.modules:
        spec = importlib.util.spec_from_file_location(NAME, library())
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[NAME] = module
        torch.distributed.Backend.backend_capability["lanecast"] = ["cpu", "cuda"]  # as where torch has CUDA
        torch.cuda._lazy_init = lambda: None
        torch.cuda.MemPool = module.MemPool
        torch.cuda.use_mem_pool = _use_mem_pool
        torch.cuda.memory.CUDAPluggableAllocator = _PluggableAllocator
    return sys.modules[NAME]
