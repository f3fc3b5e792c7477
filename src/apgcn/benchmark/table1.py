"""Table 1: statistics of the graphs."""

from __future__ import annotations

from typing import Any

from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Row
from apgcn.benchmark.config import RunKey, Scope
from apgcn.benchmark.formatting import COMMAND, GRAPH, VERDICT, VERSIONS, format_hyperparameters, format_number
from apgcn.benchmark.published import TABLE1
from apgcn.benchmark.records import GraphRecord
from apgcn.benchmark.store import Store
from apgcn.benchmark.worker import cleaned_graph
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
    ArtifactColumn("degree", lambda row: format_number(row["degree"])),
    ArtifactColumn("paper's degree", lambda row: format_number(row["paper_degree"])),
    VERDICT,
)

PROVENANCE = (GRAPH, VERSIONS, COMMAND)


def plan(scope: Scope) -> list[RunKey]:
    """No runs: nothing is trained."""
    return []


def measure(store: Store, scope: Scope, *, device: str, command: str) -> None:
    """Count nodes, edges, features and classes of the graphs that the store does not have yet."""
    for dataset in scope.datasets:
        if dataset not in store.graphs:
            graph = cleaned_graph(dataset)
            store.add_graph(
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


def build(store: Store, scope: Scope) -> Artifact:
    """Our counts beside the paper's."""
    graphs = [store.graphs[dataset] for dataset in scope.datasets if dataset in store.graphs]
    provenance = tuple(
        {"dataset": graph.key, "versions": format_hyperparameters(graph.versions), "command": graph.command}
        for graph in graphs
    )
    table = ArtifactTable(COLUMNS, tuple(map(_row, graphs)))
    return Artifact("table1", "the graphs", table, notes=NOTES, provenance=ArtifactTable(PROVENANCE, provenance))


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
