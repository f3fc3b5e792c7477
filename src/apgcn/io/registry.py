"""Which reader is for a file? What its name ends in says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apgcn.data.npz import read_npz
from apgcn.errors import InvalidInput
from apgcn.io.build_graph import ReadGraph, TableSchema, canonical_edges
from apgcn.io.csv import read_csv
from apgcn.io.graphml import read_graphml
from apgcn.io.parquet import read_parquet
from apgcn.io.tables import Table

TEXT = (".csv", ".tsv", ".txt", "")
PARQUET = (".parquet", ".pq")
GRAPHML = (".graphml", ".xml")


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


def read_graph(path: Path, schema: TableSchema = TableSchema(), **trained: Any) -> ReadGraph:
    """Read a whole graph from one file, GraphML or our archive; `trained` is as in `build_graph`.

    Raises
    ------
    InvalidInput
        If its name ends in something else than .graphml, .xml or .npz, or if an archive, whose features and labels have
        no names, comes with a meaning of columns.
    """
    path = Path(path)
    if path.suffix.lower() in GRAPHML or path.is_dir():
        return read_graphml(path, schema, **trained)
    if path.suffix.lower() != ".npz":
        raise InvalidInput(
            f"{path} must be a graph, .graphml or .npz, got {path.suffix}; tables are given as --edges and --nodes."
        )
    if schema != TableSchema(directed=schema.directed):
        raise InvalidInput(f"{path} holds arrays, not columns: leave out --label and what else is said about columns.")
    graph = read_npz(path, name=str(path))
    return canonical_edges(graph, graph.adjacency, directed=schema.directed)
