"""CSV tables with a header; the delimiter and a decimal comma are detected."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from apgcn._utils.atomic import atomic_write
from apgcn._utils.formatting import format_names
from apgcn.errors import InvalidInput
from apgcn.io.cells import find_decimal_comma
from apgcn.io.index_columns import UNNAMED
from apgcn.io.tables import Header, Table
from apgcn.io.text_files import read_text

DELIMITERS = (",", "\t", ";", "|")
FALLBACK_DELIMITERS = (" ", ":")  # tried only if none of the others splits the lines
SNIFFED_LINES = 20  # from which the delimiter is detected
DELIMITER_LINE = re.compile(r"sep=([,;|\t])[\r\n]", re.IGNORECASE)  # the first line of some files for Excel

csv.field_size_limit(2**27)  # a cell may hold a long text


def read_csv(path: Path) -> Table:
    """Read a table.

    Names of columns that are missing or repeated are reported by `Table.check_header`.

    Raises
    ------
    MissingFile
        If there is no such file.
    InvalidInput
        If it is a folder, empty or not UTF-8 or UTF-16, or a row is longer or shorter than the header.
    """
    path = Path(path)
    text = read_text(path)
    declared = DELIMITER_LINE.match(text)  # as Excel reads and writes
    delimiter = declared.group(1) if declared else detect_delimiter(text)
    lines = list(_parse_rows(path, text, delimiter))[1 if declared else 0 :]
    if not lines:
        raise InvalidInput(f"{path} must begin with a header line of column names, but is empty.")
    (header_line, header), *lines = lines
    rows = [_fit_to_header(path, row, len(header), line=line) for line, row in lines]
    cells = list(zip(*rows, strict=True)) or [()] * len(header)
    named = {column: name.strip() for column, name in enumerate(header)}
    names = {column: name for column, name in named.items() if name or any(map(str.strip, cells[column]))}
    cells = [cells[column] for column in names]
    example = None if delimiter == "," else next(filter(None, map(find_decimal_comma, cells)), None)
    note = f"{path}: cells are separated by {delimiter!r} and numbers have a decimal comma, such as {example!r}."
    return Table(
        source=str(path),
        columns=_column_names(list(names.values())),
        cells=cells,
        line_numbers=[line for line, _ in lines],
        decimal_comma=example is not None,
        header=Header(tuple(names.values()), header_line, problem=_header_problem(path, names, line=header_line)),
        notes=[note] if example else [],
    )


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table atomically."""

    def write(file) -> None:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        writer = csv.writer(_RowWriter(text), lineterminator="\r\n")
        writer.writerow(header)
        writer.writerows(rows)
        text.flush()
        text.detach()

    try:
        atomic_write(Path(path), write)
    except OSError as error:
        raise InvalidInput(f"{path} must be writable, but it is not ({error.strerror}); name another file.") from error


class _RowWriter:
    """Text file for `csv.writer`; its rows end with a line feed.

    Before Python 3.13 `csv.writer` puts quotes around a carriage return only if it ends rows with one.
    """

    def __init__(self, text: io.TextIOWrapper):
        self._text = text

    def write(self, row: str) -> None:
        self._text.write(row.removesuffix("\r\n") + "\n")


def detect_delimiter(text: str) -> str:
    """Delimiter that splits the first lines into most cells, as many in each line.

    >>> detect_delimiter("id;name;born\\n1;Lovelace, A.;1815\\n")
    ';'
    """
    lines = [line for line in text[: 2**16].splitlines()[:SNIFFED_LINES] if line.strip()]
    best = max(DELIMITERS, key=lambda delimiter: _split_quality(lines, delimiter))
    if _split_quality(lines, best)[1] > 1:
        return best
    fallback = max(FALLBACK_DELIMITERS, key=lambda delimiter: _split_quality(lines, delimiter))
    return fallback if _split_quality(lines, fallback)[0] else DELIMITERS[0]


def _split_quality(lines: Sequence[str], delimiter: str) -> tuple[bool, int]:
    """Whether all lines have as many cells as the first, two or more, and the number of cells of the first."""
    try:
        lengths = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
    except csv.Error:
        return False, 0
    return len(set(lengths)) == 1 and lengths[0] > 1, lengths[0] if lengths else 0


def _parse_rows(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with some content, with the line in which it begins."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for row in reader:
            if any(map(str.strip, row)):
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise InvalidInput(f"{path}, line {line} must be a row of a table ({error}); check its quotes.") from None


def _fit_to_header(path: Path, row: list[str], length: int, *, line: int) -> list[str]:
    """Row without empty cells after the last column."""
    if len(row) > length and not any(map(str.strip, row[length:])):
        return row[:length]
    if len(row) != length:
        raise InvalidInput(
            f"{path}, line {line} must have {length} cells like the header, got {len(row)}; "
            "put quotes around a cell that contains the delimiter."
        )
    return row


def _column_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names of columns; one without a name has that of pandas, which no other column has."""
    unnamed = UNNAMED
    while unnamed in names:
        unnamed += ".1"
    return tuple(name or (f"Unnamed: {number}" if number else unnamed) for number, name in enumerate(names))


def _header_problem(path: Path, names: Mapping[int, str], *, line: int) -> str:
    """Message about names that are missing or repeated; the first column may be an index, which has no name."""
    unnamed = [column for column in list(names)[1:] if not names[column]]
    if unnamed:
        return f"{path}, line {line} must name every column, but the name of column {unnamed[0] + 1} is empty."
    duplicates = [name for name, count in Counter(names.values()).items() if count > 1]
    if duplicates:
        return f"{path}, line {line} must have unique column names, but repeats {format_names(duplicates)}."
    return ""
