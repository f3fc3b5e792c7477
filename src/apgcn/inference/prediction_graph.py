"""The graph that a saved model predicts: its own, another one, or its own with more nodes and edges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput
from apgcn.inference.bundle import ModelBundle
from apgcn.io.graph_builder import extend_graph
from apgcn.io.schema import TableSchema
from apgcn.io.sources import as_table, has_arrays, load_source
from apgcn.io.structure_encoding import NONE


def graph_to_predict(
    bundle: ModelBundle, edges: Any = None, nodes: Any = None, *, add: bool = False
) -> tuple[Graph, list[str]]:
    """The model's own graph, that of a source, or with `add` the model's own with the nodes and edges of a source.

    Returns the graph, and notes on what was assumed, removed or replaced.

    Parameters
    ----------
    bundle : ModelBundle
    edges, nodes
        As in `load_source`; both None for the model's own graph.
    add : bool

    Raises
    ------
    InvalidInput
        If the source has columns and the model was trained on arrays, or the other way round.
    """
    if edges is None:
        if add or nodes is not None:
            raise InvalidInput("edges must be given with nodes or add=True, got None.")
        return bundle.graph, []
    schema, from_arrays = bundle.schema or TableSchema(), has_arrays(edges, nodes)
    if bundle.encoding is None and not from_arrays:
        raise InvalidInput(
            "the model was trained on arrays, which have no columns; pass a graph with arrays (.npz, Graph, Data), or "
            "use APGCNClassifier.load(folder)."
        )
    if bundle.encoding is not None and from_arrays:
        raise InvalidInput(
            "the model was trained on columns, which arrays do not have; pass tables, a .graphml or a networkx graph."
        )
    if add and not (isinstance(edges, str | Path) or hasattr(edges, "dtypes")):
        raise InvalidInput(f"add=True needs tables of edges and nodes, got {type(edges).__name__}.")
    if add and bundle.encoding is not None:
        new_nodes = None if nodes is None else as_table(nodes, "nodes")
        loaded = extend_graph(
            bundle.graph, as_table(edges, "edges"), new_nodes, schema, bundle.encoding, bundle.structure
        )
        return loaded.graph, loaded.notes
    if add:
        raise InvalidInput("nodes and edges can be added to tables only, but the model was trained on arrays.")
    loaded = load_source(
        edges,
        nodes,
        schema,
        structure=bundle.structure or NONE,
        encoding=bundle.encoding,
        class_names=bundle.model.class_names,
    )
    return loaded.graph, loaded.notes
