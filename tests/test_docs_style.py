# SPDX-License-Identifier: Apache-2.0
"""The documents are short and plain: shelves, lengths, sentences, no commits; programs and commands run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from launch import compiled, mpich
from test_docs import FENCE, JOB, PAGES, ROOT, Fence, fences

DOCS = ROOT / "docs"
GUIDE = sorted((DOCS / "guide").glob("*.md"))
DECISIONS = DOCS / "explanation" / "decisions"
NOTES = DOCS / "measurements" / "history"  # of a laboratory: kept as they were written, hashes and all
USERS = [page for page in PAGES if NOTES not in page.parents]
WORDS = {ROOT / "README.md": 700, ROOT / "CONTRIBUTING.md": 900, **dict.fromkeys(GUIDE, 900)}
HASH = re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,12}\b")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def words_of(text: str) -> list[str]:
    return [word for word in text.split() if re.search(r"\w", word)]


def plain(text: str) -> str:
    """Without pictures, without where links lead; code counts as a word."""
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"`[^`]*`", "Code", text)


def sentences(text: str) -> Iterator[str]:
    """Full stops, question and exclamation marks end one; colons and semicolons do not."""
    for piece in re.split(r"(?:(?<=[.?!])|(?<=[.?!][)*\"”]))\s+(?![a-z])", " ".join(text.split())):
        if words_of(piece):
            yield piece


def thoughts(text: str) -> Iterator[str]:
    """As Flesch counts: colons and semicolons end one, too."""
    yield from re.split(r"(?<=[:;])\s+", text)


def blocks(page: Path) -> tuple[list[str], list[str]]:
    """Paragraphs and points of a list; cells of tables."""
    paragraphs, cells = [""], []
    for line in re.sub(FENCE, "\n", page.read_text()).splitlines():
        if line.startswith("|"):
            cells += line.strip("|").split("|")
        elif not line.strip() or line.startswith(("#", "    ", "<!--")):
            paragraphs.append("")
        elif re.match(r"\s*([-*]|\d+\.) ", line):
            paragraphs.append(re.sub(r"^\s*([-*]|\d+\.) ", "", line))
        else:
            paragraphs[-1] += f" {line}"
    return [plain(paragraph) for paragraph in paragraphs], [plain(cell) for cell in cells]


@pytest.mark.parametrize("page", USERS, ids=named)
def test_sentences_are_short(page: Path) -> None:
    """Decisions are records: their thoughts are counted, and not the median."""
    record = DECISIONS in page.parents
    paragraphs, cells = blocks(page)
    prose = [sentence for block in paragraphs for sentence in sentences(block)]
    every = [*prose, *(sentence for cell in cells for sentence in sentences(cell))]
    if record:
        every = [thought for sentence in every for thought in thoughts(sentence)]
    assert [sentence for sentence in every if len(words_of(sentence)) > 40] == [], "more than 40 words"
    if prose and not record:
        assert median(len(words_of(sentence)) for sentence in prose) <= 16


def test_sentences_begin_with_what_they_are_about() -> None:
    """Not "Of a call that ...", nor "all but for ...": who reads English as a second language reads these twice."""
    pages = [page for page in USERS if DECISIONS not in page.parents]
    prose = [sentence for page in pages for block in blocks(page)[0] for sentence in sentences(block)]
    assert [sentence for sentence in prose if re.search(r"^\W*Of\b|\bbut for\b", sentence)] == []


@pytest.mark.parametrize("page", WORDS, ids=named)
def test_pages_that_people_read_through_are_short(page: Path) -> None:
    assert len(page.read_text().split()) <= WORDS[page]


def test_no_commit_is_named_outside_of_measurements() -> None:
    found = {named(page): HASH.findall(page.read_text()) for page in PAGES if DOCS / "measurements" not in page.parents}
    assert {page: hashes for page, hashes in found.items() if hashes} == {}


def linked(text: str) -> list[str]:
    return re.findall(r"\]\(([^)#]+\.md)(?:#[^)]*)?\)", text)


def test_every_page_is_one_link_from_the_index() -> None:
    index = (DOCS / "README.md").read_text()
    rows = [line for line in index.splitlines() if line.startswith("| ") and "](" in line]
    assert 18 <= len(rows) <= 26
    assert [row for row in rows if len(linked(row)) != 1] == []
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    behind = {page for page in pages if page.startswith(("explanation/decisions/0", "measurements/", "README"))}
    assert pages - behind - set(linked(index)) == set()
    guides = {page for page in pages if page.startswith("guide/")}
    assert guides <= {target for row in rows for target in linked(row)}


def test_every_measurement_is_one_link_from_their_page() -> None:
    folder = DOCS / "measurements"
    there = {str(page.relative_to(folder)) for page in folder.rglob("*.md")} - {"README.md"}
    assert there - set(linked((folder / "README.md").read_text())) == set()


def test_pages_of_figures_are_what_the_command_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "bench")
    import figures

    differing = [named(page) for page, text in figures.pages().items() if page.read_text() != text]
    assert differing == [], "run `make figures`"


SETTING = re.compile(r"[A-Z_]+=")
OF_THE_SHELL = {"sh", "cc", "cd", "cat", "pip", "apt-get", "cmake", "export", ".", "mkdir", "ln"}
STARTERS = {"mpirun", "mpiexec", "srun", "torchrun", "python", "lanecast"}


def shell_lines() -> Iterator[tuple[str, str]]:
    for fence in fences("sh"):
        yield from ((fence.where, line) for line in fence.body.splitlines() if line.strip())
    for fence in fences("console"):
        yield from ((fence.where, line[2:]) for line in fence.body.splitlines() if line.startswith("$ "))


def shown_files() -> set[str]:
    """Programs that some page shows, and those that this is said of."""
    shown = {name for fence in [*fences("python"), *fences("toml"), *fences("c")]
             for name in re.findall(r"\A(?:# |/\* )([\w.]+\.(?:py|toml|c))\b", fence.body)}  # fmt: skip
    return shown | {line.split()[1] for _, line in shell_lines() if line.startswith("cat ")}


def test_commands_shown_are_ones_that_exist() -> None:
    """`lanecast …` is run by test_docs.py; here: make's targets, scripts, and files that a page shows."""
    targets = set(re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wrong = []
    for where, line in shell_lines():
        for command in re.split(r"\s&&\s", line):
            words = [word for word in shlex.split(command, comments=True) if not SETTING.match(word)]
            if not words or re.match(r"\w+=\$\(", command) or words[0] in OF_THE_SHELL:
                continue
            first = words[0]
            if first == "make":
                known = all(word in targets for word in words[1:] if "=" not in word)
            elif first in STARTERS or first.startswith(".venv/bin/"):
                files = [word for word in words[1:] if re.fullmatch(r"[\w./]+\.(py|sh)", word)]
                known = all((ROOT / file).exists() or file in shown_files() for file in files)
            else:
                known = (ROOT / first).exists()
            if not known:
                wrong.append(f"{where}: {command}")
    assert wrong == []


@pytest.mark.parametrize(
    "fence", [fence for fence in fences("c") if "int main(" in fence.body], ids=lambda fence: fence.where
)
def test_programs_in_c_run_and_print_what_is_shown(fence: Fence, tmp_path: Path) -> None:
    source = tmp_path / "shown.c"
    source.write_text(fence.body)
    job = JOB.search(fence.body.partition("\n")[0])
    assert mpich(int(job[1]) if job else 2, [str(compiled(source, tmp_path))]) == fence.shown
