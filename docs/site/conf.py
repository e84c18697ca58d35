# SPDX-License-Identifier: Apache-2.0
"""The site that `make docs` builds of the pages, of Python's docstrings and of C's headers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lanecast

DOCS = Path(__file__).parent.parent
ROOT = DOCS.parent

project = "Lanecast"
version = release = lanecast.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "hawkmoth", "sphinx_copybutton"]
root_doc = "README"
exclude_patterns = ["site/README.md"]
html_theme = "furo"
html_title = f"Lanecast {release}"
html_theme_options = {"source_edit_link": ""}
html_show_sphinx = False
html_show_copyright = False
html_extra_path = ["index.html"]  # leads to the root document
copybutton_exclude = ".linenos, .gp, .go"

myst_heading_anchors = 4
myst_enable_extensions = ["fieldlist"]
suppress_warnings = ["misc.highlighting_failure"]  # `…` in fragments of programs
autodoc_member_order = "bysource"
autodoc_typehints = "signature"

hawkmoth_root = str(ROOT / "include")
hawkmoth_compiler = "cc"  # whose headers libclang takes: PyPI's brings none of its own
hawkmoth_clang = ["-std=c99", f"-I{ROOT / 'include'}"]

SHELVES = {
    "Guide": [
        *("guide/install", "guide/first-program", "guide/gpus", "guide/between-hosts", "guide/pytorch", "guide/c"),
        *("guide/first-composition", "guide/first-machine", "guide/tuning", "guide/trace", "guide/[!a]*", "guide/*"),
    ],
    "Reference": ["reference/calls", "reference/limits", "site/python", "site/c", "reference/*"],
    "Explanation": ["explanation/path-of-a-call", "explanation/*", "explanation/decisions/README"],
    "Measurements": ["measurements/README"],
}
INSIDE = {
    "explanation/decisions/README": ["[0-9]*"],
    "measurements/README": ["programs", "machines/*", "simulated/*", "processes/*", "history/*"],
}


def toctree(patterns: list[str], caption: str = "") -> str:
    listed = "\n".join(patterns)
    return f"\n\n```{{toctree}}\n:hidden:\n:glob:\n{f':caption: {caption}' if caption else ''}\n\n{listed}\n```\n"


def link_within_the_site(name: str, text: str) -> str:
    """What lies beside the documents, such as sources, is named and not linked."""

    def linked(match: re.Match[str]) -> str:
        label, target = match[1], match[2]
        if re.match(r"\w+:|#", target):
            return match[0]
        there = (DOCS / name).parent.joinpath(target.partition("#")[0]).resolve()
        if there.is_relative_to(DOCS) and there.is_file():
            return match[0]
        path = str(there.relative_to(ROOT))
        return f"{label} (`{path}`)" if path not in label.replace("`", "") else label

    return re.sub(r"(?<!!)\[([^\[\]]*)\]\(([^)\s]+)\)", linked, text)


def read(_: Any, name: str, source: list[str]) -> None:
    if name.startswith("site/"):
        return
    source[0] = link_within_the_site(f"{name}.md", source[0])
    source[0] += "".join(toctree(pages, shelf) for shelf, pages in SHELVES.items()) if name == root_doc else ""
    source[0] += toctree(INSIDE[name]) if name in INSIDE else ""


def as_rst(text: str) -> list[str]:
    """Plain prose, code in backticks, and below a line that ends in a colon an indented list of `name: meaning`."""
    text = re.sub(r"([*_|\\])", r"\\\1", text)
    text = re.sub(r"`([^`]+)`", lambda match: "``" + re.sub(r"\\(.)", r"\1", match[1]) + "``", text)
    lines: list[str] = []
    margin = 0
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if not line.strip() or not indent:
            lines += [""] if margin else []
            margin = 0
            lines.append(line)
        elif not margin or indent <= margin:
            lines += [""] if not margin else []
            margin = indent
            lines.append(f"- {line.strip()}")
        else:
            lines.append(f"  {line.strip()}")
    return [*lines, ""]


def python_docstring(_: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = as_rst("\n".join(lines))


def c_docstring(_: Any, lines: list[str], *rest: Any) -> None:
    lines[:] = as_rst("\n".join(re.sub(r"^\s*\* ?", "", line).strip() for line in lines))


def setup(app: Any) -> None:
    app.connect("source-read", read)
    app.connect("autodoc-process-docstring", python_docstring)
    app.connect("hawkmoth-process-docstring", c_docstring)
