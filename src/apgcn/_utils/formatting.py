"""How is text shown? What is from outside on one line, without what would steer a terminal; numbers with a noun."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""The text with a blank for each character that is none to look at.

    >>> printable("a\x1b[31m b\n c")
    'a [31m b  c'
    """
    return "".join(letter if letter.isprintable() else " " for letter in text)


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "edge"), counted(1200, "edge")
    ('1 edge', '1,200 edges')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
