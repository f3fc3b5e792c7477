"""Figure 4: accuracy and propagation steps against the number of training nodes per class."""

from __future__ import annotations

from apgcn.benchmark.aggregate import Summary, restrict_to_common_runs
from apgcn.benchmark.artifacts import Artifact, ArtifactTable, Panel, Row, Series
from apgcn.benchmark.config import PROTOCOL_RUNS, RunKey, Scope
from apgcn.benchmark.figure2 import MIN_BANDWIDTH, steps_density
from apgcn.benchmark.formatting import (
    ACCURACY,
    BY_SPLIT,
    GRAPH,
    MODEL,
    RUNS,
    STEPS,
    TRAIN_PER_CLASS_COLUMN,
    graph_title,
    model_title,
)
from apgcn.benchmark.penalty_sweep import halting_models
from apgcn.benchmark.records import Record
from apgcn.benchmark.store import Store

TRAIN_PER_CLASS_VALUES = (5, 10, 20, 40, 60)  # the paper shows a curve and names no values

NOTES = (
    "Training nodes per class; all else as in the paper, which draws this figure without naming its values. All means "
    "of a model are over the same runs.",
    f"Densities are of each node's K averaged over runs, with a bandwidth of {MIN_BANDWIDTH} steps or more.",
)

COLUMNS = (GRAPH, MODEL, TRAIN_PER_CLASS_COLUMN, RUNS, ACCURACY, BY_SPLIT, STEPS)


def plan(scope: Scope) -> list[RunKey]:
    """Every model with every number of training nodes per class."""
    return [
        key
        for dataset, model in scope.pairs()
        for train_per_class in TRAIN_PER_CLASS_VALUES
        for key in scope.run_config(dataset, model, train_per_class=train_per_class).first_runs(
            scope.runs or PROTOCOL_RUNS
        )
    ]


def build(store: Store, scope: Scope) -> Artifact:
    """One row per graph, model and training set size; per graph the accuracies, and the densities of each model."""
    rows: list[Row] = []
    panels: list[Panel] = []
    shown: list[Record] = []
    for dataset in scope.datasets:
        curves: list[Series] = []
        density_panels: list[Panel] = []
        for model in scope.models:
            by_size = _records_by_size(store, scope, dataset, model)
            if len(by_size) < 2:
                continue
            summaries = {train_per_class: Summary.from_records(records) for train_per_class, records in by_size.items()}
            rows += [
                {"dataset": dataset, "model": model, "train_per_class": train_per_class, **summary.row}
                for train_per_class, summary in summaries.items()
            ]
            shown += [record for records in by_size.values() for record in records]
            accuracies = tuple(summary.accuracy or 0.0 for summary in summaries.values())
            half_widths = tuple(summary.interval for summary in summaries.values())
            curves.append(Series(model_title(model), tuple(summaries), accuracies, half_widths))
            if model in halting_models(scope.models):
                densities = [
                    steps_density(store, records, name=f"{train_per_class}")
                    for train_per_class, records in by_size.items()
                ]
                title = f"{graph_title(dataset)}: steps of {model_title(model)} by training nodes per class"
                density_panels.append(Panel(title, "K, averaged over runs", "density", tuple(densities)))
        if curves:
            title = f"{graph_title(dataset)}: accuracy"
            panels += [Panel(title, "training nodes per class", "test accuracy, %", tuple(curves)), *density_panels]
    return Artifact(
        "figure4",
        "accuracy and steps against the number of training nodes per class",
        ArtifactTable(COLUMNS, tuple(rows)),
        panels=tuple(panels),
        notes=NOTES,
        records=tuple(shown),
    )


def _records_by_size(store: Store, scope: Scope, dataset: str, model: str) -> dict[int, list[Record]]:
    """Records by number of training nodes per class, restricted to the runs that all of them have."""
    if not scope.includes(dataset, model):
        return {}
    run_configs = {
        train_per_class: scope.run_config(dataset, model, train_per_class=train_per_class)
        for train_per_class in TRAIN_PER_CLASS_VALUES
    }
    return restrict_to_common_runs(
        {
            train_per_class: store.records_for(run_config, scope.runs)
            for train_per_class, run_config in run_configs.items()
        }
    )
