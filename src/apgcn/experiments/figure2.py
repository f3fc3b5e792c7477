"""Figure 2: how far nodes listen on each graph."""

from __future__ import annotations

from dataclasses import replace

from apgcn.experiments import accuracy, density, sweep
from apgcn.experiments.columns import GRAPH, MODEL, RUNS, STEPS
from apgcn.experiments.exhibit import Column, Exhibit, Panel, Row, Table
from apgcn.experiments.keys import RunKey
from apgcn.experiments.mean import Mean
from apgcn.experiments.published import TABLE4
from apgcn.experiments.record import Record
from apgcn.experiments.scope import Scope
from apgcn.experiments.store import Store
from apgcn.experiments.words import number, titled

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
    Column("paper", lambda row: number(row["paper_steps"])),
    Column("most common K", lambda row: str(row["mode"])),
    Column("nodes with it", lambda row: f"{100 * row['mode_share']:.1f} %"),
)


def plan(scope: Scope) -> list[RunKey]:
    """The runs of Tables 2 and 3 that halt."""
    return accuracy.plan(replace(scope, models=tuple(sweep.sweeping(scope.models))))


def content(store: Store, scope: Scope) -> Exhibit:
    """All densities together, as in the paper; then graph by graph the counts beside the density."""
    rows: list[Row] = []
    shown: list[Record] = []
    together, apart = [], []
    for dataset in scope.datasets:
        for model in sweep.sweeping(scope.models):
            records = store.of(scope.condition(dataset, model), scope.runs) if scope.takes(dataset, model) else []
            if not records:
                continue
            shown += records
            title = titled(dataset, model)
            counted = density.histogram(records)
            drawn = density.smoothed(store, records, name=title)
            mean = Mean.of(records)
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
    return Exhibit(
        "figure2",
        "how far nodes listen",
        Table(COLUMNS, tuple(rows)),
        panels=tuple(panels) if rows else (),
        notes=NOTES,
        records=tuple(shown),
    )
