"""Figure 4: accuracy and steps against the number of labels."""

from __future__ import annotations

from apgcn.benchmark import density, penalty_sweep
from apgcn.benchmark.aggregate import Summary, comparable
from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Panel, Row, Series
from apgcn.benchmark.config import PROTOCOL, RunKey, Scope
from apgcn.benchmark.formatting import ACCURACY, GRAPH, MODEL, RUNS, STEPS, graph_title, model_title, number
from apgcn.benchmark.records import Record
from apgcn.benchmark.store import Store

LABELS = (5, 10, 20, 40, 60)  # the paper shows a curve and names no values

NOTES = (
    "Training nodes a class; all else as in the paper. The paper draws this figure without naming its values. All "
    "means of a model are over the same runs.",
    "Densities are of each node's K averaged over runs, smoothed by a kernel of 0.15 steps or more.",
)

COLUMNS = (
    GRAPH,
    MODEL,
    ArtifactColumn("labels a class", lambda row: str(row["labels"])),
    RUNS,
    ACCURACY,
    ArtifactColumn("by split", lambda row: number(row["split_interval"])),
    STEPS,
)


def plan(scope: Scope) -> list[RunKey]:
    """Every model with every number of labels."""
    return [
        key
        for dataset, model in scope.pairs()
        for labels in LABELS
        for key in scope.run_config(dataset, model, train_per_class=labels).first_runs(scope.runs or PROTOCOL)
    ]


def content(store: Store, scope: Scope) -> Artifact:
    """One line per graph, model and number of labels; per graph the accuracies, and the densities of each model."""
    rows: list[Row] = []
    panels: list[Panel] = []
    shown: list[Record] = []
    for dataset in scope.datasets:
        curves: list[Series] = []
        densities: list[Panel] = []
        for model in scope.models:
            if not scope.takes(dataset, model):
                continue
            conditions = {labels: scope.run_config(dataset, model, train_per_class=labels) for labels in LABELS}
            found = comparable({labels: store.of(one, scope.runs) for labels, one in conditions.items()})
            if len(found) < 2:
                continue
            means = {labels: Summary.of(records) for labels, records in found.items()}
            rows += [_row(dataset, model, labels, mean) for labels, mean in means.items()]
            shown += [record for records in found.values() for record in records]
            curves.append(
                Series(
                    model_title(model),
                    tuple(means),
                    tuple(mean.accuracy or 0.0 for mean in means.values()),
                    tuple(mean.interval for mean in means.values()),
                )
            )
            if model in penalty_sweep.sweeping(scope.models):
                drawn = [density.smoothed(store, records, name=f"{labels}") for labels, records in found.items()]
                title = f"{graph_title(dataset)}: steps of {model_title(model)} by labels a class"
                densities.append(Panel(title, "K, averaged over runs", "density", tuple(drawn)))
        if curves:
            title = f"{graph_title(dataset)}: accuracy"
            panels += [Panel(title, "training nodes a class", "test accuracy, %", tuple(curves)), *densities]
    return Artifact(
        "figure4",
        "accuracy and steps against the number of labels",
        ArtifactTable(COLUMNS, tuple(rows)),
        panels=tuple(panels),
        notes=NOTES,
        records=tuple(shown),
    )


def _row(dataset: str, model: str, labels: int, mean: Summary) -> Row:
    return {"dataset": dataset, "model": model, "labels": labels, **mean.row}
