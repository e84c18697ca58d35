# SPDX-License-Identifier: Apache-2.0
"""How much a class of the runtime offers, and who sees inside: small interfaces, and friends with a reason."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src"
HEADERS = sorted(str(path.relative_to(SRC)) for path in SRC.rglob("*.h"))
OF_RUNTIME = [header for header in HEADERS if header.startswith("runtime/")]

MOST_METHODS = 25

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])+'")
CLASS = re.compile(r"\b(?P<kind>class|struct)\s+(?P<name>[\w:]+)\s*(?:final\s*)?(?::[^:;{][^;{]*)?$")
ACCESS = re.compile(r"^\s*(public|protected|private)\s*:(?!:)")
FRIEND = re.compile(r"^\s*friend\s+(class|struct)\b")  # not operators, which see nothing that users do not
# Not what `=` begins, so no member with an initializer.
METHOD = re.compile(r"(?P<name>operator\s*[^\s(]+(?:\s*\(\))?|~?\w+)\s*\(")
TEMPLATE = re.compile(r"^\s*template\s*<[^{;]*?>\s*(?=[\w\[])")


def bare(text: str) -> str:
    """Without comments and texts, which may hold braces."""
    return TEXT.sub('""', COMMENT.sub("", re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)))


def statements(body: str) -> Iterator[tuple[str, str | None]]:
    """(declaration, what stands in its braces) of everything on one floor."""
    begin, k = 0, 0
    while k < len(body):
        if body[k] == ";":
            yield body[begin:k], None
            begin = k + 1
        elif body[k] == ":" and ACCESS.match(body[begin : k + 1]) and body[k + 1 : k + 2] != ":":
            yield body[begin : k + 1], None
            begin = k + 1
        elif body[k] in "{(":
            close = {"{": "}", "(": ")"}[body[k]]
            depth, end = 0, k
            while True:
                depth += {body[k]: 1, close: -1}.get(body[end], 0)
                if depth == 0:
                    break
                end += 1
            if body[k] == "{":
                # Braces of an initializer end by a semicolon, and so does a class.
                yield body[begin:k], body[k + 1 : end]
                begin = end + 1
            k = end
        k += 1


def classes(text: str) -> Iterator[tuple[str, list[str]]]:
    """(name, public methods) of each class; constructors, destructors and deleted ones are none."""
    for head, inside in statements(text):
        if inside is None:
            continue
        if re.search(r"\b(namespace|extern)\b[^()]*$", head):
            yield from classes(inside)
        elif match := CLASS.search(head.strip()):
            name = match["name"]
            is_public = match["kind"] == "struct"
            methods: list[str] = []
            for declared, _ in statements(inside):
                declaration = declared
                while access := ACCESS.match(declaration):
                    is_public = access[1] == "public"
                    declaration = declaration[access.end() :]
                method = method_of(declaration, name.rsplit("::", maxsplit=1)[-1])
                if method and is_public:
                    methods.append(method)
            yield name, methods
            yield from classes(inside)


def method_of(declaration: str, name: str) -> str | None:
    declaration = TEMPLATE.sub("", declaration).strip()
    if re.search(r"=\s*delete$", declaration) or re.match(r"(using|typedef|friend|static_assert)\b", declaration):
        return None
    match = METHOD.search(declaration)
    if not match or "=" in declaration[: match.start()]:
        return None
    found = match["name"]
    # `std::function<void(int)> member`
    if declaration[: match.start()].count("<") > declaration[: match.start()].count(">"):
        return None
    return None if found.lstrip("~") == name else found


SAMPLE = """
namespace lanecast {
/// A brace { and a text "}" that are none.
class Sample final : public Base {
 public:
  explicit Sample(int x) : x_{x} {}
  ~Sample();
  Sample(const Sample&) = delete;
  int one() const { return [] { return 1; }(); }
  template <class Part>
  auto two(const Part& part) -> decltype(part());
  static void three(std::function<void(int)> f = {});
  bool operator==(const Sample& other) const = default;
  std::function<void(int)> member;
  struct Inner {
    void four();
    int data = f();
  };

 private:
  void hidden();
};
struct Outer::Plain {
  void five();
};
}
"""


def test_reads_classes() -> None:
    assert dict(classes(bare(SAMPLE))) == {
        "Sample": ["one", "two", "three", "operator=="],
        "Inner": ["four"],
        "Outer::Plain": ["five"],
    }


@pytest.mark.parametrize("header", OF_RUNTIME)
def test_interfaces_are_small(header: str) -> None:
    large = {name: len(methods) for name, methods in classes(bare((SRC / header).read_text()))}
    large = {name: count for name, count in large.items() if count > MOST_METHODS}
    assert not large, (
        f"src/{header}: more than {MOST_METHODS} public methods: {large}; a part of it is a class of its own"
    )


@pytest.mark.parametrize("header", HEADERS)
def test_friends_have_a_reason(header: str) -> None:
    lines = (SRC / header).read_text().splitlines()
    for before, line in zip(["", *lines], lines, strict=False):
        if FRIEND.match(line):
            assert "//" in line or before.strip().startswith("//"), f"src/{header}: say why: {line.strip()}"
