"""Figure 2: how far nodes listen on each graph."""

from __future__ import annotations

from dataclasses import replace

from apgcn.benchmark import accuracy_tables, density, penalty_sweep
from apgcn.benchmark.aggregate import Summary
from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Panel, Row
from apgcn.benchmark.config import RunKey, Scope
from apgcn.benchmark.formatting import GRAPH, MODEL, RUNS, STEPS, number, titled
from apgcn.benchmark.published import TABLE4
from apgcn.benchmark.records import Record
from apgcn.benchmark.store import Store

NOTES = (
    "Bars count every node in every run by its K, a whole number. The line is our reading of the paper's “average "
    "density distribution”: a Gaussian kernel density of each node's K averaged over runs. It spreads over values that "
    "no node ever took; the kernel is never narrower than 0.15 steps.",
)

COLUMNS = (
    GRAPH,
    MODEL,
    RUNS,
    STEPS,
    ArtifactColumn("paper", lambda row: number(row["paper_steps"])),
    ArtifactColumn("most common K", lambda row: str(row["mode"])),
    ArtifactColumn("nodes with it", lambda row: f"{100 * row['mode_share']:.1f} %"),
)


def plan(scope: Scope) -> list[RunKey]:
    """The runs of Tables 2 and 3 that halt."""
    return accuracy_tables.plan(replace(scope, models=tuple(penalty_sweep.sweeping(scope.models))))


def content(store: Store, scope: Scope) -> Artifact:
    """All densities together, as in the paper; then graph by graph the counts beside the density."""
    rows: list[Row] = []
    shown: list[Record] = []
    together, apart = [], []
    for dataset in scope.datasets:
        for model in penalty_sweep.sweeping(scope.models):
            records = store.of(scope.run_config(dataset, model), scope.runs) if scope.takes(dataset, model) else []
            if not records:
                continue
            shown += records
            title = titled(dataset, model)
            counted = density.histogram(records)
            drawn = density.smoothed(store, records, name=title)
            mean = Summary.of(records)
            share, mode = max(zip(counted.y, counted.x, strict=True))
            paper = TABLE4.get(dataset) if model == "apgcn" else None
            rows.append(
                {
                    "dataset": dataset,
                    "model": model,
                    **mean.row,
                    "paper_steps": paper and paper.steps,
                    "mode": mode,
                    "mode_share": share,
                }
            )
            together.append(drawn)
            smooth = replace(drawn, name="smoothed")
            apart.append(Panel(title, "K, steps taken", "share of nodes", (counted, smooth), line_title="density"))
    panels = [Panel("All graphs, smoothed", "K, averaged over runs", "density", tuple(together)), *apart]
    return Artifact(
        "figure2",
        "how far nodes listen",
        ArtifactTable(COLUMNS, tuple(rows)),
        panels=tuple(panels) if rows else (),
        notes=NOTES,
        records=tuple(shown),
    )
