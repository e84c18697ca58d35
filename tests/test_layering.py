# SPDX-License-Identifier: Apache-2.0
"""Who may include whom: layers point downward only, and the planning layers stay pure."""

import ast
import graphlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src"
PACKAGE = ROOT / "python" / "lanecast"

# Room → the rooms it may include besides itself. Each folder under transport/ is a room of its own: none sees another.
# Those under runtime/ are rooms, too, whose floors stand in RUNTIME.
ALLOWED = {
    "base": set(),
    "topology": {"base"},
    "plan": {"base", "topology"},
    "algorithms": {"base", "topology", "plan"},
    "compose": {"base", "topology", "plan"},
    "select": {"base", "topology", "plan", "algorithms"},
    "program": {"base", "topology", "plan", "device"},  # of the latter the instruction set, one text for both sides
    "transport": {"base"},
    "device": {"base"},
    # Peer memory is reached by launching kernels (decision 0027), NCCL takes a stream, select says how calls are cut.
    "peers": {"base", "device", "select"},
    "runtime": {
        *("base", "topology", "plan", "algorithms", "compose", "select", "transport", "device", "peers", "program"),
    },
    "profiles": {"base", "topology", "plan", "algorithms", "select", "runtime"},
    "helpers": {"base", "algorithms", "runtime"},
    "capi": {
        *("base", "topology", "plan", "algorithms", "compose", "select", "transport", "device", "peers", "program"),
        *("runtime", "profiles", "helpers"),
    },
}
# Rooms inside a room that may include one more: emulated NICs are played by copy engines.
ALSO_ALLOWED = {"transport/emulated": "device/gpu"}
# The rooms of runtime/ from the ground up: each sees those below it, and those beside it on a floor do not see each
# other.
RUNTIME = (("watch",), ("wires",), ("request",), ("bound",), ("agree",), ("host", "gpu"), ("communicator",))
# What every transport may include: the borders themselves (messages, what ranks tell each other beside them, a
# library's own collectives), helpers of those that match and copy by themselves, and of those that let peers read or
# ask.
TRANSPORT_BORDER = {
    "transport/transport.h",
    "transport/witness.h",
    "transport/groups.h",
    "transport/span_cursor.h",
    "transport/tag_queues.h",
    "transport/call_board.h",
    "transport/wait_board.h",
    "transport/want_board.h",
    "transport/notes.h",
}

PURE_ROOMS = ("topology", "plan", "program", "algorithms", "compose", "select")
IMPURE_HEADER = re.compile(
    r"(thread|mutex|shared_mutex|condition_variable|future|latch|barrier|semaphore|stop_token|atomic|chrono|ctime|time\.h)$"
    r"|(pthread|unistd|sched|signal|fcntl|poll)\.h$|sys/|mpi|cuda|hip|nccl"
)

# Package of lanecast → the packages that it may import from besides itself, in functions as well. The modules beside
# the packages are the library; of those the ones below look into a package.
PACKAGES: dict[str, set[str]] = {
    "machines": set(),
    "compose": set(),
    "plans": set(),
    "traces": set(),
    "cluster": set(),
    "helpers": set(),
    "profiles": {"machines"},
    "torch": {"profiles"},
    "bench": {"compose", "helpers"},
    "tune": {"profiles", "bench"},
    "scale": {"machines", "compose", "plans", "bench"},
    "learn": {"machines", "profiles", "bench", "tune", "scale"},
    "cli": {
        *("machines", "compose", "plans", "traces", "cluster", "helpers", "profiles", "bench", "tune", "scale"),
        "learn",
    },
}
MODULES: dict[str, set[str]] = {
    "topologies": {"machines"},
    "communicator": {"compose", "profiles"},
    "emulation": {"cluster"},
    "startup": {"helpers", "machines", "profiles"},
    "__main__": {"cli"},
}

LAZY_MODULES = {"torch", "mpi4py"}

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"(?P<own>[^"]+)"|<(?P<system>[^>]+)>)', re.MULTILINE)


def sources(folder: Path, *suffixes: str) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in suffixes)


def included(path: Path) -> Iterator[re.Match[str]]:
    return INCLUDE.finditer(path.read_text())


def reached(source: str) -> Iterator[tuple[str, str]]:
    """(file, system header) of everything that is included along with this one."""
    pending, seen = [source], {source}
    while pending:
        name = pending.pop()
        for match in included(SRC / name):
            if match["system"]:
                yield name, match["system"]
            elif match["own"] not in seen and (SRC / match["own"]).exists():
                seen.add(match["own"])
                pending.append(match["own"])


def room_of(relative: str) -> str:
    """The first folder, for transports the first two: `transport/shm/ring.h` lies in `transport/shm`."""
    parts = Path(relative).parts
    return "/".join(parts[:2]) if parts[0] == "transport" and len(parts) > 2 else parts[0]


def floor_of(relative: str) -> int:
    """Of a file in runtime/."""
    room = Path(relative).parts[1]
    return next(floor for floor, rooms in enumerate(RUNTIME) if room in rooms)


def may_include(source: str, header: str) -> bool:
    if source.startswith("runtime/") and header.startswith("runtime/"):
        return Path(source).parts[1] == Path(header).parts[1] or floor_of(header) < floor_of(source)
    if header in TRANSPORT_BORDER and source.startswith("transport/"):
        return True
    here, there = room_of(source), room_of(header)
    if here in ALSO_ALLOWED and header.startswith(f"{ALSO_ALLOWED[here]}/"):
        return True
    if here == "peers" and header == "transport/groups.h":  # which a group of peers plays a part of
        return True
    if here == "transport":  # what joins the transports, not one of them
        return there.startswith(("transport", "base"))
    return here == there or there.split("/")[0] in ALLOWED[here.split("/")[0]]


def names(paths: list[Path], base: Path) -> list[str]:
    return [str(path.relative_to(base)) for path in paths]


CPP = names(sources(SRC, ".h", ".cpp", ".cu"), SRC)
# All but what a program imports for its framework: lanecast.torch.
PYTHON = [name for name in names(sources(PACKAGE, ".py"), PACKAGE) if name.split("/")[0] not in LAZY_MODULES]


@pytest.mark.parametrize("source", CPP)
def test_includes_point_downward(source: str) -> None:
    assert room_of(source).split("/")[0] in ALLOWED, f"src/{source} lies in no known room"
    own = [match["own"] for match in included(SRC / source) if match["own"]]
    bare = [header for header in own if not (SRC / header).exists() and not header.startswith("lanecast/")]
    assert not bare, f'src/{source}: write these includes from src/, as in "plan/plan.h": {bare}'
    upward = [header for header in own if (SRC / header).exists() and not may_include(source, header)]
    assert not upward, f"src/{source} includes what lies above or beside it: {upward}"


@pytest.mark.parametrize("source", [name for name in CPP if name.startswith(PURE_ROOMS)])
def test_planning_is_pure(source: str) -> None:
    impure = [f"{header} in {file}" for file, header in reached(source) if IMPURE_HEADER.match(header)]
    assert not impure, f"src/{source} must know no thread, clock, MPI or GPU, but includes {impure}"


def imported_at_module_level(tree: ast.Module) -> Iterator[str]:
    """Modules imported when this one is, so also inside `if` and `try`, but not in functions or for type checkers."""
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        statement = pending.pop()
        if isinstance(statement, ast.Import):
            yield from (alias.name.split(".")[0] for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            yield statement.module.split(".")[0]
        elif isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            pending += statement.orelse
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            pending += [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.stmt)]
            handlers = [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.ExceptHandler)]
            pending += [each for handler in handlers for each in handler.body]


@pytest.mark.parametrize("source", PYTHON)
def test_python_needs_no_framework_to_import(source: str) -> None:
    eager = LAZY_MODULES & set(imported_at_module_level(ast.parse((PACKAGE / source).read_text())))
    assert not eager, f"python/lanecast/{source} imports {eager} at module level; import where it is used"


def modules_imported(source: str) -> set[str]:
    """Modules of lanecast that this one imports, at its head or in functions: `bench.tables`, `wording`."""
    found = set()
    for node in ast.walk(ast.parse((PACKAGE / source).read_text())):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            package, *path = name.split(".")
            if package != "lanecast":
                continue
            while path and not ((PACKAGE / "/".join(path)).is_dir() or (PACKAGE / f"{'/'.join(path)}.py").exists()):
                path.pop()  # a name in a module
            if path:
                found.add(".".join(path))
    return found


def python_room(module: str) -> str:
    """The package, or the module itself where it lies beside the packages."""
    return module.split(".", maxsplit=1)[0]


def as_module(source: str) -> str:
    return source.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


ALL_PYTHON = names(sources(PACKAGE, ".py"), PACKAGE)


@pytest.mark.parametrize("source", ALL_PYTHON)
def test_packages_import_from_those_below_them(source: str) -> None:
    room = python_room(as_module(source))
    inside = "/" in source
    assert not inside or room in PACKAGES, f"python/lanecast/{source} lies in no known package: add it to PACKAGES"
    allowed = PACKAGES[room] | {room} if inside else MODULES.get(room, set())
    beside = {python_room(module) for module in modules_imported(source)} & set(PACKAGES) - allowed
    assert not beside, (
        f"python/lanecast/{source} imports from {sorted(beside)}, which PACKAGES and MODULES do not allow"
    )


@pytest.mark.parametrize("of", [as_module, lambda source: python_room(as_module(source))], ids=["modules", "packages"])
def test_python_imports_in_no_circle(of: Callable[[str], str]) -> None:
    graph: dict[str, set[str]] = {}
    for source in ALL_PYTHON:
        here = of(source)
        there = {of(module.replace(".", "/")) for module in modules_imported(source)}
        graph.setdefault(here, set()).update(there - {here})
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"these import each other: {' → '.join(reversed(error.args[1]))}")


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_every_package_says_what_lives_there(package: str) -> None:
    said = ast.get_docstring(ast.parse((PACKAGE / package / "__init__.py").read_text()))
    assert said, f"python/lanecast/{package}/__init__.py: say what lives here, who comes in and where to begin"


def test_only_what_is_started_imports_commands() -> None:
    importers = {source for source in ALL_PYTHON if "cli" in {python_room(m) for m in modules_imported(source)}}
    assert {source for source in importers if not source.startswith("cli/")} == {"__main__.py"}
    scripts = [path for path in sources(ROOT / "bench", ".py") if "lanecast.cli" in path.read_text()]
    assert scripts == [], "what scripts measure with is in lanecast.bench"
