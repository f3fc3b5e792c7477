"""How do a table of edges and a table of nodes become a graph? Nothing is left out without being said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

from apgcn._utils.formatting import counted
from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput
from apgcn.io.feature_encoding import FeatureEncoding, find_encoding
from apgcn.io.tables import Table, listed

IDS = ("id", "node", "node_id", "name")
ENDS = (("source", "target"), ("from", "to"), ("src", "dst"), ("node1", "node2"))
WEIGHT = "weight"
NONE = ""  # is the column of weights of a graph that has none
LIGHTEST = 1e-20  # weight of an edge; the heaviest is as far from 1
NO_CLASS = ("nan", "-1")  # how others mark what is unknown


@dataclass(frozen=True)
class TableSchema:
    """What the columns mean, where a user says so; None is found out from their names and places.

    Attributes
    ----------
    label : str or None
        The column of classes, empty where a node's is unknown; None for a graph without labels.
    id : str or None
        The column of names; without it `id`, `node`, `node_id` or `name`, else the first.
    source, target : str or None
        The ends of an edge; without them `source` and `target`, or another pair of `ENDS`, else the first two columns.
    weight : str or None
        Without it `weight`, else every edge has weight 1; "" if there are none.
    directed : bool
        Whether an edge is heard by its target alone.
    one_hot, words, ignore : sequences of str
        Columns of text that become features, and columns that do not.
    """

    label: str | None = None
    id: str | None = None
    source: str | None = None
    target: str | None = None
    weight: str | None = None
    directed: bool = False
    one_hot: Sequence[str] = ()
    words: Sequence[str] = ()
    ignore: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("label", "id", "source", "target", "weight"):
            if not isinstance(getattr(self, name), str | None):
                raise InvalidInput(f"{name} must be the name of a column, got {getattr(self, name)!r}.")
        for name in ("one_hot", "words", "ignore"):
            given = getattr(self, name)
            if isinstance(given, str) or not all(isinstance(column, str) for column in given):
                raise InvalidInput(f"{name} must be a list of columns, got {given!r}.")
            object.__setattr__(self, name, tuple(given))


@dataclass(frozen=True)
class ReadGraph:
    """A graph, how its features were made of columns (None if they came as they are), and what is to be said.

    `schema` is what the columns meant.
    """

    graph: Graph
    encoding: FeatureEncoding | None
    notes: list[str] = field(default_factory=list)
    schema: TableSchema = TableSchema()


def build_graph(
    edges: Table,
    nodes: Table,
    schema: TableSchema,
    *,
    name: str,
    encoding: FeatureEncoding | None = None,
    class_names: Sequence[str] | None = None,
) -> ReadGraph:
    """Make a graph of two tables.

    With an encoding and names of classes, those of a trained model, the features are made as they were for it.
    """
    identity = position_of_id(nodes, schema)
    ids = ids_of(nodes, identity)
    labels, classes, label_position = labels_of(nodes, schema, class_names)
    notes: list[str] = []
    other = _other_columns(nodes, schema, taken={identity, label_position})
    if encoding is None:
        encoding, notes = find_encoding(nodes, other, one_hot=schema.one_hot, words=schema.words)
    else:
        known = {column.name for column in encoding.columns} | set(encoding.left_out)
        unknown = [name for name in other if name not in known]
        if unknown:
            notes.append(f"{nodes.source}: not used, because the model does not know them: {listed(unknown)}.")
    if not encoding.feature_names:
        raise InvalidInput(
            f"{nodes.source} must have at least one column of features, but has {listed(nodes.columns)}; "
            "give numbers, or name columns of text after --one-hot or --words."
        )
    features, said = encoding.encode(nodes)
    adjacency, more = adjacency_of(edges, ids, nodes, schema)
    graph = Graph(
        adjacency=adjacency, features=features, labels=labels, name=name, class_names=classes, node_names=tuple(ids)
    )
    return ReadGraph(graph, encoding, [*notes, *said, *more, *alone(adjacency)], _found(edges, nodes, schema))


def _found(edges: Table, nodes: Table, schema: TableSchema) -> TableSchema:
    """What was found out about columns, so that another table is read in the same way."""
    ends = _positions_of_ends(edges, schema)
    _, weight = _weights(edges, schema, ends)
    return replace(
        schema,
        id=nodes.columns[position_of_id(nodes, schema)],
        source=edges.columns[ends[0]],
        target=edges.columns[ends[1]],
        weight=NONE if weight is None else edges.columns[weight],
    )


def _other_columns(nodes: Table, schema: TableSchema, *, taken: set[int | None]) -> list[str]:
    """Those that may be features: not the ids, not the classes, not what is to be ignored."""
    taken = taken | {nodes.position(column, option="--ignore") for column in schema.ignore}
    for option, asked in (("--one-hot", schema.one_hot), ("--words", schema.words)):
        for column in asked:
            if nodes.position(column, option=option) in taken:
                raise InvalidInput(f"{option} must name a feature, but {column!r} is the id, the label or ignored.")
    twice = [column for column in schema.one_hot if column in schema.words]
    if twice:
        raise InvalidInput(f"{listed(twice)} must be named after --one-hot or after --words, not both.")
    return [column for place, column in enumerate(nodes.columns) if place not in taken]


def position_of_id(nodes: Table, schema: TableSchema) -> int:
    """Where the ids of the nodes stand."""
    if schema.id is not None:
        return nodes.position(schema.id, option="--id")
    return next((place for name in IDS if (place := nodes.find(name)) is not None), 0)


def ids_of(nodes: Table, position: int) -> dict[str, int]:
    """The number of every node, by its id."""
    if not len(nodes):
        raise InvalidInput(f"{nodes.source} must have a row for every node, but has none.")
    numbers: dict[str, int] = {}
    for row, text in enumerate(nodes.texts(position)):
        if not text:
            raise InvalidInput(f"{nodes.at(row, position)} must be the id of a node, but is empty.")
        if "\0" in text:
            raise InvalidInput(f"{nodes.at(row, position)} must be the id of a node, but holds a zero byte.")
        if text in numbers:
            raise InvalidInput(
                f"{nodes.at(row, position)} must be an id of its own, but {text!r} is also that of "
                f"{nodes.at(numbers[text], position)}."
            )
        numbers[text] = row
    return numbers


def labels_of(
    nodes: Table, schema: TableSchema, class_names: Sequence[str] | None
) -> tuple[np.ndarray, tuple[str, ...], int | None]:
    """The class of every node, -1 where it is unknown, the classes, and where their column is."""
    known = tuple(class_names or ())
    if schema.label is None or (class_names is not None and schema.label not in nodes.columns):
        return np.full(len(nodes), -1), known, None
    position = nodes.position(schema.label, option="--label")
    texts = nodes.texts(position)
    classes = known or tuple(sorted({text for text in texts if text}, key=_by_number))
    numbers = {text: number for number, text in enumerate(classes)}
    labels = np.full(len(texts), -1)
    for row, text in enumerate(texts):
        if "\0" in text:
            raise InvalidInput(f"{nodes.at(row, position)} must be a class, but holds a zero byte.")
        if text.lower() in NO_CLASS and text not in known:
            raise InvalidInput(
                f"{nodes.at(row, position)} must be a class, got {text!r}; empty the cell where it is unknown."
            )
        if text and text not in numbers:
            raise InvalidInput(f"{nodes.at(row, position)} must be one of {listed(classes)}, got {text!r}.")
        labels[row] = numbers[text] if text else -1
    if class_names is None:
        _check_classes(nodes, position, labels, classes)
    return labels, classes, position


def _check_classes(nodes: Table, position: int, labels: np.ndarray, classes: Sequence[str]) -> None:
    """Whether something can be learned: two classes or more, two nodes or more of each."""
    column = f"{nodes.source}, column {nodes.columns[position]!r}"
    if not classes:
        raise InvalidInput(f"{column} must hold the classes of some nodes, but all its cells are empty.")
    if len(classes) == 1:
        raise InvalidInput(f"{column} must hold two classes or more, but there is only {classes[0]!r}.")
    counts = np.bincount(labels[labels >= 0], minlength=len(classes))
    rarest = int(counts.argmin())
    if counts[rarest] < 2:
        row = int(np.flatnonzero(labels == rarest)[0])
        raise InvalidInput(
            f"{nodes.at(row, position)} is the only node of class {classes[rarest]!r}, but one must train and "
            "one must say when to stop; label another one, or empty the cell."
        )


def _by_number(text: str) -> tuple[bool, float, str]:
    """Numbers by size, then words by spelling."""
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text


def adjacency_of(
    edges: Table, ids: dict[str, int], nodes: Table, schema: TableSchema
) -> tuple[sparse.csr_matrix, list[str]]:
    """Who is connected to whom, (nodes, nodes), and what was left out of the table."""
    ends = _positions_of_ends(edges, schema)
    numbers = [np.empty(len(edges), dtype=np.int64) for _ in ends]
    for place, into in zip(ends, numbers, strict=True):
        for row, text in enumerate(edges.texts(place)):
            if text not in ids:
                raise InvalidInput(
                    f"{edges.at(row, place)} must be the id of a node in {nodes.source}, got {text!r}; "
                    "add a row for it there, or leave out the edge."
                )
            into[row] = ids[text]
    weights, of_weights = _weights(edges, schema, ends)
    unused = [column for number, column in enumerate(edges.columns) if number not in (*ends, of_weights)]
    notes = [f"{edges.source}: not used: {listed(unused)}; --weight names a column of weights."] if unused else []
    first, second = numbers
    between = first != second
    if not between.all():
        notes.append(f"{edges.source}: left out {counted(int((~between).sum()), 'edge')} from a node to itself.")
    first, second, weights = first[between], second[between], weights[between]
    if not schema.directed:
        first, second = np.minimum(first, second), np.maximum(first, second)
    keys, places, counts = np.unique(first * len(ids) + second, return_index=True, return_counts=True)
    if len(keys) < len(first):
        largest = np.zeros(len(keys))
        np.maximum.at(largest, np.repeat(np.arange(len(keys)), counts), weights[np.argsort(first * len(ids) + second)])
        notes.append(
            f"{edges.source}: merged {counted(len(first) - len(keys), 'edge')} with one given before; "
            "the largest weight counts."
        )
        first, second, weights = first[places], second[places], largest
    matrix = sparse.coo_matrix((weights, (first, second)), shape=(len(ids), len(ids))).tocsr()
    if not schema.directed:
        matrix = matrix + matrix.T
    return matrix, notes


def alone(adjacency: sparse.csr_matrix) -> list[str]:
    """What is to be said about nodes without edges."""
    nodes = adjacency.shape[0]
    without = nodes - len(np.unique(np.concatenate(adjacency.nonzero())))
    return [f"without edges: {without:,} of {nodes:,} nodes, judged by their own features alone."] if without else []


def _positions_of_ends(edges: Table, schema: TableSchema) -> tuple[int, int]:
    if (schema.source is None) != (schema.target is None):
        raise InvalidInput("--source and --target must be given together, or neither.")
    if schema.source is not None and schema.target is not None:
        if schema.source == schema.target:
            raise InvalidInput(f"--source and --target must name two columns, got {schema.source!r} twice.")
        return edges.position(schema.source, option="--source"), edges.position(schema.target, option="--target")
    for one, other in ENDS:
        first, second = edges.find(one), edges.find(other)
        if first is not None and second is not None:
            return first, second
    if len(edges.columns) < 2:
        raise InvalidInput(
            f"{edges.source} must have a column for each end of an edge, but has {listed(edges.columns)}."
        )
    return 0, 1


def _weights(edges: Table, schema: TableSchema, ends: tuple[int, int]) -> tuple[np.ndarray, int | None]:
    """The weights and where they stand; 1 where there is no such column."""
    if schema.weight == NONE:
        return np.ones(len(edges)), None
    if schema.weight is not None:
        position: int | None = edges.position(schema.weight, option="--weight")
    else:
        position = edges.find(WEIGHT)
    if position is None or (schema.weight is None and position in ends):
        return np.ones(len(edges)), None
    weights = edges.all_numbers(position)
    wrong = np.flatnonzero(~((weights >= LIGHTEST) & (weights <= 1 / LIGHTEST)))
    if len(wrong):
        what = f"from {LIGHTEST:g} to {1 / LIGHTEST:g}" if weights[wrong[0]] > 0 else "above 0"
        raise InvalidInput(
            f"{edges.at(wrong[0], position)} must be a weight {what}, got {edges.texts(position)[wrong[0]]!r}; "
            "leave out the edge instead."
        )
    return weights, position


def canonical_edges(graph: Graph, edges: sparse.spmatrix | sparse.sparray, *, directed: bool) -> ReadGraph:
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
    return ReadGraph(graph, None, [*notes, *alone(graph.adjacency)], TableSchema(directed=directed))


def extend(
    graph: Graph, edges: Table, nodes: Table | None, schema: TableSchema, encoding: FeatureEncoding
) -> ReadGraph:
    """The graph with the new nodes, if any, after its own; new edges may end at either.

    It is the graph that one gets by reading all nodes and edges at once, with the same encoding.
    """
    if nodes is None:
        columns = (schema.id or "id", *(column.name for column in encoding.columns))
        nodes = Table(source="the model's graph", columns=columns, cells=[()] * len(columns))
    identity = position_of_id(nodes, schema)
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
    labels, _, _ = labels_of(nodes, schema, graph.class_names)
    more, said = adjacency_of(edges, ids, nodes, schema)
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
        schema,
    )


def _below(
    first: sparse.csr_matrix | np.ndarray, second: sparse.csr_matrix | np.ndarray
) -> sparse.csr_matrix | np.ndarray:
    if isinstance(first, np.ndarray):
        return np.vstack([first, second if isinstance(second, np.ndarray) else second.toarray()])
    return sparse.vstack([first, sparse.csr_matrix(second)], format="csr")
