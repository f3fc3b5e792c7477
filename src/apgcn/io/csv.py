"""How are CSV files read and written? In UTF-8, with a header, whatever stands between the cells."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from apgcn._utils.atomic import write_whole
from apgcn.errors import InvalidInput, MissingFile
from apgcn.io.tables import Table, listed

DELIMITERS = (",", "\t", ";", "|")
RARER = (" ", ":")  # only where none of these divides the lines
LOOKED_AT = 20  # lines, to see what stands between the cells

csv.field_size_limit(2**27)  # a cell may hold a long text


def read_csv(path: Path) -> Table:
    """Read a table.

    Raises
    ------
    MissingFile
        If there is no such file.
    InvalidInput
        If it is a folder, empty, no UTF-8, or its rows are not all as long as its header.
    """
    path = Path(path)
    text = _text_of(path)
    rows, lines = [], []
    for line, row in _rows(path, text, delimiter_of(text)):
        rows.append(row)
        lines.append(line)
    if not rows:
        raise InvalidInput(f"{path} must begin with a line of column names, but it is empty.")
    header = tuple(name.strip() for name in rows[0])
    _check_header(path, header, line=lines[0])
    for line, row in zip(lines[1:], rows[1:], strict=True):
        if len(row) != len(header):
            raise InvalidInput(
                f"{path}, line {line} must have {len(header)} cells, as its header has, got {len(row)}; "
                "put quotes around a cell that holds the delimiter."
            )
    cells = list(zip(*rows[1:], strict=True)) or [()] * len(header)
    return Table(source=str(path), columns=header, cells=cells, lines=lines[1:])


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table, whole or not at all."""

    def write(file) -> None:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        table = csv.writer(text, lineterminator="\n")
        table.writerow(header)
        table.writerows(rows)
        text.flush()
        text.detach()

    try:
        write_whole(Path(path), write)
    except OSError as error:
        raise InvalidInput(f"{path} must be writable, but it is not ({error.strerror}); name another file.") from error


def delimiter_of(text: str) -> str:
    """What stands between the cells: what divides the first lines into most cells, all of them alike.

    >>> delimiter_of("id;name;born\\n1;Lovelace, A.;1815\\n")
    ';'
    """
    lines = [line for line in text[: 2**16].splitlines()[:LOOKED_AT] if line.strip()]
    best = max(DELIMITERS, key=lambda one: _divided(lines, one))
    if _divided(lines, best)[1] > 1:
        return best
    rarer = max(RARER, key=lambda one: _divided(lines, one))
    return rarer if _divided(lines, rarer)[0] else DELIMITERS[0]


def _divided(lines: Sequence[str], delimiter: str) -> tuple[bool, int]:
    """Whether all lines have as many cells as the first, two or more, and how many it has."""
    try:
        lengths = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
    except csv.Error:
        return False, 0
    return len(set(lengths)) == 1 and lengths[0] > 1, lengths[0] if lengths else 0


def _text_of(path: Path) -> str:
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
        raise InvalidInput(f"{path}, line {line} must be text, but it holds a zero byte; is it a table?")
    return text


def _rows(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each row that is not blank, and the line in which it begins."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for row in reader:
            if row and (len(row) > 1 or row[0].strip()):
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise InvalidInput(f"{path}, line {line} must be a row of a table ({error}); look at its quotes.") from None


def _check_header(path: Path, header: Sequence[str], *, line: int) -> None:
    if "" in header:
        place = header.index("") + 1
        raise InvalidInput(f"{path}, line {line} must name every column, but that of column {place} is empty.")
    twice = [name for name in dict.fromkeys(header) if header.count(name) > 1]
    if twice:
        raise InvalidInput(f"{path}, line {line} must name every column differently, but has {listed(twice)} twice.")
