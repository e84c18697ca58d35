# SPDX-License-Identifier: Apache-2.0
"""The C interface: the header stands alone, the library shows nothing else, and every function does what it says."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import gpu_host_library
from lanecast import __version__, traces
from launch import MPICH, OPENMPI, PACKAGE, STRICT, compiled, mpich, openmpi

ROOT = Path(__file__).parent.parent
HEADERS = sorted((ROOT / "include/lanecast").glob("*.h"))
CALLERS = ("interface", "gpu", "gpu_compositions", "nccl")


def declared() -> set[str]:
    """NCCL's names are macros."""
    names = {
        name
        for path in HEADERS
        for name in re.findall(r"LANECAST_API [^(]*?((?:lanecast|nccl)\w+)\(", path.read_text())
    }
    return {name.replace("nccl", "lanecastNccl") if name.startswith("nccl") else name for name in names}


@pytest.mark.parametrize("language", [["c", "-std=c99"], ["c", "-std=c17"], ["c++", "-std=c++11"]], ids=lambda x: x[1])
@pytest.mark.parametrize("header", [path.name for path in HEADERS])
def test_header_compiles_alone(header: str, language: list[str]) -> None:
    program = (
        f"#include <lanecast/{header}>\n"
        "lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;\nlanecastKnobs_t knobs = LANECAST_KNOBS_INITIALIZER;\n"
    )
    command = ["c++" if language[0] == "c++" else "cc", "-x", *language, *STRICT, "-fsyntax-only", "-"]
    subprocess.run(command, input=program.encode(), check=True)


def test_library_shows_what_the_headers_declare_and_nothing_else() -> None:
    listing = subprocess.run(
        ["nm", "--dynamic", "--defined-only", str(PACKAGE / "liblanecast.so")],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    shown = {line.split()[-1] for line in listing.stdout.splitlines()}
    assert shown == declared()


def test_every_function_of_the_headers_is_called() -> None:
    called = "".join((ROOT / f"tests/c/{name}.c").read_text() for name in CALLERS)
    assert [name for name in declared() if f"{name.replace('lanecastNccl', 'nccl')}(" not in called] == []


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_every_function(ranks: int, tmp_path: Path) -> None:
    program = compiled(ROOT / "tests/c/interface.c", tmp_path)
    lines = mpich(ranks, [str(program), str(tmp_path / "traces")]).splitlines()
    (job,) = traces.read(tmp_path / "traces")
    assert sorted(job.ranks) == list(range(ranks))
    major, minor, patch = (int(number) for number in __version__.split("."))
    version = 10000 * major + 100 * minor + patch
    assert sorted(lines) == [f"rank {rank} of {ranks}: version {version}" for rank in range(ranks)]


@pytest.mark.timeout(700)  # the first one builds the driver
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_calls_on_gpus(ranks: int, tmp_path: Path) -> None:
    program = compiled(ROOT / "tests/c/gpu.c", tmp_path)
    mpich(ranks, [str(program), str(tmp_path)], timeout_s=600, **gpu_host_library.environment())


@pytest.mark.timeout(700)
@pytest.mark.parametrize(("ranks", "hosts"), [(1, 1), (2, 1), (3, 1), (3, 2)])
def test_compositions_on_gpus(ranks: int, hosts: int, tmp_path: Path) -> None:
    program = compiled(ROOT / "tests/c/gpu_compositions.c", tmp_path)
    command = f'LANECAST_HOST=host$((PMI_RANK % {hosts})) exec "{program}" "{tmp_path}"'
    mpich(ranks, ["sh", "-c", command], timeout_s=600, **gpu_host_library.environment())


@pytest.mark.timeout(700)
# Of two ranks that are alone on their hosts one would find out only at the deadline that the other has been refused.
@pytest.mark.parametrize(("ranks", "hosts"), [(1, 1), (2, 1), (3, 1), (3, 2)])
def test_a_program_written_for_nccl(ranks: int, hosts: int, tmp_path: Path) -> None:
    program = compiled(ROOT / "tests/c/nccl.c", tmp_path)
    command = f'LANECAST_HOST=host$((PMI_RANK % {hosts})) exec "{program}" PMI_RANK {ranks}'
    mpich(ranks, ["sh", "-c", command], timeout_s=600, XDG_CACHE_HOME=str(tmp_path), **gpu_host_library.environment())


def test_example(tmp_path: Path) -> None:
    program = compiled(ROOT / "examples/c/all_reduce.c", tmp_path)
    assert "over 3 ranks" in mpich(3, [str(program), "100000"])
    refused = subprocess.run([str(program), "4MB"], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "expected a whole number" in refused.stderr


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_library_without_python(tmp_path: Path) -> None:
    """As examples/c/README.md builds it."""
    cmake = str(Path(sys.prefix) / "bin" / "cmake")
    headers = next(iter(find_spec("nlohmann_json").submodule_search_locations))  # type: ignore[union-attr, arg-type]
    build, prefix = str(tmp_path / "build"), tmp_path / "prefix"
    subprocess.run([cmake, "-B", build, "-S", str(ROOT), f"-DNLOHMANN_JSON={headers}/include"], check=True)
    subprocess.run([cmake, "--build", build, "-j", "2"], check=True)
    subprocess.run([cmake, "--install", build, "--prefix", str(prefix)], check=True)
    (library,) = prefix.glob("lib*/**/liblanecast.so")
    program = str(tmp_path / "all_reduce")
    paths = ["-I", str(prefix / "include"), "-L", str(library.parent), f"-Wl,-rpath,{library.parent}"]
    subprocess.run(["cc", str(ROOT / "examples/c/all_reduce.c"), *paths, "-llanecast", "-o", program], check=True)
    assert "over 2 ranks" in mpich(2, [program, "1000"])


def test_process_may_end_without_destroying(tmp_path: Path) -> None:
    source = tmp_path / "leaves.c"
    source.write_text("""
        #include <lanecast/lanecast.h>
        int main(void) {
          lanecastComm_t comm;
          lanecastWork_t work;
          static float x[4];
          return lanecastCommInitMPI(&comm, 0, 0) || lanecastAllReduce(x, x, 4, lanecastFloat32, lanecastSum, comm) ||
                 lanecastAllReduceStart(x, x, 4, lanecastFloat32, lanecastSum, comm, &work) || lanecastWait(work);
        }
    """)
    mpich(2, [str(compiled(source, tmp_path))])


@pytest.mark.parametrize(("ranks", "processes"), [(2, 3), pytest.param(3, 4, marks=pytest.mark.long)])
def test_ranks_with_helpers(ranks: int, processes: int, tmp_path: Path) -> None:
    """All kinds of calls by every number that is tried; no MPI takes part."""
    program = compiled(ROOT / "tests/c/helpers.c", tmp_path)
    command = [str(program), str(ranks), str(processes), sys.executable]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stdout) == (0, f"{ranks} ranks of {processes} processes\n"), done.stderr


@pytest.mark.parametrize("compiler", [MPICH.with_name("mpicc"), OPENMPI / "mpicc"])
def test_ranks_of_an_mpi_with_helpers(compiler: Path, tmp_path: Path) -> None:
    """Which the library starts, since the launcher knows nothing of them."""
    program = compiled(ROOT / "tests/c/mpi_helpers.c", tmp_path, compiler=compiler)
    settings = {"LANECAST_PROCESSES_PER_GPU": "2", "LANECAST_ALLOW_SHARED_CORES": "1"}
    launch = openmpi if compiler.parent == OPENMPI else mpich
    assert launch(2, [str(program), "3", sys.executable], timeout_s=200, **settings).count("as it should be") == 2
