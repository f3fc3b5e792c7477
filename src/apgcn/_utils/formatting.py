"""Text for messages: safe to print on a terminal, with nouns in the right number."""

from __future__ import annotations

from collections.abc import Sequence


def replace_unprintable(text: str) -> str:
    r"""Replace every unprintable character, such as a terminal's control codes, by a space.

    >>> replace_unprintable("a\x1b[31m b\n c")
    'a [31m b  c'
    """
    return "".join(letter if letter.isprintable() else " " for letter in text)


def pluralize(number: int, noun: str) -> str:
    """Write a number with its noun.

    >>> pluralize(1, "edge"), pluralize(1200, "edge")
    ('1 edge', '1,200 edges')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_names(names: Sequence[str], *, max_shown: int = 8) -> str:
    """Quote names with commas between, and count those that are not shown.

    >>> format_names(["id", "topic", "size"], max_shown=2)
    "'id', 'topic' and 1 more"
    """
    shown = ", ".join(repr(name) for name in names[:max_shown])
    return shown if len(names) <= max_shown else f"{shown} and {len(names) - max_shown} more"
