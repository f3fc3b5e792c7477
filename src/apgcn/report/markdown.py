"""Exhibits as Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from apgcn.benchmark.artifacts import Artifact, ArtifactTable


def markdown(artifacts: Iterable[Artifact]) -> str:
    """Every exhibit under a heading of its own, with its notes."""
    return "\n\n".join(
        "\n\n".join([f"## {_plain(artifact.heading)}", markdown_table(artifact.table), *map(_plain, artifact.notes)])
        for artifact in artifacts
    )


def markdown_table(table: ArtifactTable) -> str:
    """The columns that readers see.

    >>> from apgcn.benchmark.artifacts import ArtifactColumn
    >>> columns = (ArtifactColumn("model", lambda row: row["model"], words=True), ArtifactColumn("runs", lambda row: str(row["runs"])))
    >>> print(markdown_table(ArtifactTable(columns, ({"model": "a|b", "runs": 3},))))
    | model | runs |
    |---|--:|
    | a\\|b | 3 |
    """
    lines = [_line(table.headings), "|" + "|".join("---" if column.words else "--:" for column in table.columns) + "|"]
    return "\n".join([*lines, *(_line(cells) for cells in table.cells)])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_plain, cells))} |"


def _plain(text: str) -> str:
    """Text that Markdown takes for text, on one line."""
    for mark in "\\|*_`<[~$&":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())
