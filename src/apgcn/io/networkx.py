"""How does a graph of networkx become ours, and ours one of networkx?"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput, MissingPackage
from apgcn.io.build_graph import ReadGraph, TableSchema, build_graph
from apgcn.io.feature_encoding import FeatureEncoding
from apgcn.io.tables import Table

if TYPE_CHECKING:
    import networkx

ID, SOURCE, TARGET = "node of networkx", "source of networkx", "target of networkx"  # columns nobody else has


def from_networkx(
    graph: networkx.Graph,
    schema: TableSchema = TableSchema(),
    *,
    name: str = "graph",
    encoding: FeatureEncoding | None = None,
    class_names: Sequence[str] | None = None,
) -> ReadGraph:
    """Take nodes, edges and their attributes; an attribute that a node lacks is missing. See `build_graph`.

    Examples
    --------
    >>> import networkx
    >>> club = networkx.karate_club_graph()
    >>> for node, attributes in club.nodes(data=True):
    ...     attributes["friends"] = club.degree(node)
    >>> from_networkx(club, TableSchema(label="club")).graph
    Graph('graph', nodes=34, directed_edges=156, features=1, classes=2)
    """
    nodes, edges = tables_of(graph, source=name)
    if (schema.id, schema.source, schema.target) != (None, None, None):
        raise InvalidInput(f"{name} says itself what its nodes and ends are: leave out --id, --source and --target.")
    meant = replace(schema, directed=graph.is_directed())
    columns = replace(meant, id=ID, source=SOURCE, target=TARGET)
    read = build_graph(edges, nodes, columns, name=name, encoding=encoding, class_names=class_names)
    if schema.directed and not graph.is_directed():
        read.notes.append(f"{name}: its edges have no direction, so both ends hear each other.")
    return replace(read, schema=replace(meant, weight=read.schema.weight))


def tables_of(graph: networkx.Graph, *, source: str) -> tuple[Table, Table]:
    """A table of nodes and a table of edges."""
    names: dict[Hashable, str] = {node: str(node) for node in graph.nodes}
    nodes = _table(f"nodes of {source}", [{ID: names[node], **_named(given)} for node, given in graph.nodes(data=True)])
    links = [
        {SOURCE: names[first], TARGET: names[second], **_named(given)}
        for first, second, given in graph.edges(data=True)
    ]
    return nodes, _table(f"edges of {source}", links, at_least=(SOURCE, TARGET))


def to_networkx(graph: Graph) -> networkx.Graph:
    """Nodes with their features (`f0`, `f1`, ...) and `label` where it is known, edges with their weight.

    It is a DiGraph if some edge has one direction only, or two weights.
    """
    nx = networkx_package()
    directed = (graph.adjacency != graph.adjacency.T).nnz > 0
    made = nx.DiGraph() if directed else nx.Graph()
    names = graph.ids
    features = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
    for name, row, label in zip(names, features.tolist(), graph.labels.tolist(), strict=True):
        own = {f"f{number}": value for number, value in enumerate(row)}
        made.add_node(name, **own, **({"label": graph.class_names[label]} if label >= 0 else {}))
    coo = graph.adjacency.tocoo()
    for first, second, weight in zip(coo.row.tolist(), coo.col.tolist(), coo.data.tolist(), strict=True):
        made.add_edge(names[first], names[second], weight=weight)
    return made


def _named(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in attributes.items()}


def _table(source: str, rows: list[dict[str, Any]], *, at_least: tuple[str, ...] = (ID,)) -> Table:
    columns = tuple(dict.fromkeys([*at_least, *(column for row in rows for column in row)]))
    cells = [[_text(source, column, row.get(column)) for row in rows] for column in columns]
    return Table(source=source, columns=columns, cells=cells)


def _text(source: str, column: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, str | int | float | np.integer | np.floating):
        return str(value)
    raise InvalidInput(f"{source}: attribute {column!r} must hold text or numbers, got {type(value).__name__}.")


def networkx_package() -> Any:
    """Networkx, or how to get it."""
    try:
        import networkx
    except ImportError:
        raise MissingPackage('graphs of networkx need networkx: pip install "apgcn[tables]"') from None
    return networkx
