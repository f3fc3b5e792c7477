"""Ids of nodes, and the nodes that the ids of another table mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from apgcn._utils.formatting import format_names, pluralize
from apgcn.errors import InvalidInput
from apgcn.io.cells import INTEGRAL_FLOAT, is_encodable, without_decimal_zero
from apgcn.io.index_columns import holds_ids
from apgcn.io.tables import Table


def index_nodes(nodes: Table, id_column: int) -> tuple[dict[str, int], list[str]]:
    """Row of every node by its id, and a note if the ids are integers in a column of floats: `12.0` is the id 12.

    Raises
    ------
    InvalidInput
        If there is no row, or an id is empty, contains a null byte or occurs twice.
    """
    if not len(nodes):
        raise InvalidInput(f"{nodes.source} must have a row for every node, but has none.")
    rows: dict[str, int] = {}
    ids, notes = nodes.as_text(id_column), []
    if all(map(INTEGRAL_FLOAT.fullmatch, ids)):
        notes = [f"{nodes.source}, column {nodes.columns[id_column]!r}: ids are read without .0, such as {ids[0]!r}."]
        ids = list(map(without_decimal_zero, ids))
    for row, node_id in enumerate(ids):
        if not node_id:
            raise InvalidInput(f"{nodes.location(row, id_column)} must be a node id, but is empty.")
        if "\0" in node_id or not is_encodable(node_id):
            raise InvalidInput(f"{nodes.location(row, id_column)} must be a node id, but {node_id!r} is no valid text.")
        if node_id in rows:
            raise InvalidInput(
                f"{nodes.location(row, id_column)} must be a unique node id, but {node_id!r} is also the id in "
                f"{nodes.location(rows[node_id], id_column)}."
            )
        rows[node_id] = row
    return rows, notes


def index_endpoints(
    edges: Table, columns: Sequence[int], node_index: Mapping[str, int], nodes: Table
) -> tuple[list[np.ndarray], list[str]]:
    """Rows of the nodes that each of these columns names, (edges,) each, and notes.

    An id without a node is matched after dropping the `.0` of integers that were stored as floats.
    """
    cells = [edges.as_text(column) for column in columns]
    indices = [np.array([node_index.get(text, -1) for text in ids], dtype=np.int64) for ids in cells]
    if all((rows >= 0).all() for rows in indices):
        return indices, []
    shortened = _shortened_index(node_index)
    notes = []
    for column, ids, rows in zip(columns, cells, indices, strict=True):
        unmatched = [row for row in np.flatnonzero(rows < 0).tolist() if without_decimal_zero(ids[row]) in shortened]
        if unmatched:
            first = unmatched[0]
            _check_one_spelling(edges, column, ids)
            _check_unambiguous(nodes, node_index)
            rows[unmatched] = [shortened[without_decimal_zero(ids[row])] for row in unmatched]
            notes.append(
                f"{edges.source}, column {edges.columns[column]!r}: {pluralize(len(unmatched), 'id')} matched with or "
                f"without the decimals .0, such as {ids[first]!r}."
            )
    _check_all_known(edges, columns, cells, indices, nodes)
    return indices, notes


def _shortened_index(node_index: Mapping[str, int]) -> dict[str, int]:
    """Row of every node by its id without the decimals .0."""
    return {without_decimal_zero(node_id): row for node_id, row in node_index.items()}


def _check_unambiguous(nodes: Table, node_index: Mapping[str, int]) -> None:
    """Raise if two ids differ in the decimals .0 alone."""
    counts = Counter(map(without_decimal_zero, node_index))
    both = [node_id for node_id, count in counts.items() if count > 1]
    if both:
        raise InvalidInput(
            f"{nodes.source} must have one spelling of each id to match ids with and without .0, but {both[0]!r} and "
            f"'{both[0]}.0' are two nodes; write the ids of both tables in the same way."
        )


def _check_one_spelling(edges: Table, column: int, ids: Sequence[str]) -> None:
    """Raise if a column of endpoints has an id both with and without the decimals .0."""
    present = set(ids)
    both = [text for text in present if text != without_decimal_zero(text) and without_decimal_zero(text) in present]
    if both:
        raise InvalidInput(
            f"{edges.source}, column {edges.columns[column]!r} must have one spelling of each id to match ids with and "
            f"without .0, but has {without_decimal_zero(min(both))!r} and {min(both)!r}; write the ids of both tables "
            "in the same way."
        )


def _check_all_known(
    edges: Table, columns: Sequence[int], cells: Sequence[Sequence[str]], indices: Sequence[np.ndarray], nodes: Table
) -> None:
    """Raise if an edge names a node that is not in the table; all such edges and ids are counted."""
    unknown = np.logical_or.reduce([rows < 0 for rows in indices])
    if not unknown.any():
        return
    row = int(np.flatnonzero(unknown)[0])
    side = next(number for number, rows in enumerate(indices) if rows[row] < 0)
    missing = list(
        dict.fromkeys(
            ids[row]
            for row in np.flatnonzero(unknown).tolist()
            for ids, rows in zip(cells, indices, strict=True)
            if rows[row] < 0
        )
    )
    message = (
        f"{edges.location(row, columns[side])} must be the id of a node in {nodes.source}, got {cells[side][row]!r}"
    )
    if unknown.sum() == 1:
        remedy = "add a row for it there, or remove the edge."
    else:
        remedy = (
            f"{int(unknown.sum()):,} of {len(edges):,} edges name {pluralize(len(missing), 'node')} without a row: "
            f"{format_names(missing)}; add rows for them there, or remove these edges."
        )
    used = {text for ids in cells for text in ids}
    other = [name for column, name in enumerate(nodes.columns) if holds_ids(nodes, column, used)]
    if other:
        remedy = f"{remedy.removesuffix('.')}; if column {other[0]!r} holds the ids, pass --id {other[0]!r}."
    raise InvalidInput(f"{message}; {remedy}")
