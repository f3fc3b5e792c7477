"""Content of a table or figure: rows, columns, plotted series and notes, independent of the output format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_lowercase
from typing import Any, Literal

from apgcn._utils.formatting import replace_unprintable
from apgcn.benchmark.records import Record

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ArtifactColumn:
    """Column of an `ArtifactTable`.

    Parameters
    ----------
    heading : str
    format : function
        Text of the cell, from the values of a row.
    is_text : bool
        Whether the cells are text, aligned to the left. Numbers are aligned to the right.
    """

    heading: str
    format: Callable[[Row], str]
    is_text: bool = False


@dataclass(frozen=True)
class ArtifactTable:
    """Rows of values, and the columns that display them.

    The values keep all their digits and are written to CSV and JSON as they are; the other formats display the columns.
    """

    columns: tuple[ArtifactColumn, ...]
    rows: tuple[Row, ...]

    @property
    def headings(self) -> list[str]:
        return [column.heading for column in self.columns]

    @property
    def cells(self) -> list[list[str]]:
        """Formatted cells, row by row."""
        return [[replace_unprintable(column.format(row)) for column in self.columns] for row in self.rows]

    @property
    def with_runs(self) -> ArtifactTable:
        """The rows with results of ours."""
        return replace(self, rows=tuple(row for row in self.rows if row.get("runs") != 0))

    @property
    def without_runs(self) -> ArtifactTable:
        """The rows with the paper's number only, for which nothing was run."""
        return replace(self, rows=tuple(row for row in self.rows if row.get("runs") == 0))


@dataclass(frozen=True)
class Series:
    """Values y at x, with the half-widths of their confidence intervals where they have one."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    half_widths: Sequence[float | None] | None = None
    kind: Literal["line", "bars"] = "line"


@dataclass(frozen=True)
class Panel:
    """One pair of axes. `y2_title` is the title of a second y axis, on the right, for the lines of a bar plot."""

    title: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    log_x: bool = False
    y2_title: str = ""


@dataclass(frozen=True)
class Artifact:
    """A table or figure of the paper, computed from the records of a store.

    Parameters
    ----------
    name : str
        Key in the registry, such as table2.
    title : str
    table : ArtifactTable
    panels : tuple of Panel
        The plots of a figure.
    notes : tuple of str
        Definitions and caveats, displayed below the table.
    records : tuple of Record
        The records that the artifact is computed from.
    provenance : ArtifactTable, optional
        Hardware, versions and commands of measurements that are not training runs.
    """

    name: str
    title: str
    table: ArtifactTable
    panels: tuple[Panel, ...] = ()
    notes: tuple[str, ...] = ()
    records: tuple[Record, ...] = ()
    provenance: ArtifactTable | None = None

    @property
    def heading(self) -> str:
        """The title after the paper's numbering, where there is one: table2 is Table 2."""
        word, number = self.name.rstrip("0123456789"), self.name.lstrip(ascii_lowercase)
        return f"{word.capitalize()} {number}: {self.title}" if number else f"{word.capitalize()}: {self.title}"

    def drop_rows_without_runs(self) -> Artifact:
        """The artifact without the rows that have only the paper's number; a note gives their count."""
        dropped = len(self.table.without_runs.rows)
        if not dropped:
            return self
        note = f"Not run here: {dropped} more of the paper's numbers."
        return replace(self, table=self.table.with_runs, notes=(*self.notes, note))

    @property
    def has_runs(self) -> bool:
        """Whether any row has results of ours."""
        return bool(self.table.with_runs.rows)
