"""How does a graph grow by new nodes and edges?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from apgcn.errors import InvalidInput
from apgcn.graph import Graph
from apgcn.io.assembling import ReadGraph, Reading, adjacency_of, alone, ids_of, labels_of, position_of_id
from apgcn.io.encoding import Encoding
from apgcn.io.tables import Table


def extend(graph: Graph, edges: Table, nodes: Table | None, reading: Reading, encoding: Encoding) -> ReadGraph:
    """The graph with the new nodes, if any, after its own; new edges may end at either.

    It is the graph that one gets by reading all nodes and edges at once, with the same encoding.
    """
    if nodes is None:
        columns = (reading.id or "id", *(column.name for column in encoding.columns))
        nodes = Table(source="the model's graph", columns=columns, cells=[()] * len(columns))
    identity = position_of_id(nodes, reading)
    new = ids_of(nodes, identity) if len(nodes) else {}
    names = graph.ids
    ids = {name: number for number, name in enumerate(names)}
    for text, row in new.items():
        if text in ids:
            raise InvalidInput(
                f"{nodes.at(row, identity)} must be a new node, but {text!r} is one of the model's graph already."
            )
        ids[text] = len(names) + row
    features, notes = encoding.encode(nodes)
    labels, _, _ = labels_of(nodes, reading, graph.class_names)
    more, said = adjacency_of(edges, ids, nodes, reading)
    own = sparse.csr_matrix(graph.adjacency, copy=True)
    own.resize(more.shape)
    adjacency = own.maximum(more)
    return ReadGraph(
        replace(
            graph,
            adjacency=adjacency,
            features=_below(graph.features, features),
            labels=np.concatenate([graph.labels, labels]),
            node_names=tuple(ids),
        ),
        encoding,
        [*notes, *said, *alone(adjacency)],
        reading,
    )


def _below(
    first: sparse.csr_matrix | np.ndarray, second: sparse.csr_matrix | np.ndarray
) -> sparse.csr_matrix | np.ndarray:
    if isinstance(first, np.ndarray):
        return np.vstack([first, second if isinstance(second, np.ndarray) else second.toarray()])
    return sparse.vstack([first, sparse.csr_matrix(second)], format="csr")
