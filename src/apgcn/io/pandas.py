"""Tables from pandas DataFrames, and graphs of two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from apgcn.errors import InvalidInput, MissingPackage
from apgcn.io.feature_encoding import FeatureEncoding
from apgcn.io.graph_builder import LoadedGraph, build_graph
from apgcn.io.schema import ID_COLUMNS, TableSchema
from apgcn.io.structure_encoding import AUTO, Structure
from apgcn.io.tables import Table

if TYPE_CHECKING:
    import pandas


def from_pandas(
    edges: pandas.DataFrame,
    nodes: pandas.DataFrame,
    schema: TableSchema = TableSchema(),
    *,
    name: str = "graph",
    encoding: FeatureEncoding | None = None,
    class_names: Sequence[str] | None = None,
    structure: Structure = AUTO,
) -> LoadedGraph:
    """Convert a DataFrame of edges and one of nodes; see `build_graph`.

    The index of `nodes` holds the ids where the frame has no id column and an index of its own.

    Examples
    --------
    >>> import pandas as pd
    >>> edges = pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"]})
    >>> kinds = ["x", "y", None, "x", "y"]
    >>> nodes = pd.DataFrame({"size": [1.0, 2.5, None, 0.5, 2.0], "kind": kinds}, index=["a", "b", "c", "d", "e"])
    >>> from_pandas(edges, nodes, TableSchema(label="kind")).graph
    Graph('graph', nodes=5, directed_edges=4, features=1, classes=2)
    """
    return build_graph(
        table_from_frame(edges, source="edges"),
        table_from_frame(nodes, source="nodes", id_column=schema.id or ID_COLUMNS),
        schema,
        name=name,
        encoding=encoding,
        class_names=class_names,
        structure=structure,
    )


def table_from_frame(frame: pandas.DataFrame, *, source: str, id_column: str | Sequence[str] | None = None) -> Table:
    """The table of a DataFrame, with the names and the missing values of its columns.

    Parameters
    ----------
    source : str
        Name of the table in messages.
    id_column : str or sequence of str, optional
        Names of the column of ids. If the frame has none of them, but an index that is not a mere count of its rows,
        the index becomes the first column.
    """
    pandas = import_pandas()
    if not isinstance(frame, pandas.DataFrame):
        raise InvalidInput(f"{source} must be a pandas DataFrame, got {type(frame).__name__}.")
    if id_column is not None and not _has_ids(frame, id_column):
        frame = frame.reset_index(names=frame.index.name or ID_COLUMNS[0])
    columns = tuple(map(str, frame.columns))
    twice = sorted({name for name in columns if columns.count(name) > 1}) if len(set(columns)) < len(columns) else []
    if twice:
        raise InvalidInput(f"{source} must have a different name for each column, but {', '.join(twice)} occur twice.")
    cells = [_cells(frame.iloc[:, column], f"{source}, column {name!r}") for column, name in enumerate(columns)]
    return Table(source=source, columns=columns, cells=cells)


def to_frame(columns: Mapping[str, Any]) -> pandas.DataFrame:
    """A DataFrame of columns by name."""
    return import_pandas().DataFrame(dict(columns))


def import_pandas() -> Any:
    """Import pandas, or raise how to install it."""
    try:
        import pandas
    except ImportError:
        raise MissingPackage('DataFrames need pandas: pip install "apgcn[tables]"') from None
    return pandas


def _has_ids(frame: pandas.DataFrame, id_column: str | Sequence[str]) -> bool:
    """Whether the ids are in a column, or the index is a count of the rows and so holds none."""
    names = (id_column,) if isinstance(id_column, str) else id_column
    if {str(column).lower() for column in frame.columns} & {name.lower() for name in names}:
        return True
    index = frame.index
    return index.name is None and isinstance(index, type(frame.reset_index(drop=True).index))


def _cells(column: Any, place: str) -> list[str] | np.ndarray:
    """Numbers as an array, NaN where missing; everything else as text, empty where missing."""
    pandas = import_pandas()
    types = pandas.api.types
    if types.is_complex_dtype(column.dtype):
        raise InvalidInput(f"{place} must be text or real numbers, got {column.dtype}.")
    if types.is_bool_dtype(column.dtype) and not column.isna().any():
        return column.to_numpy(dtype=np.float64)
    if types.is_integer_dtype(column.dtype) and not column.isna().any():
        return column.to_numpy()
    if types.is_numeric_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    missing = column.isna().tolist()
    return ["" if is_missing else _as_text(value, place) for value, is_missing in zip(column, missing, strict=True)]


def _as_text(value: Any, place: str) -> str:
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, list | tuple | dict | set | np.ndarray):
        raise InvalidInput(f"{place} must hold one value per cell, got {type(value).__name__}; make columns of it.")
    return str(value)
