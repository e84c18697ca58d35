# SPDX-License-Identifier: Apache-2.0
"""One name for one type: no two classes, structs or enumerations in src/ have the same."""

import re
from collections import defaultdict
from pathlib import Path

SRC = Path(__file__).parent.parent / "src"

# Names that several types share, and why.
SHARED = {
    "Float16": "a format of elements, as kernels and as CPUs read it; the two share no header",
    "WideSum": "likewise",
    "Sum": "an operator of CPUs' kernels; of a plan's builder, where a sum is written",
    "Peer": "nested: what an object keeps of each peer",
    "State": "nested: the states of a step, or of a mailbox",
    "Status": "nested: MPI's, whose layout each of its ABIs has for itself",
    "Way": "nested: which way a message goes, or where links come from",
}

NO_CODE = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|//[^\n]*|/\*(?:.|\n)*?\*/|"(?:\\.|[^"\\\n])*"')
TYPE = re.compile(
    r"\b(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+(?:alignas\([^)]*\)\s*)?(\w+)(?:\s+final)?\s*"
    r"(?::[^:;{](?:[^;{]|\{\})*)?\{"
)


def types(source: str) -> list[str]:
    """The names that it defines."""
    return TYPE.findall(NO_CODE.sub(" ", source))


def test_what_a_definition_is() -> None:
    source = """
    // struct Comment {
    struct A { class B final : public Base<int> { enum class C : std::uint8_t { one }; }; };
    struct Declared; template <class T> void function(struct Declared* at) {}
    class D : public ns::E { struct alignas(64) F { std::string text = "struct Text {"; }; };
    """
    assert types(source) == ["A", "B", "C", "D", "F"]


def test_no_two_types_of_one_name() -> None:
    found = defaultdict(list)
    for path in sorted(SRC.rglob("*")):
        if path.suffix in {".h", ".cpp", ".cu", ".cuh"}:
            for name in types(path.read_text()):
                found[name].append(str(path.relative_to(SRC)))
    several = {name: places for name, places in found.items() if len(places) > 1}
    unknown = {name: places for name, places in several.items() if name not in SHARED}
    assert not unknown, f"give these names that tell them apart, or say in SHARED why they share one: {unknown}"
    assert several.keys() == SHARED.keys(), f"no longer shared: {SHARED.keys() - several.keys()}"
    assert len(found) > 500  # or the pattern finds nothing any more
