"""Meaning of the columns of a node table and an edge table.

`TableSchema` names the columns. The functions find each of them in a table: by the given name, else by a usual one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from apgcn._utils.formatting import format_names
from apgcn._utils.validation import check_int
from apgcn.errors import InvalidInput
from apgcn.io.index_columns import find_index_columns, first_two_columns

if TYPE_CHECKING:
    from apgcn.io.tables import Table

ID_COLUMNS = ("id", "node", "node_id", "name")
ENDPOINT_COLUMNS = (("source", "target"), ("from", "to"), ("src", "dst"), ("node1", "node2"))
WEIGHT_COLUMN = "weight"
UNWEIGHTED = ""  # as TableSchema.weight: the edges have no weight column


@dataclass(frozen=True)
class TableSchema:
    """Names of the columns; None stands for a column that is found by its name or position.

    Attributes
    ----------
    label : str or None
        Column of classes, empty where the class is unknown; None for a graph without labels.
    id : str or None
        Column of node ids; by default `id`, `node`, `node_id` or `name`, else the first column.
    source, target : str or None
        Endpoints of an edge; by default `source` and `target`, or another pair of `ENDPOINT_COLUMNS`, else the first
        two columns.
    weight : str or None
        Column of edge weights; by default `weight`, else every weight is 1; "" if there is no such column.
    directed : bool
        Whether only the target of an edge receives from the source; otherwise both receive from each other.
    one_hot, bag_of_words, ignore : sequences of str
        Text columns that become one feature per value, or one feature per word; columns that are no features.
    min_class : int
        A class with fewer labelled nodes is treated as unknown.
    dropped_classes : sequence of str
        The classes that had too few labelled nodes in training; `build_graph` fills it in.
    """

    label: str | None = None
    id: str | None = None
    source: str | None = None
    target: str | None = None
    weight: str | None = None
    directed: bool = False
    one_hot: Sequence[str] = ()
    bag_of_words: Sequence[str] = ()
    ignore: Sequence[str] = ()
    min_class: int = 1
    dropped_classes: Sequence[str] = ()

    def __post_init__(self) -> None:
        for field in ("label", "id", "source", "target", "weight"):
            if not isinstance(getattr(self, field), str | None):
                raise InvalidInput(f"{field} must be the name of a column, got {getattr(self, field)!r}.")
        check_int("--min-class", self.min_class)
        for field in ("one_hot", "bag_of_words", "ignore", "dropped_classes"):
            columns = getattr(self, field)
            is_list = isinstance(columns, Iterable) and not isinstance(columns, str)
            if not is_list or not all(isinstance(column, str) for column in columns):
                raise InvalidInput(f"{field} must be a list of column names, got {columns!r}.")
            object.__setattr__(self, field, tuple(columns))


def resolve_schema(edges: Table, nodes: Table, schema: TableSchema, *, id_column: int) -> TableSchema:
    """Schema with the id, endpoint and weight columns that were found, for reading other tables in the same way."""
    source, target = find_endpoint_columns(edges, schema)
    weight = find_weight_column(edges, schema, (source, target))
    return replace(
        schema,
        id=nodes.columns[id_column],
        source=edges.columns[source],
        target=edges.columns[target],
        weight=UNWEIGHTED if weight is None else edges.columns[weight],
    )


def find_usual_id_column(nodes: Table) -> int | None:
    """Index of the column of node ids by its name; None if no column has a usual name."""
    return next((column for name in ID_COLUMNS if (column := nodes.find_column(name)) is not None), None)


def find_usual_endpoint_columns(edges: Table) -> tuple[int, int] | None:
    """Indices of the source and target columns by their names; None if no columns have usual names."""
    for source_name, target_name in ENDPOINT_COLUMNS:
        source, target = edges.find_column(source_name), edges.find_column(target_name)
        if source is not None and target is not None:
            return source, target
    return None


def find_endpoint_columns(edges: Table, schema: TableSchema) -> tuple[int, int]:
    """Indices of the source column and the target column."""
    if (schema.source is None) != (schema.target is None):
        raise InvalidInput("--source and --target must be passed together, or neither.")
    if schema.source is not None and schema.target is not None:
        if schema.source == schema.target:
            raise InvalidInput(f"--source and --target must name two columns, got {schema.source!r} twice.")
        return (
            edges.column_index(schema.source, option="--source"),
            edges.column_index(schema.target, option="--target"),
        )
    usual = find_usual_endpoint_columns(edges)
    return first_two_columns(edges) if usual is None else usual


def find_weight_column(edges: Table, schema: TableSchema, endpoints: tuple[int, int]) -> int | None:
    """Index of the column of edge weights; None if the edges are unweighted."""
    if schema.weight == UNWEIGHTED:
        return None
    if schema.weight is not None:
        return edges.column_index(schema.weight, option="--weight")
    column = edges.find_column(WEIGHT_COLUMN)
    return None if column in endpoints else column


def feature_columns(nodes: Table, schema: TableSchema, *, used: set[int | None]) -> list[str]:
    """Names of the columns that may be features: all but the `used` ones (id, label) and the ignored ones.

    Columns without a name, which hold the index of the rows, are no features either.
    """
    excluded = used | {nodes.column_index(name, option="--ignore") for name in schema.ignore}
    for option, names in (("--one-hot", schema.one_hot), ("--bag-of-words", schema.bag_of_words)):
        for name in names:
            if nodes.column_index(name, option=option) in excluded:
                raise InvalidInput(
                    f"{option} must name a feature column, but {name!r} is the id, the label or ignored."
                )
    both = [name for name in schema.one_hot if name in schema.bag_of_words]
    if both:
        raise InvalidInput(f"{format_names(both)} must be passed to --one-hot or to --bag-of-words, not to both.")
    encoded = (*schema.one_hot, *schema.bag_of_words)
    excluded |= {column for column in find_index_columns(nodes) if nodes.columns[column] not in encoded}
    return [name for column, name in enumerate(nodes.columns) if column not in excluded]
