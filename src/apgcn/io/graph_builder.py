"""Graphs from tables of nodes and edges; whatever is removed, merged or replaced is reported in the notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

from apgcn._utils.formatting import format_names
from apgcn.data.graph import Graph
from apgcn.data.structure import STRUCTURE_KINDS
from apgcn.errors import InvalidInput
from apgcn.io.cells import without_decimal_zero
from apgcn.io.edge_header import read_first_line
from apgcn.io.edges import adjacency_from_table, canonical_edges, isolated_nodes_note
from apgcn.io.feature_encoding import FeatureEncoding, fit_encoding
from apgcn.io.index_columns import choose_id_column, find_index_columns
from apgcn.io.labels import encode_labels
from apgcn.io.node_ids import index_nodes
from apgcn.io.schema import (
    TableSchema,
    feature_columns,
    find_endpoint_columns,
    find_usual_id_column,
    resolve_schema,
)
from apgcn.io.structure_encoding import AUTO, NONE, Structure, StructureEncoding, add_structure
from apgcn.io.tables import Table


@dataclass(frozen=True)
class LoadedGraph:
    """Graph together with what is needed to read more data in the same way.

    Attributes
    ----------
    graph : Graph
    encoding : FeatureEncoding or None
        How the features were computed from columns; None if they came as an array.
    notes : list of str
        What was removed, merged or replaced, one sentence each.
    schema : TableSchema
        Which columns were used.
    structure : StructureEncoding or None
        The features, after all others, that were computed from the edges; None if there are none.
    """

    graph: Graph
    encoding: FeatureEncoding | None
    notes: list[str] = field(default_factory=list)
    schema: TableSchema = field(default_factory=TableSchema)
    structure: StructureEncoding | None = None


def build_graph(
    edges: Table,
    nodes: Table,
    schema: TableSchema,
    *,
    name: str,
    encoding: FeatureEncoding | None = None,
    class_names: Sequence[str] | None = None,
    structure: Structure = AUTO,
) -> LoadedGraph:
    """Build a graph from an edge table and a node table.

    With the encoding, the class names and the structure of a trained model, features and labels are encoded as they
    were for it. `structure` selects features that are computed from the edges: kinds of them, "none", or "auto", which
    computes all kinds where the node table has no feature columns.
    """
    nodes.check_header()
    id_column, id_notes = _find_id_column(nodes, edges, schema)
    node_index, more_notes = index_nodes(nodes, id_column)
    id_notes += more_notes
    edges, header_notes = read_first_line(edges, node_index, schema)
    encoded_labels = encode_labels(nodes, schema, class_names)
    used = {id_column, encoded_labels.column}
    if encoding is None:
        columns = feature_columns(nodes, schema, used=used)
        encoding, notes = fit_encoding(nodes, columns, one_hot=schema.one_hot, bag_of_words=schema.bag_of_words)
    else:
        notes = _unknown_columns_note(nodes, schema, encoding, used=used)
    if not encoding.feature_names and (structure == NONE or (structure == AUTO and encoding.excluded)):
        raise InvalidInput(
            f"{nodes.source} must have at least one feature column, but has {format_names(nodes.columns)}; "
            "add columns of numbers, pass columns of text to --one-hot or --bag-of-words, or pass --structure "
            f"{','.join(STRUCTURE_KINDS)} for features that are computed from the edges."
        )
    features, feature_notes = encoding.encode(nodes)
    adjacency, edge_notes = adjacency_from_table(edges, node_index, nodes, schema)
    graph = Graph(
        adjacency=adjacency,
        features=features,
        labels=encoded_labels.labels,
        name=name,
        class_names=encoded_labels.class_names,
        node_names=tuple(node_index),
    )
    graph, structure_encoding, structure_notes = add_structure(graph, structure)
    notes = [*nodes.notes, *id_notes, *encoded_labels.notes, *notes, *feature_notes]
    notes += [*edges.notes, *header_notes, *edge_notes, *isolated_nodes_note(adjacency), *structure_notes]
    schema = replace(schema, dropped_classes=encoded_labels.dropped_classes)
    resolved = resolve_schema(edges, nodes, schema, id_column=id_column)
    return LoadedGraph(graph, encoding, notes, resolved, structure_encoding)


def _find_id_column(nodes: Table, edges: Table, schema: TableSchema) -> tuple[int, list[str]]:
    """Index of the column of node ids, and a note if a column without a name is, or is not, that column."""
    index = [column for column in find_index_columns(nodes) if nodes.columns[column] not in schema.ignore]
    if schema.id is not None:
        column = nodes.column_index(schema.id, option="--id")
        ignored = [nodes.columns[other] for other in index if other != column]
        return column, [f"{nodes.source}: ignored the index column {format_names(ignored)}."] if ignored else []
    usual = find_usual_id_column(nodes)
    if not index and usual is not None:
        return usual, []
    if not index:
        name = nodes.columns[0]
        return 0, [f"{nodes.source}: the first column, {name!r}, holds the node ids; pass --id to use another."]
    column, note = choose_id_column(nodes, edges, usual=usual, endpoints=find_endpoint_columns(edges, schema))
    return column, [note]


def _unknown_columns_note(
    nodes: Table, schema: TableSchema, encoding: FeatureEncoding, *, used: set[int | None]
) -> list[str]:
    """One note about columns that the model was not trained on, or none; the ignored ones may be missing."""
    present = replace(
        schema, ignore=[name for name in schema.ignore if name in nodes.columns], one_hot=(), bag_of_words=()
    )
    known = {column.name for column in encoding.columns} | set(encoding.excluded)
    unknown = [name for name in feature_columns(nodes, present, used=used) if name not in known]
    if not unknown:
        return []
    return [f"{nodes.source}: unused columns, because the model was not trained on them: {format_names(unknown)}."]


def extend_graph(
    graph: Graph,
    edges: Table,
    nodes: Table | None,
    schema: TableSchema,
    encoding: FeatureEncoding,
    structure: StructureEncoding | None = None,
) -> LoadedGraph:
    """Append new nodes, if any, and new edges, which may connect new nodes and old ones.

    Structural features of a trained model are computed anew, for old nodes as well. The result equals the graph that
    `build_graph` builds from all nodes and edges with the same encoding.
    """
    if nodes is None:
        columns = (schema.id or "id", *(column.name for column in encoding.columns))
        nodes = Table(source="the model's graph", columns=columns, cells=[()] * len(columns))
    nodes.check_header()
    id_column, id_notes = _find_id_column(nodes, edges, schema)
    new_index, more_notes = index_nodes(nodes, id_column) if len(nodes) else ({}, [])
    id_notes += more_notes
    old_ids = graph.node_ids
    node_index = {node_id: row for row, node_id in enumerate(old_ids)}
    shortened = {without_decimal_zero(node_id): node_id for node_id in old_ids}
    for node_id, row in new_index.items():
        old_id = shortened.get(without_decimal_zero(node_id))
        if old_id is not None:
            raise InvalidInput(
                f"{nodes.location(row, id_column)} must be a new node, but {old_id!r} is in the model's graph already."
            )
        node_index[node_id] = len(old_ids) + row
    edges, header_notes = read_first_line(edges, node_index, schema)
    features, feature_notes = encoding.encode(nodes)
    encoded_labels = encode_labels(nodes, schema, graph.class_names)
    all_nodes = replace(nodes, source=f"{nodes.source} or in the model's graph")
    new_adjacency, edge_notes = adjacency_from_table(edges, node_index, all_nodes, schema)
    old_adjacency = sparse.csr_matrix(graph.adjacency, copy=True)
    old_adjacency.resize(new_adjacency.shape)
    adjacency = old_adjacency.maximum(new_adjacency)
    extended = replace(
        graph,
        adjacency=adjacency,
        features=_stack_rows(graph.features[:, : len(encoding.feature_names)], features),
        labels=np.concatenate([graph.labels, encoded_labels.labels]),
        node_names=tuple(node_index),
    )
    extended, _, structure_notes = add_structure(extended, structure or NONE)
    notes = [*nodes.notes, *id_notes, *encoded_labels.notes, *feature_notes]
    notes += [*edges.notes, *header_notes, *edge_notes, *isolated_nodes_note(adjacency), *structure_notes]
    return LoadedGraph(extended, encoding, notes, schema, structure)


def with_canonical_edges(
    graph: Graph, edges: sparse.spmatrix | sparse.sparray, *, directed: bool, structure: Structure = AUTO
) -> LoadedGraph:
    """Graph whose features and labels came as arrays, with the canonical form of these edges.

    `structure` as in `build_graph`.
    """
    ids = graph.node_ids
    if len(set(ids)) < len(ids):
        raise InvalidInput(f"{graph.name} must have a unique name for each node, but some nodes have the same name.")
    adjacency, notes = canonical_edges(edges, directed=directed, name=graph.name)
    graph, encoding, structure_notes = add_structure(replace(graph, adjacency=adjacency), structure)
    notes = [*notes, *isolated_nodes_note(adjacency), *structure_notes]
    return LoadedGraph(graph, None, notes, TableSchema(directed=directed), encoding)


def _stack_rows(
    upper: sparse.csr_matrix | np.ndarray, lower: sparse.csr_matrix | np.ndarray
) -> sparse.csr_matrix | np.ndarray:
    """Rows of both matrices, sparse or dense as the upper one."""
    if isinstance(upper, np.ndarray):
        return np.vstack([upper, lower if isinstance(lower, np.ndarray) else lower.toarray()])
    return sparse.vstack([upper, sparse.csr_matrix(lower)], format="csr")
