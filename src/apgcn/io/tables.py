"""In-memory tables of text and numbers with the line of each row in its file, for error messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property

import numpy as np

from apgcn._utils.formatting import format_names
from apgcn.errors import InvalidInput
from apgcn.io.cells import MAX_STRAY_TEXT, MISSING, are_booleans, first_text, is_number, parse_numbers

MAX_ABS_VALUE = 1e18  # of a number in a cell: its square is well within single precision


@dataclass(frozen=True)
class Header:
    """First line of a table of text.

    Attributes
    ----------
    cells : tuple of str
    line : int
        Where the line begins, counted from 1.
    problem : str
        Message about names that are missing or repeated; empty if there is none. It is raised by `Table.check_header`,
        because the line may be no header.
    """

    cells: tuple[str, ...]
    line: int
    problem: str = ""


@dataclass(frozen=True, eq=False)
class Table:
    """Table of nodes or edges, read from a file or converted from another library.

    Attributes
    ----------
    source : str
        File name or other origin, quoted in messages.
    columns : tuple of str
        Column names, all different.
    cells : list of sequences
        One sequence per column: strings (missing values are listed in `cells.MISSING`), or an array of numbers, NaN
        for a missing value.
    line_numbers : sequence of int, optional
        Line of the file, counted from 1, in which each row begins. Without it messages count rows.
    decimal_comma : bool
        Whether numbers may have a decimal comma.
    header : Header, optional
        The line with the column names, where the names come from a line of text.
    notes : sequence of str
        What the reader assumed, one sentence each.
    """

    source: str
    columns: tuple[str, ...]
    cells: Sequence[Sequence[str] | np.ndarray]
    line_numbers: Sequence[int] | None = None
    decimal_comma: bool = False
    header: Header | None = None
    notes: Sequence[str] = ()
    _numbers: dict[int, np.ndarray | None] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.cells[0]) if self.cells else 0

    @cached_property
    def positions(self) -> dict[str, int]:
        """Index of each column by its name."""
        return {name: index for index, name in enumerate(self.columns)}

    def check_header(self) -> None:
        """Raise if a column name is missing or repeated."""
        if self.header is not None and self.header.problem:
            raise InvalidInput(self.header.problem)

    def column_index(self, name: str, *, option: str) -> int:
        """Index of a column; `option` is the command line option that named it.

        Raises
        ------
        InvalidInput
            If there is no such column; the message suggests the nearest name.
        """
        if name in self.positions:
            return self.positions[name]
        near = get_close_matches(name, self.columns, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"its columns are {format_names(self.columns)}."
        raise InvalidInput(f"{self.source} has no column {name!r} for {option}; {hint}")

    def find_column(self, name: str) -> int | None:
        """Index of the column with this lower-case name, in upper or lower case; None if there is none."""
        lower = [column.lower() for column in self.columns]
        return lower.index(name) if name in lower else None

    def as_text(self, column: int) -> list[str]:
        """Cells of a column as strings without surrounding white space."""
        cells = self.cells[column]
        if isinstance(cells, np.ndarray):
            return ["" if cell != cell else str(cell) for cell in cells.tolist()]
        return [cell.strip() for cell in cells]

    def as_numbers(self, column: int) -> np.ndarray | None:
        """Cells of a column as float64, NaN where the value is missing; None if some cell is text.

        Raises
        ------
        InvalidInput
            If a cell reads infinity, or is too large.
        """
        if column not in self._numbers:
            self._numbers[column] = self._parse_numbers(column)
        return self._numbers[column]

    def _parse_numbers(self, column: int) -> np.ndarray | None:
        cells = self.cells[column]
        if isinstance(cells, np.ndarray):
            values, present = cells.astype(np.float64), ~np.isnan(cells)
        else:
            stripped = [cell.strip() for cell in cells]
            parsed = parse_numbers(stripped, decimal_comma=self.decimal_comma)
            if parsed is None:
                return None
            values, present = parsed, np.array([text not in MISSING for text in stripped], dtype=bool)
        invalid = np.flatnonzero(present & ~(np.abs(values) <= MAX_ABS_VALUE))
        if len(invalid):
            row = invalid[0]
            requirement = (
                f"at most {MAX_ABS_VALUE:g} in absolute value" if np.isfinite(values[row]) else "a finite number"
            )
            raise InvalidInput(
                f"{self.location(row, column)} must be {requirement}, got {str(cells[row]).strip()!r}; "
                "leave the cell empty if the value is missing."
            )
        return values

    def is_boolean(self, column: int) -> bool:
        """Whether a column of text has true or false in each cell that is not missing."""
        cells = self.cells[column]
        return not isinstance(cells, np.ndarray) and are_booleans(cell.strip() for cell in cells)

    def require_numbers(self, column: int) -> np.ndarray:
        """Like `as_numbers`, but a cell with text is an error."""
        values = self.as_numbers(column)
        if values is None:
            cells = self.as_text(column)
            row = first_text(cells, decimal_comma=self.decimal_comma)
            raise InvalidInput(f"{self.location(row, column)} must be a number, got {cells[row]!r}.")
        return values

    def stray_text_row(self, column: int) -> int | None:
        """First row with text in a column in which nearly all cells are numbers; None if there is no such row."""
        cells = self.as_text(column)
        text_rows = [row for row, text in enumerate(cells) if not is_number(text, decimal_comma=self.decimal_comma)]
        present = sum(text not in MISSING for text in cells)
        return text_rows[0] if text_rows and len(text_rows) < MAX_STRAY_TEXT * present else None

    def location(self, row: int, column: int) -> str:
        """File, line and column name of a cell, for messages."""
        line = f"row {row + 1}" if self.line_numbers is None else f"line {self.line_numbers[row]}"
        return f"{self.source}, {line}, column {self.columns[column]!r}"
