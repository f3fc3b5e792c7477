"""Table 1: the graphs."""

from __future__ import annotations

from typing import Any

from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Row
from apgcn.benchmark.config import RunKey, Scope
from apgcn.benchmark.formatting import GRAPH, hyperparameters_text, number
from apgcn.benchmark.graph_cache import cleaned
from apgcn.benchmark.published import TABLE1
from apgcn.benchmark.records import GraphRecord
from apgcn.benchmark.store import Store
from apgcn.training.outputs import versions

COUNTS = ("classes", "features", "nodes", "edges")

NOTES = (
    "Counted after cleaning: undirected, without self-loops, largest connected component; every edge once.",
    "The average degree is 2E/n, as each edge has two ends. The paper prints twice that, 4E/n.",
)

COLUMNS = (
    GRAPH,
    ArtifactColumn("classes", lambda row: f"{row['classes']:,}"),
    ArtifactColumn("features", lambda row: f"{row['features']:,}"),
    ArtifactColumn("nodes", lambda row: f"{row['nodes']:,}"),
    ArtifactColumn("edges", lambda row: f"{row['edges']:,}"),
    ArtifactColumn("degree", lambda row: number(row["degree"])),
    ArtifactColumn("paper's degree", lambda row: number(row["paper_degree"])),
    ArtifactColumn("verdict", lambda row: row["verdict"], words=True),
)

ORIGIN = (
    GRAPH,
    ArtifactColumn("versions", lambda row: row["versions"], words=True),
    ArtifactColumn("command", lambda row: row["command"], words=True),
)


def plan(scope: Scope) -> list[RunKey]:
    """Nothing is trained."""
    return []


def measure(store: Store, scope: Scope, *, device: str, command: str) -> None:
    """Count the graphs that were not counted yet."""
    for dataset in scope.datasets:
        if dataset not in store.graphs:
            graph = cleaned(dataset)
            store.keep_graph(
                GraphRecord(
                    key=dataset,
                    classes=graph.num_classes,
                    features=graph.num_features,
                    nodes=graph.num_nodes,
                    edges=graph.num_directed_edges // 2,
                    versions=versions(),
                    command=command,
                )
            )


def content(store: Store, scope: Scope) -> Artifact:
    """What we count beside what the paper prints."""
    graphs = [store.graphs[dataset] for dataset in scope.datasets if dataset in store.graphs]
    origin = tuple(
        {"dataset": graph.key, "versions": hyperparameters_text(graph.versions), "command": graph.command}
        for graph in graphs
    )
    table = ArtifactTable(COLUMNS, tuple(map(_row, graphs)))
    return Artifact("table1", "the graphs", table, notes=NOTES, origin=ArtifactTable(ORIGIN, origin))


def _row(graph: GraphRecord) -> Row:
    paper = TABLE1.get(graph.key)
    row: dict[str, Any] = {"dataset": graph.key, **{name: getattr(graph, name) for name in COUNTS}}
    row["degree"] = 2 * graph.edges / max(1, graph.nodes)
    for name in (*COUNTS, "degree"):
        row[f"paper_{name}"] = getattr(paper, name) if paper else None
    differing = [name for name in COUNTS if row[name] != row[f"paper_{name}"]]
    row["verdict"] = (
        "not in the paper" if not paper else f"other {', '.join(differing)}" if differing else "same counts"
    )
    return row
