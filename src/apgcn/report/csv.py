"""Exhibits as CSV: all digits, one header, the name of the table in the first column."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from apgcn._utils.formatting import printable
from apgcn.benchmark.artifacts import Artifact


def spreadsheet(artifacts: Iterable[Artifact]) -> str:
    """The values of all rows; a column that a table does not have stays empty."""
    rows = [{"table": artifact.name, **row} for artifact in artifacts for row in artifact.table.rows]
    names = list(dict.fromkeys(name for row in rows for name in row)) or ["table"]
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _harmless(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _harmless(value: object) -> object:
    """A text on one line; one that a spreadsheet would take for a formula is marked as text."""
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.lstrip()[:1] in ("=", "+", "-", "@") else text
