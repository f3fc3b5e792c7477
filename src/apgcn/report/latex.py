"""Artifacts as LaTeX tables."""

from __future__ import annotations

from collections.abc import Iterable

from apgcn.benchmark.artifacts import Artifact

SPECIAL = {
    "\\": r"\textbackslash{}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "–": "--",
    "“": "``",
    "”": "''",
}


def to_latex(artifacts: Iterable[Artifact]) -> str:
    """One `table` environment per artifact; its notes are comments above it."""
    return "\n\n".join(map(_table, artifacts))


def _table(artifact: Artifact) -> str:
    table = artifact.table
    alignment = "".join("l" if column.is_text else "r" for column in table.columns)
    lines = [
        *(f"% {' '.join(note.split())}" for note in artifact.notes),
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{escape(artifact.title[0].upper() + artifact.title[1:])}.}}",
        rf"\label{{tab:{artifact.name}}}",
        rf"\begin{{tabular}}{{{alignment}}}",
        _row(table.headings),
        r"\hline",
        *map(_row, table.cells),
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    row = " & ".join(map(escape, cells))
    return rf"{'{}' if row[:1] in ('[', '*') else ''}{row} \\"  # after \\ a bracket or star would be an argument


def escape(text: str) -> str:
    r"""Text with LaTeX's special characters escaped, on one line.

    >>> print(escape("85.44 ± 0.25 at 5 % of a_b"))
    85.44 $\pm$ 0.25 at 5 \% of a\_b
    """
    return "".join(SPECIAL.get(letter, letter) for letter in " ".join(text.split()))
