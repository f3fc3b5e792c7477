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
from apgcn.io.edges import adjacency_from_table, canonical_edges, isolated_nodes_note
from apgcn.io.feature_encoding import FeatureEncoding, fit_encoding
from apgcn.io.schema import TableSchema, feature_columns, find_id_column, resolve_schema
from apgcn.io.structure_encoding import AUTO, NONE, Structure, StructureEncoding, add_structure
from apgcn.io.tables import Table

MISSING_LABEL_MARKS = ("nan", "-1")  # other tools write these where a class is unknown


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
    id_column = find_id_column(nodes, schema)
    node_index = index_nodes(nodes, id_column)
    labels, classes, label_column = encode_labels(nodes, schema, class_names)
    notes: list[str] = []
    columns = feature_columns(nodes, schema, used={id_column, label_column})
    if encoding is None:
        encoding, notes = fit_encoding(nodes, columns, one_hot=schema.one_hot, bag_of_words=schema.bag_of_words)
    else:
        known = {column.name for column in encoding.columns} | set(encoding.excluded)
        unknown = [column for column in columns if column not in known]
        if unknown:
            notes.append(
                f"{nodes.source}: unused columns, because the model was not trained on them: {format_names(unknown)}."
            )
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
        labels=labels,
        name=name,
        class_names=classes,
        node_names=tuple(node_index),
    )
    graph, structure_encoding, structure_notes = add_structure(graph, structure)
    notes = [*notes, *feature_notes, *edge_notes, *isolated_nodes_note(adjacency), *structure_notes]
    return LoadedGraph(graph, encoding, notes, resolve_schema(edges, nodes, schema), structure_encoding)


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
    id_column = find_id_column(nodes, schema)
    new_index = index_nodes(nodes, id_column) if len(nodes) else {}
    old_ids = graph.node_ids
    node_index = {node_id: row for row, node_id in enumerate(old_ids)}
    for node_id, row in new_index.items():
        if node_id in node_index:
            raise InvalidInput(
                f"{nodes.location(row, id_column)} must be a new node, but {node_id!r} is in the model's graph already."
            )
        node_index[node_id] = len(old_ids) + row
    features, feature_notes = encoding.encode(nodes)
    labels, _, _ = encode_labels(nodes, schema, graph.class_names)
    new_adjacency, edge_notes = adjacency_from_table(edges, node_index, nodes, schema)
    old_adjacency = sparse.csr_matrix(graph.adjacency, copy=True)
    old_adjacency.resize(new_adjacency.shape)
    adjacency = old_adjacency.maximum(new_adjacency)
    extended = replace(
        graph,
        adjacency=adjacency,
        features=_stack_rows(graph.features[:, : len(encoding.feature_names)], features),
        labels=np.concatenate([graph.labels, labels]),
        node_names=tuple(node_index),
    )
    extended, _, structure_notes = add_structure(extended, structure or NONE)
    notes = [*feature_notes, *edge_notes, *isolated_nodes_note(adjacency), *structure_notes]
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


def index_nodes(nodes: Table, id_column: int) -> dict[str, int]:
    """Row of every node by its id.

    Raises
    ------
    InvalidInput
        If there is no row, or an id is empty, contains a null byte or occurs twice.
    """
    if not len(nodes):
        raise InvalidInput(f"{nodes.source} must have a row for every node, but has none.")
    rows: dict[str, int] = {}
    for row, node_id in enumerate(nodes.as_text(id_column)):
        if not node_id:
            raise InvalidInput(f"{nodes.location(row, id_column)} must be a node id, but is empty.")
        if "\0" in node_id:
            raise InvalidInput(f"{nodes.location(row, id_column)} must be a node id, but contains a null byte.")
        if node_id in rows:
            raise InvalidInput(
                f"{nodes.location(row, id_column)} must be a unique node id, but {node_id!r} is also the id in "
                f"{nodes.location(rows[node_id], id_column)}."
            )
        rows[node_id] = row
    return rows


def encode_labels(
    nodes: Table, schema: TableSchema, class_names: Sequence[str] | None
) -> tuple[np.ndarray, tuple[str, ...], int | None]:
    """Class index of every node (-1 where unknown), class names, and the index of the label column.

    With the class names of a trained model the label column may be missing, and other classes are errors.
    """
    known = tuple(class_names or ())
    if schema.label is None or (class_names is not None and schema.label not in nodes.columns):
        return np.full(len(nodes), -1), known, None
    column = nodes.column_index(schema.label, option="--label")
    cells = nodes.as_text(column)
    classes = known or tuple(sorted({text for text in cells if text}, key=_numbers_first))
    class_index = {name: index for index, name in enumerate(classes)}
    labels = np.full(len(cells), -1)
    for row, text in enumerate(cells):
        if "\0" in text:
            raise InvalidInput(f"{nodes.location(row, column)} must be a class, but contains a null byte.")
        if text.lower() in MISSING_LABEL_MARKS and text not in known:
            raise InvalidInput(
                f"{nodes.location(row, column)} must be a class, got {text!r}; leave the cell empty where the class is "
                "unknown."
            )
        if text and text not in class_index:
            raise InvalidInput(f"{nodes.location(row, column)} must be one of {format_names(classes)}, got {text!r}.")
        labels[row] = class_index[text] if text else -1
    if class_names is None:
        _check_classes(nodes, column, labels, classes)
    return labels, classes, column


def _check_classes(nodes: Table, column: int, labels: np.ndarray, classes: Sequence[str]) -> None:
    """Training needs two classes or more, and two nodes or more of each."""
    place = f"{nodes.source}, column {nodes.columns[column]!r}"
    if not classes:
        raise InvalidInput(f"{place} must contain the classes of some nodes, but all its cells are empty.")
    if len(classes) == 1:
        raise InvalidInput(f"{place} must contain two classes or more, but there is only {classes[0]!r}.")
    counts = np.bincount(labels[labels >= 0], minlength=len(classes))
    rarest = int(counts.argmin())
    if counts[rarest] < 2:
        row = int(np.flatnonzero(labels == rarest)[0])
        raise InvalidInput(
            f"{nodes.location(row, column)} is the only node of class {classes[rarest]!r}, but every class needs one "
            "node for training and one for early stopping; label another node, or empty the cell."
        )


def _numbers_first(text: str) -> tuple[bool, float, str]:
    """Sort key: numbers by value, then other texts alphabetically."""
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text


def _stack_rows(
    upper: sparse.csr_matrix | np.ndarray, lower: sparse.csr_matrix | np.ndarray
) -> sparse.csr_matrix | np.ndarray:
    """Rows of both matrices, sparse or dense as the upper one."""
    if isinstance(upper, np.ndarray):
        return np.vstack([upper, lower if isinstance(lower, np.ndarray) else lower.toarray()])
    return sparse.vstack([upper, sparse.csr_matrix(lower)], format="csr")
