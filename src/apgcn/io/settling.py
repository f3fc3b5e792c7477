"""What is done to edges that come as a matrix? What tables do to theirs, and as tables do, it is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from apgcn.errors import InvalidInput
from apgcn.graph import Graph
from apgcn.io.assembling import ReadGraph, Reading, alone
from apgcn.texts import counted


def settled(graph: Graph, edges: sparse.spmatrix | sparse.sparray, *, directed: bool) -> ReadGraph:
    """The graph with these edges: none from a node to itself, each once, with the largest weight.

    Unless it is directed, each in both directions. `edges` may name a pair of nodes more than once.
    """
    ids = graph.ids
    if len(set(ids)) < len(ids):
        raise InvalidInput(f"{graph.name} must have a name of its own for each node, but some have the same.")
    coo = sparse.coo_matrix(edges)
    notes = []
    for left_out, what in ((coo.row == coo.col, "from a node to itself"), (coo.data == 0, "of weight 0")):
        if left_out.any():
            notes.append(f"{graph.name}: left out {counted(int(left_out.sum()), 'edge')} {what}.")
    kept = (coo.row != coo.col) & (coo.data != 0)
    first, second, weights = coo.row[kept].astype(np.int64), coo.col[kept].astype(np.int64), coo.data[kept]
    keys, inverse = np.unique(first * coo.shape[1] + second, return_inverse=True)
    if len(keys) < len(first):
        notes.append(
            f"{graph.name}: merged {counted(len(first) - len(keys), 'edge')} with one given before; the largest weight "
            "counts."
        )
    largest = np.full(len(keys), -np.inf)
    np.maximum.at(largest, inverse, weights)
    adjacency = sparse.csr_matrix((largest, (keys // coo.shape[1], keys % coo.shape[1])), shape=coo.shape)
    if not directed:
        differing = (adjacency != adjacency.T).nnz // 2
        if differing:
            notes.append(
                f"{graph.name}: took {counted(differing, 'edge')} that had two weights, or one direction, in both "
                "directions, with the larger weight."
            )
        adjacency = adjacency.maximum(adjacency.T)
    graph = replace(graph, adjacency=adjacency)
    return ReadGraph(graph, None, [*notes, *alone(graph.adjacency)], Reading(directed=directed))
