"""A graph from whatever a user has: DataFrames, files, networkx and PyTorch Geometric graphs, or a `Graph`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput
from apgcn.io.graph_builder import LoadedGraph, build_graph
from apgcn.io.networkx import from_networkx
from apgcn.io.pandas import check_frame, table_from_frame, with_categories, with_row_numbers
from apgcn.io.pyg import from_pyg
from apgcn.io.registry import read_graph, read_table
from apgcn.io.schema import TableSchema
from apgcn.io.structure_encoding import Structure, add_structure
from apgcn.io.tables import Table


def load_source(
    edges: Any,
    nodes: Any,
    schema: TableSchema,
    *,
    structure: Structure,
    encoding: Any = None,
    class_names: Sequence[str] | None = None,
) -> LoadedGraph:
    """The graph of two tables (DataFrames or paths), or of one object or file that holds all of it.

    Parameters
    ----------
    edges : DataFrame, path, networkx graph, `Data` or Graph
    nodes : DataFrame or path; None where `edges` is the whole graph
    schema : TableSchema
    structure
        See `build_graph`.
    encoding, class_names
        How a trained model encodes columns, and its classes; None while a model is fitted.

    Raises
    ------
    InvalidInput
        If this is no graph, or if the encoding of columns is given and the graph has arrays.
    """
    options: dict[str, Any] = {"structure": structure, "encoding": encoding, "class_names": class_names}
    is_new = encoding is None
    if nodes is not None:
        edge_table = as_table(edges, "edges")
        if is_new and not isinstance(nodes, str | Path):
            check_frame(nodes, "nodes")
            nodes, schema = with_row_numbers(nodes, edge_table, schema), with_categories(schema, nodes)
        return build_graph(edge_table, as_table(nodes, "nodes"), schema, name="graph", **options)
    if not is_new:  # the format or the object defines ids and endpoints
        schema = replace(schema, id=None, source=None, target=None)
    if isinstance(edges, str | Path):
        return read_graph(Path(edges), schema, **options)
    if hasattr(edges, "adjacency") and hasattr(edges, "nodes"):
        return from_networkx(edges, schema, **options)
    if isinstance(edges, Graph) or hasattr(edges, "edge_index"):
        return _from_arrays(edges, schema, structure=structure)
    raise InvalidInput(
        f"edges must come with nodes, or be a whole graph (networkx, Data, Graph, .graphml, .npz), got "
        f"{type(edges).__name__} alone."
    )


def has_arrays(edges: Any, nodes: Any) -> bool:
    """Whether a source has a matrix of features, not columns that must be encoded."""
    if nodes is not None:
        return False
    if isinstance(edges, str | Path):
        return Path(edges).suffix.lower() == ".npz"
    return isinstance(edges, Graph) or hasattr(edges, "edge_index")


def as_table(data: Any, name: str) -> Table:
    """A table from a DataFrame or a file; `name`, "edges" or "nodes", is for messages about a frame."""
    if isinstance(data, str | Path):
        return read_table(Path(data))
    return table_from_frame(data, source=name, with_index=name == "nodes")


def _from_arrays(graph: Any, schema: TableSchema, *, structure: Structure) -> LoadedGraph:
    """A graph that holds arrays, which have no columns: a `Graph`, or a `Data` of PyTorch Geometric."""
    if schema != TableSchema(directed=schema.directed):
        raise InvalidInput(
            f"a {type(graph).__name__} has arrays, not columns; leave out label and the other arguments about columns."
        )
    if not isinstance(graph, Graph):
        return from_pyg(graph, structure=structure)
    extended, encoding, notes = add_structure(graph, structure)
    return LoadedGraph(extended, None, notes, structure=encoding)
