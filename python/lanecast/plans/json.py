# SPDX-License-Identifier: Apache-2.0
"""Plans as JSON text: all ranks of a collective and the topology they were made for, one step a line."""

import json
from collections.abc import Sequence
from typing import Any

from lanecast._core import Plan, Topology, UsageError

FORMAT = "lanecast-plans"
VERSION = 2


def to_json(plans: Sequence[Plan], topology: Topology) -> str:
    """The plans and their topology as text that from_json() reads again."""
    head = {
        "format": FORMAT,
        "version": VERSION,
        "topology": {"size": topology.size, "levels": topology.levels},
    }
    entries = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    entries.append(' "plans": [\n' + ",\n".join(in_lines(plan.to_dict(), ["steps"]) for plan in plans) + "\n ]")
    return "{\n" + ",\n".join(entries) + "\n}\n"


def from_json(text: str) -> tuple[list[Plan], Topology]:
    """What to_json() wrote. Raises UsageError where the text is none of its kind; verify() says whether it is right."""
    content = content_of(text, "plans", "not a plan file", FORMAT, VERSION)
    try:
        levels = [(name, domain) for name, domain in content["topology"]["levels"]]
        topology = Topology(content["topology"]["size"], levels)
        return [Plan.from_dict(plan) for plan in content["plans"]], topology
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"plans: an entry is missing or of the wrong form: {error}") from error


def content_of(text: str, what: str, otherwise: str, form: str, version: int) -> dict[str, Any]:
    """The entries of a file of that format and version; `otherwise`: what the text is where it has another one."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what}: not JSON: {error}") from error
    if not isinstance(content, dict) or content.get("format") != form:
        raise UsageError(f'{what}: {otherwise}; its first entry should read "format": "{form}"')
    if content.get("version") != version:
        raise UsageError(f"{what}: version {content.get('version')} of the format, but this library reads {version}")
    return content


def in_lines(content: dict[str, Any], lists: Sequence[str]) -> str:
    """One plan or program; the items of these lists get a line each, so that two files compare well."""
    entries = [f"   {json.dumps(key)}: {json.dumps(value)}" for key, value in content.items() if key not in lists]
    for key in lists:
        items = ",\n".join(f"    {json.dumps(item)}" for item in content[key])
        entries.append(f"   {json.dumps(key)}: [" + (f"\n{items}\n   " if items else "") + "]")
    return "  {\n" + ",\n".join(entries) + "\n  }"
