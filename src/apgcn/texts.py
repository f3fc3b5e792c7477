"""How is text from outside shown? On one line, without what would steer a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""The text with a blank for each character that is none to look at.

    >>> printable("a\x1b[31m b\n c")
    'a [31m b  c'
    """
    return "".join(letter if letter.isprintable() else " " for letter in text)
