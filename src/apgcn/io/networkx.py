"""Conversion from and to graphs of networkx."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput, MissingPackage
from apgcn.io.feature_encoding import FeatureEncoding
from apgcn.io.graph_builder import LoadedGraph, build_graph
from apgcn.io.schema import TableSchema
from apgcn.io.structure_encoding import AUTO, Structure
from apgcn.io.tables import Table

if TYPE_CHECKING:
    import networkx

# Names of the columns that hold ids, different from the names of all attributes.
NODE, SOURCE, TARGET = "networkx node", "networkx source", "networkx target"
MAX_INTEGER = 2**64  # of an attribute; larger ones are no sensible feature


def from_networkx(
    graph: networkx.Graph,
    schema: TableSchema = TableSchema(),
    *,
    name: str = "graph",
    encoding: FeatureEncoding | None = None,
    class_names: Sequence[str] | None = None,
    structure: Structure = AUTO,
) -> LoadedGraph:
    """Convert nodes, edges and their attributes; an attribute that a node lacks is missing. See `build_graph`.

    Examples
    --------
    >>> import networkx
    >>> club = networkx.karate_club_graph()
    >>> for node, attributes in club.nodes(data=True):
    ...     attributes["friends"] = club.degree(node)
    >>> from_networkx(club, TableSchema(label="club")).graph
    Graph('graph', nodes=34, directed_edges=156, features=1, classes=2)

    Without attributes, features are computed from the edges:

    >>> from_networkx(networkx.karate_club_graph(), TableSchema(label="club")).notes[1:]
    ['graph: 28 features computed from the edges: degree, random_walk, spectral; there are no others.']
    """
    nodes, edges = _as_tables(graph, source=name)
    if (schema.id, schema.source, schema.target) != (None, None, None):
        raise InvalidInput(f"{name} identifies its nodes and endpoints itself; omit --id, --source and --target.")
    user_schema = replace(schema, directed=graph.is_directed())
    table_schema = replace(user_schema, id=NODE, source=SOURCE, target=TARGET)
    loaded = build_graph(
        edges, nodes, table_schema, name=name, encoding=encoding, class_names=class_names, structure=structure
    )
    if schema.directed and not graph.is_directed():
        loaded.notes.append(f"{name}: the graph is undirected, so both endpoints of an edge receive from each other.")
    found = loaded.schema
    return replace(loaded, schema=replace(user_schema, weight=found.weight, dropped_classes=found.dropped_classes))


def to_networkx(graph: Graph) -> networkx.Graph:
    """Convert to nodes with features (`f0`, `f1`, ...) and `label` where it is known, and edges with `weight`.

    The result is a DiGraph if some edge has one direction only, or two weights.
    """
    nx = import_networkx()
    directed = (graph.adjacency != graph.adjacency.T).nnz > 0
    converted = nx.DiGraph() if directed else nx.Graph()
    ids = graph.node_ids
    features = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
    for node_id, row, label in zip(ids, features.tolist(), graph.labels.tolist(), strict=True):
        attributes = {f"f{index}": value for index, value in enumerate(row)}
        converted.add_node(node_id, **attributes, **({"label": graph.class_names[label]} if label >= 0 else {}))
    coo = graph.adjacency.tocoo()
    for source, target, weight in zip(coo.row.tolist(), coo.col.tolist(), coo.data.tolist(), strict=True):
        converted.add_edge(ids[source], ids[target], weight=weight)
    return converted


def import_networkx() -> Any:
    """Import networkx, or raise how to install it."""
    try:
        import networkx
    except ImportError:
        raise MissingPackage('graphs of networkx need networkx: pip install "apgcn[tables]"') from None
    return networkx


def _as_tables(graph: networkx.Graph, *, source: str) -> tuple[Table, Table]:
    """Node table and edge table with a column for each attribute."""
    ids: dict[Hashable, str] = {node: str(node) for node in graph.nodes}
    node_rows = [{NODE: ids[node], **_string_keys(attributes)} for node, attributes in graph.nodes(data=True)]
    edge_rows = [
        {SOURCE: ids[first], TARGET: ids[second], **_string_keys(attributes)}
        for first, second, attributes in graph.edges(data=True)
    ]
    return (
        _table(f"nodes of {source}", node_rows, required=(NODE,)),
        _table(f"edges of {source}", edge_rows, required=(SOURCE, TARGET)),
    )


def _string_keys(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in attributes.items()}


def _table(source: str, rows: list[dict[str, Any]], *, required: tuple[str, ...]) -> Table:
    columns = tuple(dict.fromkeys([*required, *(column for row in rows for column in row)]))
    cells = [[_as_text(source, column, row.get(column)) for row in rows] for column in columns]
    return Table(source=source, columns=columns, cells=cells)


def _as_text(source: str, attribute: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, int) and abs(value) >= MAX_INTEGER:
        raise InvalidInput(f"{source}: attribute {attribute!r} must have numbers below 2^64, got a larger one.")
    if isinstance(value, str | int | float | np.integer | np.floating):
        return "" if value != value else str(value)  # NaN, as pandas marks what is missing
    if type(value).__name__ == "NAType":  # of pandas
        return ""
    raise InvalidInput(f"{source}: attribute {attribute!r} must be text or a number, got {type(value).__name__}.")
