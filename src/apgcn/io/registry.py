"""Readers by file suffix.

To add a file format, write its reader and one line of `FORMATS`; `docs/extending.md` has the steps.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from apgcn.data.npz import read_npz_and_edges
from apgcn.errors import InvalidInput
from apgcn.io.csv import read_csv
from apgcn.io.graph_builder import LoadedGraph, with_canonical_edges
from apgcn.io.graphml import read_graphml
from apgcn.io.parquet import read_parquet
from apgcn.io.schema import TableSchema
from apgcn.io.structure_encoding import AUTO
from apgcn.io.tables import Table


class FileFormat(NamedTuple):
    """File suffixes and reader of a format.

    Attributes
    ----------
    content : "table" or "graph"
        Whether a file holds one table, of nodes or of edges, or a whole graph.
    suffixes : tuple of str
        In lower case, with the dot; "" is for a file name without a suffix.
    read : callable
        `read(path) -> Table`, or `read(path, schema, **build_options) -> LoadedGraph`.
    """

    content: Literal["table", "graph"]
    suffixes: tuple[str, ...]
    read: Callable[..., Any]


def read_npz_graph(path: Path, schema: TableSchema = TableSchema(), **build_options: Any) -> LoadedGraph:
    """Read an archive that `write_npz` wrote; its features and labels are encoded, so only `structure` is used of
    `build_options`.

    Raises
    ------
    InvalidInput
        If the schema names columns, which arrays do not have.
    """
    if schema != TableSchema(directed=schema.directed):
        raise InvalidInput(f"{path} contains arrays, not columns; omit --label and the other options about columns.")
    graph, edges = read_npz_and_edges(path, name=str(path))
    return with_canonical_edges(graph, edges, directed=schema.directed, structure=build_options.get("structure", AUTO))


PIPES_OF_THE_SHELL = (Path("/dev/fd"), Path("/proc/self/fd"))  # of `<(command)`, which end

# A folder is passed to the first table format or the first graph format, whose reader raises that it is a folder.
FORMATS: dict[str, FileFormat] = {
    "csv": FileFormat("table", (".csv", ".tsv", ".txt", ""), read_csv),
    "parquet": FileFormat("table", (".parquet", ".pq"), read_parquet),
    "graphml": FileFormat("graph", (".graphml", ".xml"), read_graphml),
    "npz": FileFormat("graph", (".npz",), read_npz_graph),
}


def read_table(path: Path) -> Table:
    """Read a table of nodes or edges.

    Raises
    ------
    InvalidInput
        If the file's suffix is not one of a table format.
    """
    path = Path(path)
    return _find_format(path, "table", "export the table as CSV").read(path)


def read_graph(path: Path, schema: TableSchema = TableSchema(), **build_options: Any) -> LoadedGraph:
    """Read a whole graph from one file; `build_options` are those of `build_graph`.

    Raises
    ------
    InvalidInput
        If the file's suffix is not one of a graph format, or if arrays come with a schema that names columns.
    """
    path = Path(path)
    return _find_format(path, "graph", "pass tables as --edges and --nodes").read(path, schema, **build_options)


def _find_format(path: Path, content: Literal["table", "graph"], hint: str) -> FileFormat:
    formats = [file_format for file_format in FORMATS.values() if file_format.content == content]
    if path.is_dir():
        return formats[0]
    if path.exists() and not path.is_file() and path.parent not in PIPES_OF_THE_SHELL:
        raise InvalidInput(f"{path} must be a file, but it is a named pipe or a device; write its content into a file.")
    for file_format in formats:
        if path.suffix.lower() in file_format.suffixes:
            return file_format
    *others, last = [suffix for file_format in formats for suffix in file_format.suffixes if suffix]
    suffixes = f"{', '.join(others)} or {last}"
    raise InvalidInput(f"{path} must be a {content} ({suffixes}), got {path.suffix or 'no suffix'}; {hint}.")
