# SPDX-License-Identifier: Apache-2.0
"""How messages put numbers into words."""


def counted(number: int, noun: str) -> str:
    """ "1 part", "2 parts"."""
    return f"{number} {noun}{'s' * (number != 1)}"
