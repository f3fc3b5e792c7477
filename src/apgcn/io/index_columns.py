"""Columns without a name, in which pandas writes the index of the rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from apgcn._utils.formatting import format_names
from apgcn.errors import InvalidInput
from apgcn.io.cells import without_decimal_zero

if TYPE_CHECKING:
    from apgcn.io.tables import Table

UNNAMED = "Unnamed: 0"  # the name that pandas and `read_csv` give to a first column without one
INDEX_NAME = re.compile(r"Unnamed: 0(\.[0-9]+)*|__index_level_[0-9]+__")  # in CSV, and in Parquet


def find_index_columns(table: Table) -> list[int]:
    """Indices of the columns that have no name of their own."""
    return [column for column, name in enumerate(table.columns) if INDEX_NAME.fullmatch(name)]


def first_two_columns(edges: Table) -> tuple[int, int]:
    """Indices of the endpoint columns where no names tell them: the first two columns that hold no index.

    Raises
    ------
    InvalidInput
        If there are no two columns, or the first column has no name and may be an endpoint or an index.
    """
    if len(edges.columns) < 2:
        raise InvalidInput(
            f"{edges.source} must have a source column and a target column, but has {format_names(edges.columns)}."
        )
    index = find_index_columns(edges)
    named = [column for column in range(len(edges.columns)) if column not in index]
    if len(named) < 2 or not index:
        return 0, 1
    for column in index:
        if not _counts_rows(edges, column):
            raise InvalidInput(
                f"{edges.source} must name its source column and its target column, but the column "
                f"{edges.columns[column]!r} has no name and is no index of the rows; pass --source and --target."
            )
    return named[0], named[1]


def choose_id_column(nodes: Table, edges: Table, *, usual: int | None, endpoints: tuple[int, int]) -> tuple[int, str]:
    """Index of the id column of a table with an index column, and a note.

    The column with a usual name is preferred, then the index, then the first other column; but if one of them has a
    node for every edge, it holds the ids.

    Raises
    ------
    InvalidInput
        If the index and another column without a usual name may both be the ids.
    """
    index = find_index_columns(nodes)[0]
    first_named = next(
        (column for column in range(len(nodes.columns)) if column not in find_index_columns(nodes)), None
    )
    candidates = [column for column in (usual, index, first_named) if column is not None]
    used = {text for column in endpoints for text in edges.as_text(column)}
    complete = [column for column in dict.fromkeys(candidates) if used and holds_ids(nodes, column, used)]
    name = nodes.columns[index]
    if usual is None and len(complete) > 1:
        both = format_names([nodes.columns[column] for column in complete])
        raise InvalidInput(f"{nodes.source} must have one column of node ids, but it may be {both}; pass --id.")
    chosen = (complete or candidates)[0]
    if chosen == index:
        return chosen, f"{nodes.source}: the index column {name!r} holds the node ids; pass --id to use another."
    return chosen, (
        f"{nodes.source}: ignored the index column {name!r}, because {nodes.columns[chosen]!r} holds the node ids; "
        f"pass --id {name!r} to use the index."
    )


def _counts_rows(table: Table, column: int) -> bool:
    """Whether the cells are different integers, as in an index of the rows."""
    ids = table.as_text(column)
    return len(set(ids)) == len(ids) and all(text.isdecimal() for text in ids)


def holds_ids(nodes: Table, column: int, used: set[str]) -> bool:
    """Whether the cells are different, and every id that is used is among them, with or without the decimals .0."""
    ids = nodes.as_text(column)
    present = set(ids)
    if len(present) < len(ids):
        return False
    return used <= present or set(map(without_decimal_zero, used)) <= set(map(without_decimal_zero, present))
