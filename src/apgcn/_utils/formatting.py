"""Text for messages: safe to print on a terminal, with nouns in the right number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

FORMULA_SIGNS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four are full-width


def replace_unprintable(text: str) -> str:
    r"""Replace every unprintable character, such as a terminal's control codes, by a space.

    >>> replace_unprintable("a\x1b[31m b\n c")
    'a [31m b  c'
    """
    return "".join(letter if letter.isprintable() else " " for letter in text)


def escape_formula(text: str) -> str:
    """Put a quote before text that a spreadsheet would evaluate as a formula.

    >>> escape_formula("=1+1"), escape_formula("a=1")
    ("'=1+1", 'a=1')
    """
    is_formula = text.lstrip()[:1] in FORMULA_SIGNS or text[:1] in ("\t", "\r")
    return f"'{text}" if text and is_formula else text


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


def format_counts(counts: Mapping[str, int], *, max_shown: int = 8) -> str:
    """Quote names that occur, the most frequent first, with their counts.

    >>> format_counts({"size": 2, "age": 3000, "year": 0})
    "'age' (3,000), 'size' (2)"
    """
    present = sorted((name for name in counts if counts[name]), key=lambda name: -counts[name])
    shown = ", ".join(f"{name!r} ({counts[name]:,})" for name in present[:max_shown])
    return shown if len(present) <= max_shown else f"{shown} and {len(present) - max_shown} more"


def format_duration(seconds: float) -> str:
    """A time in units that people read easily.

    >>> format_duration(7.31), format_duration(75.0), format_duration(3725)
    ('7.3 s', '1 min 15 s', '1 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
