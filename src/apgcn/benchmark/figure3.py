"""Figure 3: propagation steps and accuracy against the penalty."""

from __future__ import annotations

from apgcn.benchmark import penalty_sweep
from apgcn.benchmark.aggregate import Summary
from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Panel, Row, Series
from apgcn.benchmark.config import Scope
from apgcn.benchmark.figure2 import MIN_BANDWIDTH, steps_density
from apgcn.benchmark.formatting import (
    ACCURACY,
    BY_SPLIT,
    GRAPH,
    MODEL,
    RUNS,
    STEPS,
    format_number,
    graph_model_title,
)
from apgcn.benchmark.records import Record
from apgcn.benchmark.store import Store

MIN_PENALTIES = 3  # points of a curve

NOTES = (
    "The penalty increases from left to right. Accuracy in percent on test nodes, with the paper's kind of interval; "
    "all means of a graph are over the same runs.",
    "K / T is the fraction of all node updates that were made before the nodes halted. With frozen halted nodes, no "
    "others are computed; with the paper's unfrozen ones, a halted node is still updated while a node that has not "
    "halted receives from it.",
    f"Densities are of each node's K averaged over runs, with a bandwidth of {MIN_BANDWIDTH} steps or more.",
    f"A graph is drawn if it has {MIN_PENALTIES} penalties or more.",
)

COLUMNS = (
    GRAPH,
    MODEL,
    ArtifactColumn("penalty", lambda row: f"{row['penalty']:g}"),
    RUNS,
    STEPS,
    ACCURACY,
    BY_SPLIT,
    ArtifactColumn("on validation nodes", lambda row: format_number(row["validation_accuracy"])),
)

plan = penalty_sweep.plan


def build(store: Store, scope: Scope) -> Artifact:
    """One row per graph and penalty; four panels per graph."""
    rows: list[Row] = []
    panels: list[Panel] = []
    shown: list[Record] = []
    for dataset in scope.datasets:
        for model in penalty_sweep.halting_models(scope.models):
            by_penalty = penalty_sweep.records_by_penalty(store, scope, dataset, model)
            if len(by_penalty) < 2:
                continue
            summaries = {penalty: Summary.from_records(records) for penalty, records in by_penalty.items()}
            rows += [
                {"dataset": dataset, "model": model, "penalty": penalty, **summary.row}
                for penalty, summary in summaries.items()
            ]
            shown += [record for records in by_penalty.values() for record in records]
            if len(by_penalty) >= MIN_PENALTIES:
                panels += _panels(store, graph_model_title(dataset, model), by_penalty, summaries)
    return Artifact(
        "figure3",
        "steps and accuracy against the penalty",
        ArtifactTable(COLUMNS, tuple(rows)),
        panels=tuple(panels),
        notes=NOTES,
        records=tuple(shown),
    )


def _panels(
    store: Store, title: str, by_penalty: dict[float, list[Record]], summaries: dict[float, Summary]
) -> list[Panel]:
    """Density of K, accuracy against penalty, mean K against penalty, and accuracy against steps."""
    densities = [steps_density(store, records, name=f"{penalty:g}") for penalty, records in by_penalty.items()]
    accuracies = {penalty: (summary.accuracy or 0.0, summary.interval) for penalty, summary in summaries.items()}
    steps = {penalty: (summary.steps or 0.0, summary.steps_interval) for penalty, summary in summaries.items()}
    max_steps = int(next(iter(by_penalty.values()))[0].hyperparameters["max_steps"])  # the same for all runs
    return [
        Panel(f"{title}: steps", "K, averaged over runs", "density", tuple(densities)),
        _against_penalty(f"{title}: accuracy", "test accuracy, %", accuracies),
        _against_penalty(f"{title}: mean K", "K", steps),
        _accuracy_against_steps(f"{title}: accuracy against steps", list(summaries.values()), max_steps),
    ]


def _against_penalty(title: str, y_title: str, values: dict[float, tuple[float, float | None]]) -> Panel:
    ys, half_widths = zip(*values.values(), strict=True)
    return Panel(title, "penalty", y_title, (Series(y_title, tuple(values), ys, half_widths),), log_x=True)


def _accuracy_against_steps(title: str, summaries: list[Summary], max_steps: int) -> Panel:
    """Accuracy against mean K / T: what additional propagation steps gain."""
    ordered = sorted(summaries, key=lambda summary: summary.steps or 0.0)
    fractions = tuple(100 * (summary.steps or 0.0) / max_steps for summary in ordered)
    accuracies = tuple(summary.accuracy or 0.0 for summary in ordered)
    series = Series("test accuracy, %", fractions, accuracies, tuple(summary.interval for summary in ordered))
    return Panel(title, "mean K / T, %", "test accuracy, %", (series,))
