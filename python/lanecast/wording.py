# SPDX-License-Identifier: Apache-2.0
"""How messages put numbers into words."""


def counted(number: int, noun: str) -> str:
    """ "1 part", "2 parts"."""
    return f"{number} {noun}{'s' * (number != 1)}"


_CONTROLS = {code: "?" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def for_a_terminal(text: str) -> str:
    """Text out of a file that somebody else may have written: no code in it moves the cursor or names the window."""
    return text.translate(_CONTROLS)
