"""Artifacts as Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from apgcn.benchmark.artifacts import Artifact, ArtifactTable


def to_markdown(artifacts: Iterable[Artifact]) -> str:
    """Every artifact under its heading: the table, then its notes."""
    return "\n\n".join(
        "\n\n".join([f"## {escape(artifact.heading)}", markdown_table(artifact.table), *map(escape, artifact.notes)])
        for artifact in artifacts
    )


def markdown_table(table: ArtifactTable) -> str:
    r"""The columns of a table, with its cells formatted.

    >>> from apgcn.benchmark.artifacts import ArtifactColumn
    >>> model = ArtifactColumn("model", lambda row: row["model"], is_text=True)
    >>> runs = ArtifactColumn("runs", lambda row: str(row["runs"]))
    >>> print(markdown_table(ArtifactTable((model, runs), ({"model": "a|b", "runs": 3},))))
    | model | runs |
    |---|--:|
    | a\|b | 3 |
    """
    alignment = "|".join("---" if column.is_text else "--:" for column in table.columns)
    return "\n".join([_row(table.headings), f"|{alignment}|", *map(_row, table.cells)])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(escape, cells))} |"


def escape(text: str) -> str:
    """Text with Markdown's special characters escaped, on one line."""
    for mark in "\\|*_`<[~$&":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())
