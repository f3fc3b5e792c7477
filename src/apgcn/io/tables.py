"""What is a table? Named columns in which every cell knows its place, so that a mistake can be pointed at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

import numpy as np

from apgcn.errors import InvalidInput

SLIPS = 0.1  # of a column's cells may be text, and it was meant to hold numbers
LARGEST = 1e18  # number in a cell: its square is well within single precision


@dataclass(frozen=True, eq=False)
class Table:
    """What a file, or another library, says about nodes or edges.

    Attributes
    ----------
    source : str
        Where it is from, for what is said about it.
    columns : tuple of str
        Their names, all different.
    cells : list of sequences
        Column by column: texts, in which an empty one is a missing value, or an array of numbers, in which NaN is.
    lines : sequence of int, optional
        In which line of the file, counted from 1, each row begins. Without it rows are counted.
    """

    source: str
    columns: tuple[str, ...]
    cells: Sequence[Sequence[str] | np.ndarray]
    lines: Sequence[int] | None = None
    _numbers: dict[int, np.ndarray | None] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.cells[0]) if self.cells else 0

    def position(self, column: str, *, option: str) -> int:
        """Where a column stands; `option` is how the user came to name it."""
        if column in self.columns:
            return self.columns.index(column)
        near = get_close_matches(column, self.columns, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"its columns are {listed(self.columns)}."
        raise InvalidInput(f"{self.source} has no column {column!r} for {option}; {hint}")

    def find(self, column: str) -> int | None:
        """Where a column stands whose name is usual, in large or small letters; None if there is none."""
        lower = [name.lower() for name in self.columns]
        return lower.index(column) if column in lower else None

    def texts(self, position: int) -> list[str]:
        """A column as text, the spaces around each cell left out."""
        cells = self.cells[position]
        if isinstance(cells, np.ndarray):
            return ["" if cell != cell else str(cell) for cell in cells.tolist()]
        return [cell.strip() for cell in cells]

    def numbers(self, position: int) -> np.ndarray | None:
        """A column as numbers, NaN where one is missing; None if some cell is text.

        Raises
        ------
        InvalidInput
            At a cell that says NaN or infinity.
        """
        if position not in self._numbers:
            self._numbers[position] = self._as_numbers(position)
        return self._numbers[position]

    def _as_numbers(self, position: int) -> np.ndarray | None:
        cells = self.cells[position]
        if isinstance(cells, np.ndarray):
            values, given = cells.astype(np.float64), ~np.isnan(cells)
        else:
            try:
                values = np.array([cell.strip() or "nan" for cell in cells], dtype=np.float64)
            except ValueError:
                return None
            given = np.array([bool(cell.strip()) for cell in cells], dtype=bool)
        wrong = np.flatnonzero(given & ~(np.abs(values) <= LARGEST))
        if len(wrong):
            what = f"at most {LARGEST:g} in size" if np.isfinite(values[wrong[0]]) else "a finite number"
            raise InvalidInput(
                f"{self.at(wrong[0], position)} must be {what}, got {str(cells[wrong[0]]).strip()!r}; "
                "leave the cell empty if the value is missing."
            )
        return values

    def all_numbers(self, position: int) -> np.ndarray:
        """The same of a column that must not hold text."""
        values = self.numbers(position)
        if values is None:
            texts = self.texts(position)
            row = next(number for number, text in enumerate(texts) if not _is_number(text))
            raise InvalidInput(f"{self.at(row, position)} must be a number, got {texts[row]!r}.")
        return values

    def slip(self, position: int) -> int | None:
        """The first row with text in a column of text that nearly always holds numbers; None if it does not."""
        texts = self.texts(position)
        wrong = [row for row, text in enumerate(texts) if text and not _is_number(text)]
        given = sum(map(bool, texts))
        return wrong[0] if wrong and len(wrong) < SLIPS * given else None

    def at(self, row: int, position: int) -> str:
        """The place of a cell, in words."""
        place = f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"
        return f"{self.source}, {place}, column {self.columns[position]!r}"


def listed(names: Sequence[str], *, most: int = 8) -> str:
    """Some names, with commas between."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _is_number(text: str) -> bool:
    try:
        float(text or "0")
    except ValueError:
        return False
    return True
