"""First line of an edge table: column names, or an edge of a file without a header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from apgcn.io.cells import without_decimal_zero
from apgcn.io.schema import TableSchema, find_usual_endpoint_columns
from apgcn.io.tables import Table


def read_first_line(edges: Table, node_index: Mapping[str, int], schema: TableSchema) -> tuple[Table, list[str]]:
    """Edge table whose first line is an edge if its first two cells are ids of nodes, and a note about it.

    Names that the schema has, and usual ones such as `source` and `target`, are names in any case.
    """
    if edges.header is None or len(edges.columns) < 2:
        return edges, []
    first, second = edges.header.cells[:2]
    if not all(cell in node_index or without_decimal_zero(cell) in node_index for cell in (first, second)):
        edges.check_header()
        return edges, []
    is_header = {schema.source, schema.target, schema.weight} & set(edges.columns)
    if is_header or find_usual_endpoint_columns(edges) is not None:
        edges.check_header()
        return edges, [f"{edges.source}: the first line is the header, although {first!r} and {second!r} are nodes."]
    names = [schema.source or "source", schema.target or "target"]
    names += [f"column {number}" for number in range(3, len(edges.columns) + 1)]
    line_numbers = range(2, len(edges) + 2) if edges.line_numbers is None else edges.line_numbers
    with_first_line = replace(
        edges,
        columns=tuple(names),
        cells=[(cell, *cells) for cell, cells in zip(edges.header.cells, edges.cells, strict=True)],
        line_numbers=[edges.header.line, *line_numbers],
        header=None,
    )
    note = (
        f"{edges.source}: the first line is an edge, because {first!r} and {second!r} are nodes; if they are names of "
        f"columns, pass --source {first!r} --target {second!r}."
    )
    return with_first_line, [note]
