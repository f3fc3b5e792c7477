"""How accurate is each model on each graph? What Tables 2 and 3 ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apgcn.experiments.columns import GRAPH, MODEL, RUNS
from apgcn.experiments.exhibit import Column, Exhibit, Row, Table
from apgcn.experiments.keys import Condition, RunKey
from apgcn.experiments.mean import Mean
from apgcn.experiments.published import ACCURACIES, MODEL_TITLES
from apgcn.experiments.record import Record
from apgcn.experiments.scope import PROTOCOL, Scope
from apgcn.experiments.store import Store
from apgcn.experiments.words import number, plus_minus, verdict
from apgcn.models.catalogue import MODELS
from apgcn.ranks import aligned_friedman

INTERVALS = (
    "Test accuracy in percent. ± is the paper's interval: 95 %, percentile bootstrap of the mean over runs as if they "
    "were independent, 1000 resamples, the larger side. “By split” resamples whole splits, because runs on one split "
    "share its luck; it is the honest one for another draw of the data.",
    "The verdict compares our mean with the paper's by the paper's kind of interval: both were made on the same "
    "splits.",
    "Stars, at the best model of a graph: it differs from the second best by an aligned Friedman test over paired "
    "runs, * below 0.05, ** below 0.01.",
)
COPIED = "“Copied” marks numbers that the paper took from Gasteiger et al. (PPNP, 2019) and did not run."
FEW = "Intervals over fewer than 20 runs are too narrow: there is too little to resample."

COLUMNS = (
    GRAPH,
    MODEL,
    RUNS,
    Column("ours", lambda row: plus_minus(row["accuracy"], row["interval"]) + row["stars"]),
    Column("by split", lambda row: number(row["split_interval"])),
    Column(
        "paper", lambda row: plus_minus(row["paper_accuracy"], row["paper_interval"]) + row["paper_stars"] + _mark(row)
    ),
    Column("difference", lambda row: number(row["difference"], sign=True)),
    Column("verdict", lambda row: row["verdict"], words=True),
)


def plan(scope: Scope) -> list[RunKey]:
    """Every model on every graph, with the paper's settings."""
    return [
        key
        for dataset in scope.datasets
        for model in scope.models
        for key in Condition.of_paper(dataset, model).first_runs(scope.runs or PROTOCOL)
    ]


def content(store: Store, scope: Scope, *, name: str, title: str) -> Exhibit:
    """Ours beside the paper's, graph by graph; models that were not run are there with the paper's number alone."""
    rows: list[Row] = []
    shown: list[Record] = []
    for dataset in scope.datasets:
        found = {model: _records(store, scope, dataset, model) for model in scope.models}
        stars = _stars(found)
        for model in sorted(found, key=_order):
            if not found[model] and (dataset, model) not in ACCURACIES:
                continue
            rows.append(_row(dataset, model, Mean.of(found[model]), stars.get(model, "")))
            shown += found[model]
    notes = [*INTERVALS]
    notes += [COPIED] if any(_mark(row) for row in rows) else []
    notes += [FEW] if any(1 < row["runs"] < 20 for row in rows) else []
    return Exhibit(name, title, Table(COLUMNS, tuple(rows)), notes=tuple(notes), records=tuple(shown))


def _records(store: Store, scope: Scope, dataset: str, model: str) -> list[Record]:
    return store.of(Condition.of_paper(dataset, model), scope.runs) if model in MODELS else []


def _order(model: str) -> int:
    """The paper's order; what it does not have comes last."""
    return [*MODEL_TITLES].index(model) if model in MODEL_TITLES else len(MODEL_TITLES)


def _row(dataset: str, model: str, mean: Mean, stars: str) -> dict[str, Any]:
    paper = ACCURACIES.get((dataset, model))
    accuracy, interval = (paper.accuracy, paper.interval) if paper else (None, None)
    return {
        "dataset": dataset,
        "model": model,
        **mean.row,
        "stars": stars,
        "paper_accuracy": accuracy,
        "paper_interval": interval,
        "paper_stars": paper.stars if paper else "",
        "paper_source": paper and paper.source,
        "difference": None if mean.accuracy is None or accuracy is None else mean.accuracy - accuracy,
        "verdict": verdict(mean.accuracy, mean.interval, accuracy, interval),
        "diverged": mean.diverged,
    }


def _mark(row: Row) -> str:
    return " (copied)" if (row["paper_source"] or "").startswith("copied") else ""


def _stars(found: dict[str, list[Record]]) -> dict[str, str]:
    """The stars of the best model, if there is a second best to compare it with on paired runs."""
    means = {model: Mean.of(records).accuracy for model, records in found.items() if records}
    ranked = sorted((model for model in means if means[model] is not None), key=lambda model: -(means[model] or 0))
    if len(ranked) < 2:
        return {}
    best, second = _paired(found[ranked[0]], found[ranked[1]])
    return {ranked[0]: aligned_friedman(best, second).stars} if len(best) > 1 else {}


def _paired(first: Sequence[Record], second: Sequence[Record]) -> tuple[list[float], list[float]]:
    """The test accuracies on the runs that both have."""
    one, other = (
        {(record.split, record.initialisation): record.test_accuracy or 0.0 for record in records}
        for records in (first, second)
    )
    shared = [run for run in one if run in other]
    return [one[run] for run in shared], [other[run] for run in shared]
