"""Parquet tables, read and written with pyarrow."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np

from apgcn._utils.atomic import atomic_write
from apgcn._utils.limits import check_decompressed_size
from apgcn.errors import InvalidInput, MissingFile, MissingPackage
from apgcn.io.tables import Table

VALUE_BYTES = 8  # of a value in memory, at least
BATCH_ROWS = 8192  # that are read at once


def read_parquet(path: Path) -> Table:
    """Read a table.

    Raises
    ------
    MissingFile
        If there is no such file.
    MissingPackage
        If pyarrow is not installed.
    InvalidInput
        If it is a folder or not a Parquet file, or a column holds neither text nor numbers.
    """
    arrow, _ = _import_pyarrow()
    path = Path(path)
    if not path.exists():
        raise MissingFile(f"{path} must be a table, but there is no such file.")
    if path.is_dir():
        raise InvalidInput(f"{path} must be a table, but it is a folder; name a file in it.")
    try:
        with path.open("rb") as file:
            table = _read_batches(path, file)
        table.validate(full=True)
    except InvalidInput:
        raise
    except (arrow.ArrowException, OSError, ValueError) as error:
        reason = _first_line(error)
        raise InvalidInput(f"{path} must be a Parquet file, but cannot be read as one ({reason}).") from error
    names = tuple(str(name) for name in table.column_names)
    if len(set(names)) < len(names) or "" in names:
        raise InvalidInput(f"{path} must have unique, non-empty column names.")
    if not names:
        raise InvalidInput(f"{path} must have columns, but it is empty.")
    return Table(source=str(path), columns=names, cells=[_cells(path, name, table) for name in names])


def _read_batches(path: Path, file: BinaryIO):
    """The Arrow table of a file; it is refused before it is read, or while, when its values do not fit into memory."""
    arrow, parquet = _import_pyarrow()
    reader = parquet.ParquetFile(file)
    check_decompressed_size(path, _declared_size(reader.metadata))
    batches, size = [], 0
    for batch in reader.iter_batches(BATCH_ROWS):  # a long text that is stored once may be the value of all rows
        batches.append(batch)
        size += batch.nbytes
        check_decompressed_size(path, size)
    return arrow.Table.from_batches(batches, schema=reader.schema_arrow)


def _declared_size(metadata) -> int:
    """Bytes that the values of a file take in memory, at least, as its row groups declare it.

    Lists may have any number of values in a row, which their column chunks declare. Those of other columns are not
    queried: pyarrow ends the process if one of them is damaged (an exception of C++ that it does not catch).
    """
    columns = range(metadata.num_columns)
    lists = [number for number in columns if metadata.schema.column(number).max_repetition_level]
    size = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        num_values = group.num_rows * (len(columns) - len(lists))
        num_values += sum(group.column(number).num_values for number in lists)
        size += max(group.total_byte_size, VALUE_BYTES * num_values)
    return size


def write_parquet(path: Path, table: Table) -> None:
    """Write a table atomically; an empty cell becomes a null."""
    arrow, parquet = _import_pyarrow()
    columns = {
        name: arrow.array(cells, from_pandas=True)
        if isinstance(cells, np.ndarray)
        else [cell or None for cell in cells]
        for name, cells in zip(table.columns, table.cells, strict=True)
    }
    atomic_write(Path(path), lambda file: parquet.write_table(arrow.table(columns), file))


def _cells(path: Path, name: str, table) -> list[str] | np.ndarray:
    """Column of an Arrow table as strings or numbers."""
    arrow, _ = _import_pyarrow()
    column = table.column(name)
    dtype = column.type
    if arrow.types.is_dictionary(dtype):
        column = column.cast(dtype.value_type)
        dtype = column.type
    if arrow.types.is_floating(dtype):
        return column.to_numpy(zero_copy_only=False).astype(np.float64)
    if arrow.types.is_integer(dtype) or arrow.types.is_boolean(dtype):
        if not column.null_count:
            return column.to_numpy(zero_copy_only=False).astype(np.uint64 if dtype == arrow.uint64() else np.int64)
        return ["" if value is None else str(int(value)) for value in column.to_pylist()]
    try:  # text, dates, lists and other types
        return ["" if value is None else str(value) for value in column.to_pylist()]
    except (OverflowError, ValueError, arrow.ArrowException) as error:  # dates before year 1, invalid UTF-8
        raise InvalidInput(f"{path}: column {name!r} must contain text or numbers, but does not ({error}).") from error


def _import_pyarrow():
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingPackage('Parquet files need pyarrow: pip install "apgcn[tables]"') from None
    return pyarrow, pyarrow.parquet


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
