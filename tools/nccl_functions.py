# SPDX-License-Identifier: Apache-2.0
"""Writes the functions of an NCCL that liblanecast_nccl.so passes on as they come: src/capi/preload/passed_on.def.

tools/nccl_functions.py …/nvidia/nccl/lib/libnccl.so.2
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "src/capi/preload"
HEAD = """// SPDX-License-Identifier: Apache-2.0
// Functions of NCCL that go to NCCL as they come, by tools/nccl_functions.py: all but those that have one of ours here.
"""


def functions_of(library: str) -> list[str]:
    """Those that its header declares, and their twins for tools, pncclX."""
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1] for line in listing.splitlines()}
    return sorted(name for name in names if re.match(r"p?nccl[A-Z]", name) and not name.endswith("Internal"))


def ours() -> set[str]:
    text = "".join(path.read_text() for path in FOLDER.glob("*.cpp"))
    return set(re.findall(r"^(?:ncclResult_t|const char\*) (nccl[A-Z]\w*)\(", text, re.MULTILINE))


def main() -> None:
    names = [name for name in functions_of(sys.argv[1]) if name not in ours()]
    (FOLDER / "passed_on.def").write_text(HEAD + "".join(f"PASSED_ON({name})\n" for name in names))


if __name__ == "__main__":
    main()
