"""Figure 3: steps and accuracy against the penalty."""

from __future__ import annotations

from apgcn.benchmark import density, penalty_sweep
from apgcn.benchmark.aggregate import Summary
from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Panel, Row, Series
from apgcn.benchmark.config import Scope
from apgcn.benchmark.formatting import ACCURACY, GRAPH, MODEL, RUNS, STEPS, number, titled
from apgcn.benchmark.records import Record
from apgcn.benchmark.store import Store

FEWEST = 3  # penalties make a curve

NOTES = (
    "A step's price rises from left to right. Accuracy in percent on test nodes, with the paper's kind of interval; "
    "all means of a graph are over the same runs.",
    "K / T is the share of all node-steps that nodes took before they halted. Were halted nodes frozen, no others "
    "would be computed; as the paper has it, those whom somebody still hears are, too.",
    "Densities are of each node's K averaged over runs, smoothed by a kernel of 0.15 steps or more.",
    f"A graph is drawn when it has {FEWEST} penalties or more.",
)

COLUMNS = (
    GRAPH,
    MODEL,
    ArtifactColumn("penalty", lambda row: f"{row['penalty']:g}"),
    RUNS,
    STEPS,
    ACCURACY,
    ArtifactColumn("by split", lambda row: number(row["split_interval"])),
    ArtifactColumn("on validation nodes", lambda row: number(row["validation_accuracy"])),
)

plan = penalty_sweep.plan


def content(store: Store, scope: Scope) -> Artifact:
    """One line per graph and penalty; per graph four panels."""
    rows: list[Row] = []
    panels: list[Panel] = []
    shown: list[Record] = []
    for dataset in scope.datasets:
        for model in penalty_sweep.sweeping(scope.models):
            found = penalty_sweep.swept(store, scope, dataset, model)
            if len(found) < 2:
                continue
            means = {penalty: Summary.of(records) for penalty, records in found.items()}
            rows += [_row(dataset, model, penalty, mean) for penalty, mean in means.items()]
            shown += [record for records in found.values() for record in records]
            if len(found) < FEWEST:
                continue
            title = titled(dataset, model)
            drawn = [density.smoothed(store, records, name=f"{penalty:g}") for penalty, records in found.items()]
            panels += [
                Panel(f"{title}: steps", "K, averaged over runs", "density", tuple(drawn)),
                _against_penalty(
                    f"{title}: accuracy",
                    "test accuracy, %",
                    {penalty: (mean.accuracy or 0.0, mean.interval) for penalty, mean in means.items()},
                ),
                _against_penalty(
                    f"{title}: mean K",
                    "K",
                    {penalty: (mean.steps or 0.0, mean.steps_interval) for penalty, mean in means.items()},
                ),
                _against_work(f"{title}: accuracy against steps taken", list(means.values()), _most_steps(found)),
            ]
    return Artifact(
        "figure3",
        "steps and accuracy against the penalty",
        ArtifactTable(COLUMNS, tuple(rows)),
        panels=tuple(panels),
        notes=NOTES,
        records=tuple(shown),
    )


def _most_steps(found: dict[float, list[Record]]) -> int:
    """T of these runs, the same for all."""
    return int(next(iter(found.values()))[0].hyperparameters["max_steps"])


def _against_work(title: str, means: list[Summary], most: int) -> Panel:
    """The curve that the paper argues for: what more listening buys."""
    ordered = sorted(means, key=lambda mean: mean.steps or 0.0)
    shares = tuple(100 * (mean.steps or 0.0) / most for mean in ordered)
    accuracies = tuple(mean.accuracy or 0.0 for mean in ordered)
    series = Series("test accuracy, %", shares, accuracies, tuple(mean.interval for mean in ordered))
    return Panel(title, "mean K / T, %", "test accuracy, %", (series,))


def _row(dataset: str, model: str, penalty: float, mean: Summary) -> Row:
    return {"dataset": dataset, "model": model, "penalty": penalty, **mean.row}


def _against_penalty(title: str, y_title: str, values: dict[float, tuple[float, float | None]]) -> Panel:
    ys, half_widths = zip(*values.values(), strict=True)
    return Panel(title, "penalty", y_title, (Series(y_title, tuple(values), ys, half_widths),), log_x=True)
