"""Which files hold one's own graph? Two tables, or one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apgcn.cli.progress import say
from apgcn.errors import InvalidInput
from apgcn.io.build_graph import TableSchema

if TYPE_CHECKING:
    from apgcn.io.build_graph import ReadGraph

EDGES = Annotated[Path | None, typer.Option(help="One's own graph: a table (.csv, .tsv, .parquet) of edges.")]
NODES = Annotated[Path | None, typer.Option(help="A table of its nodes.")]
GRAPH = Annotated[
    Path | None, typer.Option("--graph", help="Instead of tables, one file: .graphml, or .npz of `write_npz`.")
]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]


@dataclass(frozen=True)
class Files:
    """What a user typed after --edges, --nodes and --graph."""

    edges: Path | None
    nodes: Path | None
    graph: Path | None

    def __post_init__(self) -> None:
        if self.graph is not None and (self.edges is not None or self.nodes is not None):
            raise InvalidInput("--graph must be given without --edges and --nodes: it holds both.")
        if self.edges is None and self.nodes is not None:
            raise InvalidInput("--nodes must be given together with --edges.")

    @property
    def given(self) -> bool:
        return self.graph is not None or self.edges is not None

    @property
    def all(self) -> tuple[Path | None, ...]:
        return self.edges, self.nodes, self.graph

    @property
    def arrays(self) -> bool:
        """Whether features come as they are, not as columns."""
        return self.graph is not None and self.graph.suffix.lower() == ".npz"

    def read(self, schema: TableSchema, *, quiet: bool = False, **trained: Any) -> ReadGraph:
        """The graph, after saying what was left out or made up, if not quiet; `trained` is as in `build_graph`."""
        from apgcn.io.build_graph import build_graph
        from apgcn.io.registry import read_graph, read_table

        if self.graph is not None:
            read = read_graph(self.graph, schema, **trained)
        elif self.edges is not None and self.nodes is not None:
            read = build_graph(read_table(self.edges), read_table(self.nodes), schema, name="graph", **trained)
        else:
            raise InvalidInput("--edges and --nodes must be given together, or --graph.")
        if not quiet:
            say_all(read.notes)
        return read


def say_all(notes: Sequence[str]) -> None:
    """What was left out or made up, a line each."""
    for note in notes:
        say(note)
