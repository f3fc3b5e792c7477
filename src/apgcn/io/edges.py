"""Canonical edges: no self-loops, each edge once with its largest weight, both directions unless the graph is directed.

Every function also returns notes: one sentence for each thing that was removed, merged or added.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from apgcn._utils.formatting import format_names, pluralize
from apgcn.errors import InvalidInput
from apgcn.io.index_columns import find_index_columns
from apgcn.io.node_ids import index_endpoints
from apgcn.io.schema import TableSchema, find_endpoint_columns, find_weight_column
from apgcn.io.tables import Table

MIN_WEIGHT = 1e-20
MAX_WEIGHT = 1 / MIN_WEIGHT


def adjacency_from_table(
    edges: Table, node_index: dict[str, int], nodes: Table, schema: TableSchema
) -> tuple[sparse.csr_matrix, list[str]]:
    """Adjacency of an edge table, (nodes, nodes), and notes.

    `node_index` maps a node's id to its row; `nodes` is the table that an unknown id is missing from.
    """
    endpoints = find_endpoint_columns(edges, schema)
    (source, target), notes = index_endpoints(edges, endpoints, node_index, nodes)
    weight_column = find_weight_column(edges, schema, endpoints)
    weight = np.ones(len(edges)) if weight_column is None else _edge_weights(edges, weight_column)
    if weight_column is not None and schema.weight is None:
        notes.append(f"{edges.source}: column {edges.columns[weight_column]!r} holds the edge weights.")
    unused = [name for column, name in enumerate(edges.columns) if column not in (*endpoints, weight_column)]
    index = [edges.columns[column] for column in find_index_columns(edges) if edges.columns[column] in unused]
    unused = [name for name in unused if name not in index]
    if index:
        notes.append(f"{edges.source}: ignored the index column {format_names(index)}.")
    if unused:
        notes.append(
            f"{edges.source}: unused columns: {format_names(unused)}; pass --weight to use one as edge weights."
        )
    self_loops = source == target
    if self_loops.any():
        notes.append(f"{edges.source}: removed {pluralize(int(self_loops.sum()), 'self-loop')}.")
    source, target, weight = source[~self_loops], target[~self_loops], weight[~self_loops]
    if not schema.directed:
        source, target = np.minimum(source, target), np.maximum(source, target)
    matrix, merged = _merge_duplicates(source, target, weight, num_nodes=len(node_index))
    if merged:
        notes.append(_merged_note(edges.source, merged))
    return (matrix if schema.directed else matrix + matrix.T), notes


def canonical_edges(
    edges: sparse.spmatrix | sparse.sparray, *, directed: bool, name: str
) -> tuple[sparse.csr_matrix, list[str]]:
    """Adjacency of a sparse matrix that may hold an edge more than once, (nodes, nodes), and notes.

    `name` is the name of the graph in the notes.
    """
    coo = sparse.coo_matrix(edges)
    self_loops, zeros = coo.row == coo.col, coo.data == 0
    notes = []
    if self_loops.any():
        notes.append(f"{name}: removed {pluralize(int(self_loops.sum()), 'self-loop')}.")
    if zeros.any():
        notes.append(f"{name}: removed {pluralize(int(zeros.sum()), 'edge')} of weight 0.")
    valid = ~self_loops & ~zeros
    source, target = coo.row[valid].astype(np.int64), coo.col[valid].astype(np.int64)
    adjacency, merged = _merge_duplicates(source, target, coo.data[valid], num_nodes=coo.shape[1])
    if merged:
        notes.append(_merged_note(name, merged))
    if not directed:
        asymmetric = (adjacency != adjacency.T).nnz // 2
        if asymmetric:
            notes.append(
                f"{name}: made {pluralize(asymmetric, 'edge')} with one direction, or with two weights, undirected; "
                "the larger weight is used."
            )
        adjacency = adjacency.maximum(adjacency.T)
    return adjacency, notes


def isolated_nodes_note(adjacency: sparse.csr_matrix) -> list[str]:
    """One note about nodes without edges, or none."""
    num_nodes = adjacency.shape[0]
    isolated = num_nodes - len(np.unique(np.concatenate(adjacency.nonzero())))
    if not isolated:
        return []
    return [f"isolated nodes: {isolated:,} of {num_nodes:,}, which receive no messages."]


def _edge_weights(edges: Table, column: int) -> np.ndarray:
    weights = edges.require_numbers(column)
    invalid = np.flatnonzero(~((weights >= MIN_WEIGHT) & (weights <= MAX_WEIGHT)))
    if len(invalid):
        row = invalid[0]
        bounds = f"from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}" if weights[row] > 0 else "above 0"
        raise InvalidInput(
            f"{edges.location(row, column)} must be a weight {bounds}, got {edges.as_text(column)[row]!r}; "
            "remove the edge instead."
        )
    return weights


def _merge_duplicates(
    source: np.ndarray, target: np.ndarray, weight: np.ndarray, *, num_nodes: int
) -> tuple[sparse.csr_matrix, int]:
    """Matrix with the largest weight of each (source, target) pair, and how many duplicates were merged."""
    pairs, inverse = np.unique(source * num_nodes + target, return_inverse=True)
    largest = np.full(len(pairs), -np.inf)
    np.maximum.at(largest, inverse, weight)
    matrix = sparse.csr_matrix((largest, (pairs // num_nodes, pairs % num_nodes)), shape=(num_nodes, num_nodes))
    return matrix, len(source) - len(pairs)


def _merged_note(name: str, merged: int) -> str:
    return f"{name}: merged {pluralize(merged, 'duplicate edge')}; the largest weight is used."
