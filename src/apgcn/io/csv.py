"""CSV tables: UTF-8 with a header; the delimiter is detected."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from apgcn._utils.atomic import atomic_write
from apgcn._utils.formatting import format_names
from apgcn.errors import InvalidInput, MissingFile
from apgcn.io.tables import Table

DELIMITERS = (",", "\t", ";", "|")
FALLBACK_DELIMITERS = (" ", ":")  # tried only if none of the others splits the lines
SNIFFED_LINES = 20  # from which the delimiter is detected

csv.field_size_limit(2**27)  # a cell may hold a long text


def read_csv(path: Path) -> Table:
    """Read a table.

    Raises
    ------
    MissingFile
        If there is no such file.
    InvalidInput
        If it is a folder, empty or not UTF-8, or a row is longer or shorter than the header.
    """
    path = Path(path)
    text = _read_text(path)
    rows, line_numbers = [], []
    for line, row in _parse_rows(path, text, detect_delimiter(text)):
        rows.append(row)
        line_numbers.append(line)
    if not rows:
        raise InvalidInput(f"{path} must begin with a header line of column names, but is empty.")
    header = tuple(name.strip() for name in rows[0])
    _check_header(path, header, line=line_numbers[0])
    for line, row in zip(line_numbers[1:], rows[1:], strict=True):
        if len(row) != len(header):
            raise InvalidInput(
                f"{path}, line {line} must have {len(header)} cells like the header, got {len(row)}; "
                "put quotes around a cell that contains the delimiter."
            )
    cells = list(zip(*rows[1:], strict=True)) or [()] * len(header)
    return Table(source=str(path), columns=header, cells=cells, line_numbers=line_numbers[1:])


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


def _read_text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise MissingFile(f"{path} must be a table, but there is no such file.") from None
    except IsADirectoryError:
        raise InvalidInput(f"{path} must be a table, but it is a folder; name a file in it.") from None
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} must be readable, but it is not ({error}).") from error
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InvalidInput(f"{path} must be UTF-8, but it is UTF-16; save it as UTF-8.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidInput(f"{path}, line {line} must be UTF-8, but it is not; save the file as UTF-8.") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InvalidInput(f"{path}, line {line} must be text, but it contains a null byte; is it a table?")
    return text


def _parse_rows(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row that is not blank, with the line in which it begins."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for row in reader:
            if row and (len(row) > 1 or row[0].strip()):
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise InvalidInput(f"{path}, line {line} must be a row of a table ({error}); check its quotes.") from None


def _check_header(path: Path, header: Sequence[str], *, line: int) -> None:
    if "" in header:
        number = header.index("") + 1
        raise InvalidInput(f"{path}, line {line} must name every column, but the name of column {number} is empty.")
    duplicates = [name for name, count in Counter(header).items() if count > 1]
    if duplicates:
        raise InvalidInput(
            f"{path}, line {line} must have unique column names, but repeats {format_names(duplicates)}."
        )
