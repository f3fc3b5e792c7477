"""What does a table or a figure show? Small tables of content; how they are drawn is decided elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_lowercase
from typing import Any, Literal

from apgcn._utils.formatting import printable
from apgcn.benchmark.records import Record

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ArtifactColumn:
    """A column for readers: its heading, and how a row's values become the text of a cell."""

    heading: str
    text: Callable[[Row], str]
    words: bool = False  # aligned to the left


@dataclass(frozen=True)
class ArtifactTable:
    """Rows of values, and columns that show them.

    The values keep all their digits and go into CSV and JSON as they are; a page shows the columns.
    """

    columns: tuple[ArtifactColumn, ...]
    rows: tuple[Row, ...]

    @property
    def headings(self) -> list[str]:
        return [column.heading for column in self.columns]

    @property
    def cells(self) -> list[list[str]]:
        """What a reader sees, row by row."""
        return [[printable(column.text(row)) for column in self.columns] for row in self.rows]

    def divided(self) -> tuple[ArtifactTable, ArtifactTable]:
        """The rows that show something of ours, and those that have the paper's number alone: none of their runs."""
        run = tuple(row for row in self.rows if row.get("runs") != 0)
        return replace(self, rows=run), replace(self, rows=tuple(row for row in self.rows if row.get("runs") == 0))


@dataclass(frozen=True)
class Series:
    """Values y at x, with half-widths of their intervals where they have one."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    half_widths: Sequence[float | None] | None = None
    kind: Literal["line", "bars"] = "line"


@dataclass(frozen=True)
class Panel:
    """One pair of axes. Where bars and lines stand together, `line_title` names the axis of the lines, on the right."""

    title: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    log_x: bool = False
    line_title: str = ""


@dataclass(frozen=True)
class Artifact:
    """A table or a figure of the paper, as our records have it.

    `records` are those that it shows; `origin` is what is behind numbers that are no run's; `notes` say what a reader
    must know to read it right.
    """

    name: str
    title: str
    table: ArtifactTable
    panels: tuple[Panel, ...] = ()
    notes: tuple[str, ...] = ()
    records: tuple[Record, ...] = ()
    origin: ArtifactTable | None = None

    @property
    def heading(self) -> str:
        """The paper's number where it has one: table2 is Table 2."""
        word, number = self.name.rstrip("0123456789"), self.name.lstrip(ascii_lowercase)
        return f"{word.capitalize()} {number}: {self.title}" if number else f"{word.capitalize()}: {self.title}"

    def without_what_was_not_run(self) -> Artifact:
        """The same without the rows that have only the paper's number; a note says how many there were."""
        run, not_run = self.table.divided()
        if not not_run.rows:
            return self
        note = f"Not run here: {len(not_run.rows)} more of the paper's numbers."
        return replace(self, table=run, notes=(*self.notes, note))

    @property
    def recorded(self) -> bool:
        """Whether it shows anything of ours: a row of the paper's numbers alone has no runs."""
        return bool(self.table.divided()[0].rows)
