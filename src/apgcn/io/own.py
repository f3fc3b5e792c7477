"""Which reader is for a file? What its name ends in says so."""

from __future__ import annotations

from pathlib import Path

from apgcn.errors import InvalidInput
from apgcn.io.csv_files import read_csv
from apgcn.io.parquet import read_parquet
from apgcn.io.tables import Table

TEXT = (".csv", ".tsv", ".txt", "")
PARQUET = (".parquet", ".pq")


def read_table(path: Path) -> Table:
    """Read a table of nodes or edges.

    Raises
    ------
    InvalidInput
        If its name ends in something else than .csv, .tsv, .txt or .parquet.
    """
    path = Path(path)
    if path.suffix.lower() in PARQUET:
        return read_parquet(path)
    if path.suffix.lower() in TEXT or path.is_dir():
        return read_csv(path)
    raise InvalidInput(f"{path} must be a table, .csv, .tsv, .txt or .parquet, got {path.suffix}; export it as CSV.")
