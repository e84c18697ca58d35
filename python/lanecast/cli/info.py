# SPDX-License-Identifier: Apache-2.0
"""`lanecast info`: what this installation is and what it finds here. Whatever is missing is said, never a failure."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

import lanecast
import lanecast_torch
from lanecast import _core, cache, compiler, gpu_libraries, job, launch, limits, machines, mpi_library, nics, startup
from lanecast.bench import machine, tables
from lanecast.helpers import report
from lanecast.machines import described
from lanecast.profiles import finding, surprises
from lanecast.profiles.profile import default_folder
from lanecast_torch import takeover

_THREAD_LEVELS = ("single", "funneled", "serialized", "multiple")


def info(
    machine_name: Annotated[
        str, typer.Option("--machine", help="Describe this machine instead: a name, or a TOML file.")
    ] = "",
    what_works: Annotated[
        bool, typer.Option("--limits", help="Print instead which calls work where, as Markdown.")
    ] = False,
) -> None:
    """Show version, libraries, MPI, transports and settings, and what is missing."""
    if what_works:
        typer.echo(limits.markdown(), nl=False)
        return
    if machine_name:
        described_machine = machines.load(machine_name)
        _print(
            {
                "machine": lambda: "\n".join(described.node_lines(described_machine)),
                "levels": lambda: "\n".join(described.level_lines(described_machine)),
                "environment": lambda: "\n".join(described.environment_lines(described_machine)),
                "assumed": lambda: ", ".join(described.assumed_lines(described_machine)) or "nothing",
            }
        )
        return
    found = job.detect()
    if found is None or not found.rank or found.local_rank == 0:
        _print(_SECTIONS)
        return
    # Ranks of one host find the same: one shows it, the others what is theirs. MPI is started by all ranks or none.
    with contextlib.suppress(Exception):
        _mpi()
    _print({name: _SECTIONS[name] for name in ("started by", "NIC", "processes")})


def _print(sections: dict[str, Callable[[], str]]) -> None:
    indent = " " * (max(map(len, sections)) + 2)
    columns = shutil.get_terminal_size((tables.WIDE, 0)).columns if launch.is_terminal("stdout") else tables.WIDE
    width = max(columns, 2 * len(indent))
    wrapper = textwrap.TextWrapper(width - len(indent), break_long_words=False, break_on_hyphens=False)
    shown = Text()  # of all sections, printed at once: ranks share the terminal
    for title, facts in sections.items():
        try:
            text = facts()
        except Exception as error:
            text = f"unknown: {error}"
        lines = [line for fact in text.splitlines() for line in wrapper.wrap(fact)]
        shown.append(title.ljust(len(indent)), style="bold").append(f"\n{indent}".join(lines) + "\n")
    tables.console().print(shown, end="", soft_wrap=True)


def _version() -> str:
    commit = machine.git_commit()
    return lanecast.__version__ + (f", commit {commit}" if commit else "")


def _core_library() -> str:
    extension = Path(_core.__file__)
    library = extension.with_name("liblanecast.so")
    before_nccl = extension.with_name("liblanecast_nccl.so")  # on x86-64
    return "\n".join(
        [
            str(extension),
            str(library) if library.is_file() else "liblanecast.so is missing: `make install` builds it",
            *([f"{before_nccl}: to be preloaded by programs for NCCL"] if before_nccl.is_file() else []),
        ]
    )


def _kernels() -> str:
    usable = _core.kernel_variants()
    return f"{usable[0]} in use; this CPU can run {', '.join(usable)}"


def _mpi() -> str:
    library = mpi_library.find_mpi()
    text = f"{library.version}, {library.abi} ABI\n{library.path}"
    found = job.detect()
    if found is None or found.obstacle() or _core.inherited_rank():
        return f"{text}\nthread level: shown when a launcher has started this command"
    return f"{text}\nthread level: {_THREAD_LEVELS[startup.mpi().init()]}"


def _mpiexec() -> str:
    launcher = launch.find_launcher()
    if launcher is None:
        return "none beside this Python or on PATH; lanecast bench runs its ranks as threads"
    return f"{launcher.path} ({launcher.mpi_name})"


def _ucx() -> str:
    """With what it knows of GPUs, and the others here that know more."""
    version, path = _core.ucx()
    (_, *in_use), *others = _core.ucx_libraries()
    kinds = ("CUDA", "ROCm")
    known = [kind for kind, is_known in zip(kinds, in_use, strict=True) if is_known]
    lines = [f"{version}\n{path}", f"modules for the memory of GPUs: {', '.join(known) or 'none'}"]
    for other, *knows in others:
        more = [kind for kind, is_known in zip(kinds, knows, strict=True) if is_known and kind not in known]
        if more:
            lines.append(f"LANECAST_UCX_LIBRARY={other} takes the one that has them for {' and '.join(more)}")
    return "\n".join(lines)


def _gpu_compiler() -> str:
    """Of the vendor whose driver is here; of NVIDIA where there is none."""
    try:
        amd = _core.gpu_driver()[0].startswith("HIP")
    except lanecast.UsageError:
        amd = False
    return "\n".join(_core.gpu_compiler(amd, gpu_libraries.folders()))


def _gpu_kernels() -> str:
    """What came with the library, and where each kind of GPU here takes its kernels from."""
    folder, targets = _core.gpu_kernel_package()
    lines = [f"for {', '.join(targets)}\n{folder}" if targets else "none came with this library"]
    with contextlib.suppress(lanecast.UsageError):  # no GPU
        lines += [f"{gpu}: {_kernels_of(gpu)}" for gpu in sorted({each["architecture"] for each in _core.gpus()})]
    return "\n".join(lines)


def _kernels_of(architecture: str) -> str:
    lines: list[str] = []
    for target, fault in _core.gpu_packaged_kernels(architecture):
        if not fault:
            how = ", which the driver compiles once" if target.startswith("compute_") else ""
            return "\n".join([f"those that came for {target}{how}", *lines])
        lines.append(f"left aside: {fault}")
    cache_folder = str(_core.user_cache("kernels") or "")
    try:
        cached = _core.gpu_kernels_are_cached(architecture, gpu_libraries.folders(), cache_folder)
    except lanecast.UsageError as error:
        return "\n".join([f"none: {str(error).splitlines()[0].rstrip(':')}", *lines])
    how = (
        f"compiled before, in {cache_folder}" if cached else f"compiled by the first communicator, into {cache_folder}"
    )
    return "\n".join([how, *lines])


def _gpus() -> str:
    lines = (
        f"{ordinal}: {gpu['name']}, {gpu['architecture']}, "
        f"{gpu['multiprocessors']} multiprocessors, {gpu['pci_bus_id']}"
        for ordinal, gpu in enumerate(_core.gpus())
    )
    return "\n".join(lines)


def _or_none(facts: Callable[[], str]) -> Callable[[], str]:
    """Of what a machine without a GPU lacks: one line instead of all places where it was looked for."""

    def found() -> str:
        try:
            return facts()
        except lanecast.UsageError as error:
            return str(error).splitlines()[0].rstrip(":")

    return found


def _launched_by() -> str:
    found = job.detect()
    if found is None:
        return "no launcher: this process is a job of one rank"
    lines = [str(found), "believed " + ", ".join(found.believed)]
    return "\n".join([*lines, *filter(None, (found.obstacle(), _core.inherited_rank()))])


def _variables() -> str:
    found = machine.set_variables()
    known = _core.VARIABLES
    unset = [name for name in known if name not in found]
    lines = [f"{name}={value}" for name, value in found.items()]
    unknown = [name for name in found if name.startswith("LANECAST_") and name not in known]
    return "\n".join([*lines, *(f"{name} is unknown, so no communicator can be made" for name in unknown),
                      f"not set: {', '.join(unset)}"])  # fmt: skip


def _described() -> str:
    topology = os.environ.get("LANECAST_TOPOLOGY", "")
    if not topology.startswith(machines.PREFIX):
        return f"known: {', '.join(machines.known())}; `lanecast info --machine NAME` shows one"
    found = machines.load(topology.removeprefix(machines.PREFIX))
    return "\n".join([*described.node_lines(found), *described.environment_lines(found)])


def _torch() -> str:
    if importlib.util.find_spec("torch") is None:
        return "not installed; with it, torch.distributed has the backend lanecast"
    version = importlib.metadata.version("torch")
    places = cache.places("torch")
    found = [path for place in places for path in sorted(place.folder.glob("*/*.so"))]
    kept = [*map(str, found), *map(_distrust, found)]
    if _came_along(version):
        kept = [f"its adapter came along, {_came_along(version)}"]
    first = [f"its adapter is compiled at first use, into {places[0].folder}", _distrust(places[0].folder)]
    return "\n".join(
        [
            f"{version}; torch.distributed has the backend {lanecast_torch.NAME}",
            _taken_over(),
            *filter(None, kept or first),
            *(f"passed to {name}: {', '.join(calls)}" for name, calls in lanecast_torch.PASSED_ON.items()),
        ]
    )


def _came_along(version: str) -> str:
    release, _, _ = version.partition("+")
    adapters = Path(lanecast.__file__).parent / "torch" / "adapters" / compiler.PYTHON
    found = list((adapters / release).glob("*.so"))
    return str(found[0]) if found else ""


def _taken_over() -> str:
    variable, others = lanecast_torch.VARIABLE, "programs that ask for nccl, gloo or nothing"
    value = os.environ.get(variable, "")
    if value in {"", "0"}:
        return f"{variable}=1 gives it to {others}"
    if value != "1":
        return f"{variable}={value} has no effect: {takeover.VALUES}"
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        return f"{variable}=1 has no effect: TORCH_DEVICE_BACKEND_AUTOLOAD=0; python -m lanecast.torch run does without"
    return f"{variable}=1: {others} get it, too; {variable}=0 goes back"


def _distrust(path: Path) -> str:
    """Why what lies there is not used; empty: it is."""
    try:
        _core.trusted_path(path)
    except lanecast.UsageError as error:
        return f"not used: {error}"
    return ""


def _profiles() -> str:
    where = finding.wanted(None)
    if where:
        return f"{finding.VARIABLE}={where}"
    folder = default_folder()
    names = sorted(path.name for path in folder.glob("*.json"))
    found = f"{folder}: {', '.join(names) if names else 'none; `lanecast tune --quick` measures one'}"
    return "\n".join(filter(None, [found, _distrust(folder)]))


def _surprises() -> str:
    found = surprises.lines()
    remedy = ["`lanecast tune` and `lanecast learn measure` look there first"] if found else []
    return "\n".join([*found, *remedy]) or "none: no choice was much slower than a profile had predicted"


_SECTIONS: dict[str, Callable[[], str]] = {
    "lanecast": _version,
    "core": _core_library,
    "built with": lambda: _core.BUILT_WITH,
    "CPU kernels": _kernels,
    "MPI": _mpi,
    "mpiexec": _mpiexec,
    "GPU driver": _or_none(lambda: "\n".join(_core.gpu_driver())),
    "GPUs": _or_none(_gpus),
    "GPU kernels": _gpu_kernels,
    "GPU compiler": _or_none(_gpu_compiler),
    "NCCL": _or_none(lambda: "\n".join(_core.nccl(gpu_libraries.folders()))),
    "UCX": _or_none(_ucx),
    "started by": _launched_by,
    "NIC": lambda: str(nics.pin()),
    "processes": lambda: "\n".join(report.lines(job.detect())),
    "transports": lambda: ", ".join(_core.TRANSPORTS),
    "host": _core.host_identity,
    "machine": lambda: f"{_core.cpu_model()}, {launch.cores()} of {os.cpu_count()} cores usable, {platform.platform()}",
    "described": _described,
    "profiles": _profiles,
    "surprises": _surprises,
    "torch": _torch,
    "Python": lambda: f"{platform.python_version()}, {sys.executable}",
    "environment": _variables,
}
