# SPDX-License-Identifier: Apache-2.0
"""The documents are true: their programs run and print what they show, their commands exist, their tables are whole."""

from __future__ import annotations

import functools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import dropwhile
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

import lanecast
from lanecast import _core, launch
from lanecast.bench import gpu_processes, runner, training
from lanecast.cli import app
from lanecast.cluster import registry
from lanecast.cluster.cluster import Cluster
from lanecast.learn import gpu_measuring
from lanecast.scale import build

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "tests" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
SOURCES = {".c", ".cpp", ".cu", ".cuh", ".h", ".py", ".toml"}
JOB = re.compile(r"mpirun -n (\d+)")
TORCHRUN = re.compile(r"torchrun --nproc-per-node (\d+)")  # programs that tests/pytorch runs, where torch is


@dataclass(frozen=True)
class Fence:
    """A fenced block, with the text block right below it, where there is one."""

    where: str
    language: str
    body: str
    shown: str


@functools.cache  # of two hundred commands each asks for all pages
def fences(language: str) -> list[Fence]:
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Fence(f"{page.relative_to(ROOT)}:{line}", match[1], match[2], match[3] or ""))
    return [fence for fence in found if fence.language == language]


def timeless(text: str) -> str:
    """Durations differ from run to run."""
    return re.sub(r"\d+\.\d+ s\b", "… s", text)


def program_of(fence: Fence, file: Path) -> tuple[list[str], dict[str, str]]:
    """Command and environment; on as many ranks as the block's first line says."""
    program = [sys.executable, str(file)]
    job = JOB.search(fence.body.partition("\n")[0])
    if job is None:
        return program, {}
    launcher = launch.find_launcher()
    if launcher is None:
        pytest.skip("no mpiexec beside this Python or on PATH")
    return launcher.command(int(job[1]), program), launcher.environment(int(job[1]))


@pytest.mark.parametrize(
    "fence", [fence for fence in fences("python") if not TORCHRUN.search(fence.body)], ids=lambda fence: fence.where
)
def test_programs_run_and_print_what_is_shown(fence: Fence, tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text(fence.body)
    command, environment = program_of(fence, file)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert timeless(done.stdout) == timeless(fence.shown)


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every `lanecast …`: whole lines of shell blocks, and what stands in a sentence."""
    for fence in [*fences("sh"), *fences("console")]:
        for line in fence.body.splitlines():
            if fence.language == "console" and not line.startswith("$ "):
                continue
            words = shlex.split(line.removeprefix("$ "), comments=True)
            words = list(dropwhile(lambda word: re.match(r"[A-Z_]+=", word), words))
            if words[:1] == ["lanecast"]:
                yield fence.where, words[1:]
    for page in PAGES:
        for code in re.findall(r"`lanecast ([^`]+)`", re.sub(FENCE, "", page.read_text())):
            yield page.name, shlex.split(code)


@pytest.mark.parametrize(("where", "words"), dict.fromkeys((where, tuple(words)) for where, words in commands()))
def test_commands_are_accepted(
    where: str, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "traces" in words:
        lanecast.run_threads(2, lambda comm: comm.barrier(), trace_dir="traces", trace_steps=True)
    for fence in [*fences("python"), *fences("toml")]:  # files that a page names lie there
        if name := re.match(r"# (\w+\.(?:py|toml))\b", fence.body):
            (tmp_path / name[1]).write_text(fence.body)
    # Pictures are laid out and not painted.
    monkeypatch.setattr(Figure, "savefig", lambda _, path, **__: Path(path).touch())
    # Benchmarks are judged, options and algorithms and all, and not run.
    monkeypatch.setattr(launch, "start_ranks", lambda *_: (_ for _ in ()).throw(SystemExit(0)))
    monkeypatch.setattr(launch, "job", lambda *_: (_ for _ in ()).throw(SystemExit(0)))
    monkeypatch.setattr(gpu_processes, "start_ranks", lambda *_, **__: (_ for _ in ()).throw(SystemExit(0)))
    monkeypatch.setattr(runner, "_compare", lambda *_: None)
    for module in (training, gpu_measuring):
        monkeypatch.setattr(module, "require_torch", lambda: (_ for _ in ()).throw(SystemExit(0)))
    # So are simulations.
    monkeypatch.setattr(build, "simulator", lambda *_: (_ for _ in ()).throw(SystemExit(0)))
    # So are clusters, and none that is up is taken down.
    monkeypatch.setattr(Cluster, "start", lambda *_: (_ for _ in ()).throw(SystemExit(0)))
    monkeypatch.setattr(registry, "find", lambda *_: None)
    is_name = not any(word.startswith("-") for word in words) and len(words) < 3
    done = CliRunner().invoke(app, [*words, "--help"] if is_name else list(words))
    assert done.exit_code == 0, f"{where}: lanecast {shlex.join(words)}: {done.exception or done.output}"


def table(first_heading: str, page: str) -> list[list[str]]:
    """Rows of the page's tables whose first column has this heading."""
    text = (ROOT / page).read_text()
    found = re.findall(rf"^\| {first_heading} \|.*\n\|[- |]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert found, f"{page} has no table of {first_heading}s"
    return [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")] for rows in found for line in rows.splitlines()
    ]


GATHERING = ("all_gather", "reduce_scatter", "all_reduce")
# The table's words for the numbers of ranks that an algorithm takes.
RANKS: dict[str, Callable[[int], bool]] = {
    "any": lambda n: True,
    "even": lambda n: n % 2 == 0,
    "powers of two": lambda n: n.bit_count() == 1,
}


def ranks_of(algorithm: str) -> str:
    numbers = range(1, 17)
    takes = [all(row["takes"] for row in _core.algorithm_rows(n) if row["name"] == algorithm) for n in numbers]
    return next((word for word, rule in RANKS.items() if takes == [rule(n) for n in numbers]), f"takes: {takes}")


def test_algorithms_are_those_of_the_registry() -> None:
    registered: dict[str, tuple[str, str]] = {}
    others: set[tuple[str, str]] = set()
    for row in _core.algorithm_rows(1):
        if row["collectives"][0] in GATHERING:
            collectives = "all three" if "all_gather" in row["collectives"] else "all-reduce"
            registered.setdefault(row["name"], (collectives, ranks_of(row["name"])))
        else:
            others.add((", ".join(row["collectives"]).replace("_", "-"), row["name"]))
    page = "docs/reference/collectives.md"
    written = {(collectives, name) for collectives, name, *_ in table("collective", page)[5:]}
    of_all_reduce = {name: ("all-reduce", "any") for collective, name in written if collective == "all-reduce"}
    three = {name: (collectives, ranks) for name, collectives, _, _, ranks in table("algorithm", page)}
    assert three | of_all_reduce == registered
    assert {row for row in written if row[0] != "all-reduce"} == others


def test_variables_and_transports_are_those_of_the_core() -> None:
    assert [row[0] for row in table("variable", "docs/reference/environment.md")] == list(_core.VARIABLES)
    assert [row[0] for row in table("transport", "docs/guide/first-machine.md")] == list(_core.TRANSPORTS)
    mentioned = {name for page in PAGES for name in re.findall(r"\bLANECAST_[A-Z_]+\b", page.read_text())}
    # Of CMake and of C; misspelt on purpose; the prefix.
    not_variables = {"LANECAST_MPI_HEADER", "LANECAST_KERNELS", "LANECAST_CONFIG_INITIALIZER"}
    not_variables |= {"LANECAST_TIMEOT", "LANECAST_"}
    assert mentioned - not_variables <= set(_core.VARIABLES)


def anchors(page: Path) -> set[str]:
    """Of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(FENCE, "", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_messages_that_the_page_of_errors_lists_are_ones_of_the_library() -> None:
    """The words between numbers and variables stand in some source."""
    files = [path for folder in ("src", "python") for path in (ROOT / folder).rglob("*") if path.suffix in SOURCES]
    sources = re.sub(r'"\s+f?"', "", "".join(path.read_text() for path in files))  # literals that go on
    quoted = [row[0] for row in table("the message says", "docs/reference/errors.md")]
    words = [part.strip(" ,") for code in quoted for part in re.split(r"\d[\d.]*|LANECAST_\w+", code)]
    assert [part for part in words if part not in sources] == []


PATH_OF_A_CALL = ROOT / "docs" / "explanation" / "path-of-a-call.md"


def room_of(file: Path) -> str:
    """As that page counts rooms: a folder in src or src/runtime, a package of Python, or `bindings`."""
    first, *rest = file.relative_to(ROOT).parts
    if first == "python":
        return f"python/{rest[0]}"
    return first if first == "bindings" else rest[rest[0] == "runtime"]


def steps_of_paths() -> Iterator[tuple[str, list[str], set[str]]]:
    """(heading, steps, rooms that are said) of each of the page's lists."""
    for section in re.split(r"^## ", PATH_OF_A_CALL.read_text(), flags=re.MULTILINE)[1:]:
        said = re.search(r"\*\*(\d+) rooms:\*\*(.*?)\.\s", section, re.DOTALL)
        assert said, section.splitlines()[0]
        rooms = re.findall(r"`([^`]+)`", said[2])
        assert len(set(rooms)) == int(said[1])
        yield section.splitlines()[0], re.findall(r"^\d+\. (.*)$", section, re.MULTILINE), set(rooms)


def test_the_path_of_a_call_goes_by_functions_and_rooms_that_are_there() -> None:
    """Each step names a file and a function in it, and the rooms that are said are those of the files."""
    paths = list(steps_of_paths())
    counts = [len(rooms) for _, _, rooms in paths]
    assert [most >= count for most, count in zip((12, 10, 14), counts, strict=True)] == [True] * 3, counts
    gone: list[str] = []
    rooms_before: list[set[str]] = []
    for heading, steps, said in paths:
        rooms: list[set[str]] = []
        for step in steps:
            if same := re.match(r"Steps 1 to (\d+) of the list above are the same", step):
                rooms += rooms_before[: int(same[1])]
                continue
            links = re.findall(r"\]\(([^)]+)\)((?:,? (?:or |and )?`[^`]+`)*)", step)
            assert links, f"{heading}: a step without a file: {step}"
            files = [(PATH_OF_A_CALL.parent / link).resolve() for link, _ in links]
            rooms.append({room_of(file) for file in files})
            gone += [
                f"{heading}: {file.name} has no {name}"
                for file, (_, names) in zip(files, links, strict=True)
                for name in re.findall(r"`([^`]+)`", names)
                if not all(re.search(rf"\b{part}\b", file.read_text()) for part in re.split(r"::|\.", name))
            ]
        assert set().union(*rooms) == said, heading
        rooms_before = rooms
    assert gone == []


def test_links_lead_somewhere() -> None:
    broken = []
    for page in [*PAGES, ROOT / "CHANGELOG.md", ROOT / "examples" / "c" / "README.md"]:
        for target in re.findall(r"\]\(([^):]+)\)", page.read_text()):
            file, _, anchor = target.partition("#")
            there = page.parent / file if file else page
            if not there.exists() or (anchor and anchor not in anchors(there)):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


def test_functions_of_the_core_that_pages_show_are_what_stands_there() -> None:
    sources = "".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.cpp")))
    shown = fences("cpp")
    assert shown
    assert [fence.where for fence in shown if fence.body not in sources] == []


def test_pages_that_sources_name_are_there() -> None:
    """In comments, help and error texts, which no link would break in."""
    folders = ("src", "include", "bindings", "simulator", "tools", "python", "bench", "examples", "tests")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in SOURCES]
    files += [ROOT / "CMakeLists.txt", ROOT / "Makefile", ROOT / "pyproject.toml"]
    found = {
        (str(file.relative_to(ROOT)), page)
        for file in files
        for page in re.findall(r"(?<![\w/.])docs/[\w/-]+\.md\b", file.read_text())
    }
    assert [(file, page) for file, page in sorted(found) if not (ROOT / page).exists()] == []


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "explanation" / "decisions"
    listed = re.findall(r"^\| \[\d+\]\((.+?)\)", (folder / "README.md").read_text(), re.MULTILINE)
    assert listed == sorted(page.name for page in folder.glob("0*.md"))


def test_the_map_of_the_tests_is_whole() -> None:
    folder = ROOT / "tests"
    cells = [row[1] for row in table("subject", "tests/README.md")]
    cells += [row[0] for row in table("helper", "tests/README.md")]
    named = [name.strip().strip("`") for cell in cells for name in cell.split(",")]
    there = {f"{at.name}/" if at.is_dir() else at.stem for at in folder.iterdir() if at.name != "README.md"}
    there = {name for name in there if not name.startswith(("_", "."))}
    missing = sorted(name for name in there if not any(fnmatch(name, pattern) for pattern in named))
    assert missing == [], "tests/README.md does not name these; add each to its row"
    gone = [pattern for pattern in named if not any(fnmatch(name, pattern) for name in there)]
    assert gone == [], "tests/README.md names what is no longer in tests"
