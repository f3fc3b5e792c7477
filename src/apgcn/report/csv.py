"""Artifacts as CSV: one header, all digits, the name of the table in the first column."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from apgcn._utils.formatting import escape_formula, replace_unprintable
from apgcn.benchmark.artifacts import Artifact


def to_csv(artifacts: Iterable[Artifact]) -> str:
    """Values of all rows of all artifacts; a cell is empty if its table does not have the column."""
    rows = [{"table": artifact.name, **row} for artifact in artifacts for row in artifact.table.rows]
    names = list(dict.fromkeys(name for row in rows for name in row)) or ["table"]
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _to_cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _to_cell(value: object) -> object:
    """Text on one line, escaped if a spreadsheet would evaluate it as a formula; other values unchanged."""
    return escape_formula(replace_unprintable(value)) if isinstance(value, str) else value
