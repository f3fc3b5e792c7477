"""How do a table of edges and a table of nodes become a graph? Nothing is left out without being said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from apgcn.errors import InvalidInput
from apgcn.graph import Graph
from apgcn.io.encoding import Encoding, find_encoding
from apgcn.io.tables import Table, listed

IDS = ("id", "node", "node_id", "name")
ENDS = (("source", "target"), ("from", "to"), ("src", "dst"), ("node1", "node2"))
WEIGHT = "weight"


@dataclass(frozen=True)
class Reading:
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
        Without it `weight`, else every edge has weight 1.
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
    """A graph, how its features were made of columns (None if they came as they are), and what is to be said."""

    graph: Graph
    encoding: Encoding | None
    notes: list[str] = field(default_factory=list)


def assemble(
    edges: Table,
    nodes: Table,
    reading: Reading,
    *,
    name: str,
    encoding: Encoding | None = None,
    class_names: Sequence[str] | None = None,
) -> ReadGraph:
    """Make a graph of two tables.

    With an encoding and names of classes, those of a trained model, the features are made as they were for it.
    """
    identity = position_of_id(nodes, reading)
    ids = ids_of(nodes, identity)
    labels, classes, label_position = labels_of(nodes, reading, class_names)
    notes: list[str] = []
    if encoding is None:
        taken = {identity, label_position}
        for column in reading.ignore:
            taken.add(nodes.position(column, option="--ignore"))
        for option, asked in (("--one-hot", reading.one_hot), ("--words", reading.words)):
            for column in asked:
                nodes.position(column, option=option)
        names = [column for place, column in enumerate(nodes.columns) if place not in taken]
        encoding, said = find_encoding(nodes, names, one_hot=reading.one_hot, words=reading.words)
        notes += said
    if not encoding.feature_names:
        raise InvalidInput(
            f"{nodes.source} must have at least one column of features, but has {listed(nodes.columns)}; "
            "give numbers, or name columns of text after --one-hot or --words."
        )
    features, said = encoding.encode(nodes)
    adjacency, more = adjacency_of(edges, ids, nodes, reading)
    graph = Graph(
        adjacency=adjacency, features=features, labels=labels, name=name, class_names=classes, node_names=tuple(ids)
    )
    return ReadGraph(graph, encoding, [*notes, *said, *more])


def position_of_id(nodes: Table, reading: Reading) -> int:
    """Where the ids of the nodes stand."""
    if reading.id is not None:
        return nodes.position(reading.id, option="--id")
    return next((nodes.columns.index(name) for name in IDS if name in nodes.columns), 0)


def ids_of(nodes: Table, position: int) -> dict[str, int]:
    """The number of every node, by its id."""
    if not len(nodes):
        raise InvalidInput(f"{nodes.source} must have a row for every node, but has none.")
    numbers: dict[str, int] = {}
    for row, text in enumerate(nodes.texts(position)):
        if not text:
            raise InvalidInput(f"{nodes.at(row, position)} must be the id of a node, but is empty.")
        if text in numbers:
            raise InvalidInput(
                f"{nodes.at(row, position)} must be an id of its own, but {text!r} is also that of "
                f"{nodes.at(numbers[text], position)}."
            )
        numbers[text] = row
    return numbers


def labels_of(
    nodes: Table, reading: Reading, class_names: Sequence[str] | None
) -> tuple[np.ndarray, tuple[str, ...], int | None]:
    """The class of every node, -1 where it is unknown, the classes, and where their column is."""
    known = tuple(class_names or ())
    if reading.label is None or (class_names is not None and reading.label not in nodes.columns):
        return np.full(len(nodes), -1), known, None
    position = nodes.position(reading.label, option="--label")
    texts = nodes.texts(position)
    classes = known or tuple(sorted({text for text in texts if text}, key=_by_number))
    numbers = {text: number for number, text in enumerate(classes)}
    labels = np.full(len(texts), -1)
    for row, text in enumerate(texts):
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
    edges: Table, ids: dict[str, int], nodes: Table, reading: Reading
) -> tuple[sparse.csr_matrix, list[str]]:
    """Who is connected to whom, (nodes, nodes), and what was left out of the table."""
    ends = _positions_of_ends(edges, reading)
    numbers = [np.empty(len(edges), dtype=np.int64) for _ in ends]
    for place, into in zip(ends, numbers, strict=True):
        for row, text in enumerate(edges.texts(place)):
            if text not in ids:
                raise InvalidInput(
                    f"{edges.at(row, place)} must be the id of a node in {nodes.source}, got {text!r}; "
                    "add a row for it there, or leave out the edge."
                )
            into[row] = ids[text]
    weights = _weights(edges, reading, ends)
    first, second = numbers
    between = first != second
    notes = (
        [f"{edges.source}: {(~between).sum()} edges from a node to itself are left out."] if not between.all() else []
    )
    first, second, weights = first[between], second[between], weights[between]
    if not reading.directed:
        first, second = np.minimum(first, second), np.maximum(first, second)
    keys, places, counts = np.unique(first * len(ids) + second, return_index=True, return_counts=True)
    if len(keys) < len(first):
        largest = np.zeros(len(keys))
        np.maximum.at(largest, np.repeat(np.arange(len(keys)), counts), weights[np.argsort(first * len(ids) + second)])
        notes.append(
            f"{edges.source}: {len(first) - len(keys)} edges were there before and count once, with the largest weight."
        )
        first, second, weights = first[places], second[places], largest
    matrix = sparse.coo_matrix((weights, (first, second)), shape=(len(ids), len(ids))).tocsr()
    if not reading.directed:
        matrix = matrix + matrix.T
    alone = len(ids) - len(np.unique(np.concatenate([first, second])))
    if alone:
        notes.append(f"{alone} of {len(ids)} nodes have no edge and are judged by their own features alone.")
    return matrix, notes


def _positions_of_ends(edges: Table, reading: Reading) -> tuple[int, int]:
    if (reading.source is None) != (reading.target is None):
        raise InvalidInput("--source and --target must be given together, or neither.")
    if reading.source is not None and reading.target is not None:
        return edges.position(reading.source, option="--source"), edges.position(reading.target, option="--target")
    for one, other in ENDS:
        if one in edges.columns and other in edges.columns:
            return edges.columns.index(one), edges.columns.index(other)
    if len(edges.columns) < 2:
        raise InvalidInput(
            f"{edges.source} must have a column for each end of an edge, but has {listed(edges.columns)}."
        )
    return 0, 1


def _weights(edges: Table, reading: Reading, ends: tuple[int, int]) -> np.ndarray:
    if reading.weight is None and (WEIGHT not in edges.columns or edges.columns.index(WEIGHT) in ends):
        return np.ones(len(edges))
    position = edges.position(reading.weight or WEIGHT, option="--weight")
    weights = edges.all_numbers(position)
    wrong = np.flatnonzero(~(weights > 0))
    if len(wrong):
        raise InvalidInput(
            f"{edges.at(wrong[0], position)} must be a weight above 0, got {edges.texts(position)[wrong[0]]!r}; "
            "leave out the edge instead."
        )
    return weights
