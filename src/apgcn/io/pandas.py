"""Tables from pandas DataFrames, and graphs of two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from apgcn.errors import InvalidInput, MissingPackage
from apgcn.io.cells import without_decimal_zero
from apgcn.io.feature_encoding import FeatureEncoding
from apgcn.io.graph_builder import LoadedGraph, build_graph
from apgcn.io.index_columns import UNNAMED
from apgcn.io.schema import ID_COLUMNS, TableSchema, find_endpoint_columns
from apgcn.io.structure_encoding import AUTO, Structure
from apgcn.io.tables import Table

if TYPE_CHECKING:
    import pandas

MAX_INTEGER = 2.0**53  # beyond it a float does not hold every integer


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

    A named index of `nodes` holds the ids where no column is named as usual; one without a name is treated as a column
    without a name in a file: the edges decide. A column of categories becomes a feature for each.

    Examples
    --------
    >>> import pandas as pd
    >>> edges = pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"]})
    >>> kinds = ["x", "y", None, "x", "y"]
    >>> nodes = pd.DataFrame({"size": [1.0, 2.5, None, 0.5, 2.0], "kind": kinds}, index=["a", "b", "c", "d", "e"])
    >>> from_pandas(edges, nodes, TableSchema(label="kind")).graph
    Graph('graph', nodes=5, directed_edges=4, features=1, classes=2)
    """
    edge_table = table_from_frame(edges, source="edges")
    return build_graph(
        edge_table,
        table_from_frame(with_row_numbers(nodes, edge_table, schema), source="nodes", with_index=True),
        with_categories(schema, nodes),
        name=name,
        encoding=encoding,
        class_names=class_names,
        structure=structure,
    )


def table_from_frame(frame: pandas.DataFrame, *, source: str, with_index: bool = False) -> Table:
    """The table of a DataFrame, with the names and the missing values of its columns.

    Parameters
    ----------
    source : str
        Name of the table in messages.
    with_index : bool
        Whether an index that is not a mere count of the rows becomes the first column; without a name it is called as
        pandas writes it into a file.
    """
    pandas = import_pandas()
    check_frame(frame, source)
    if isinstance(frame.index, pandas.MultiIndex):
        raise InvalidInput(f"{source} must have an index of one level, got {frame.index.nlevels}; try reset_index().")
    columns = tuple(map(str, frame.columns))
    series = [frame.iloc[:, column] for column in range(len(columns))]
    if with_index and _is_informative(frame):
        columns = (UNNAMED if frame.index.name is None else str(frame.index.name), *columns)
        series = [frame.index.to_series(), *series]
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise InvalidInput(f"{source} must have a different name for each column, but {', '.join(twice)} occur twice.")
    cells = [_cells(column, f"{source}, column {name!r}") for column, name in zip(series, columns, strict=True)]
    return Table(source=source, columns=columns, cells=cells)


def check_frame(frame: Any, source: str) -> None:
    """Raise `InvalidInput` unless this is a DataFrame; `source` is its name in the message."""
    if not isinstance(frame, import_pandas().DataFrame):
        raise InvalidInput(f"{source} must be a pandas DataFrame, got {type(frame).__name__}.")


def with_row_numbers(nodes: pandas.DataFrame, edges: Table, schema: TableSchema) -> pandas.DataFrame:
    """The frame with its index called `id` where the edges name nodes by the number of their row.

    That is so if no column has a usual name for ids, the index counts the rows, and the first column does not have an
    id for every edge.

    Raises
    ------
    InvalidInput
        If both the index and the first column have.
    """
    names = [str(name).lower() for name in nodes.columns]
    if schema.id is not None or not names or set(names) & set(ID_COLUMNS) or _is_informative(nodes):
        return nodes
    numbers = {str(number) for number in range(len(nodes))}
    used = {
        without_decimal_zero(text) for column in find_endpoint_columns(edges, schema) for text in edges.as_text(column)
    }
    first = [without_decimal_zero(str(value)) for value in nodes.iloc[:, 0]]
    if not used or not used <= numbers or first == [str(number) for number in range(len(nodes))]:
        return nodes
    if len(set(first)) == len(first) and used <= set(first):
        raise InvalidInput(
            f"nodes must have one column of node ids, but both the index and {nodes.columns[0]!r} have an id for each "
            f"edge; pass id={nodes.columns[0]!r}, or for the index nodes.rename_axis('id')."
        )
    return nodes.rename_axis("id")


def with_categories(schema: TableSchema, nodes: pandas.DataFrame) -> TableSchema:
    """The schema with one-hot features for the columns of categories that it does not name."""
    pandas = import_pandas()
    if not isinstance(nodes, pandas.DataFrame):
        return schema
    named = {schema.id, schema.label, *schema.one_hot, *schema.bag_of_words, *schema.ignore}
    categories = [
        str(name)
        for name, dtype in zip(nodes.columns, nodes.dtypes, strict=True)
        if isinstance(dtype, pandas.CategoricalDtype) and str(name) not in named | set(ID_COLUMNS)
    ]
    return replace(schema, one_hot=(*schema.one_hot, *categories))


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


def _is_informative(frame: pandas.DataFrame) -> bool:
    """Whether the index may hold ids: it does not count the rows, and no column has its name or a usual one."""
    index = frame.index
    if index.name is None:
        is_range = isinstance(index, import_pandas().RangeIndex)
        return not (is_range and index.start == 0 and index.step == 1)
    names = {str(column).lower() for column in frame.columns}
    return str(index.name).lower() not in names and not names & set(ID_COLUMNS)


def _cells(column: Any, place: str) -> list[str] | np.ndarray:
    """Numbers as an array, NaN where missing; everything else as text, empty where missing.

    Integers stay integers where some are missing, for which pandas makes them floats: ids and classes are text.
    """
    types = import_pandas().api.types
    if types.is_complex_dtype(column.dtype):
        raise InvalidInput(f"{place} must be text or real numbers, got {column.dtype}.")
    missing = column.isna().to_numpy()
    if types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype):
        if types.is_integer_dtype(column.dtype) and not missing.any():
            return column.to_numpy()
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        present = values[~missing]
        if missing.any() and (np.abs(present) < MAX_INTEGER).all() and (present == np.round(present)).all():
            return ["" if is_missing else str(int(value)) for value, is_missing in zip(values, missing, strict=True)]
        return values
    return ["" if is_missing else _as_text(value, place) for value, is_missing in zip(column, missing, strict=True)]


def _as_text(value: Any, place: str) -> str:
    if isinstance(value, list | tuple | dict | set | np.ndarray):
        raise InvalidInput(f"{place} must hold one value per cell, got {type(value).__name__}; make columns of it.")
    return str(value)
