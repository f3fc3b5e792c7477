"""How accurate is each model on each graph? What Tables 2 and 3 ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from apgcn._utils.significance import aligned_friedman
from apgcn.benchmark.aggregate import Summary
from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Row
from apgcn.benchmark.config import PROTOCOL, RunKey, Scope
from apgcn.benchmark.formatting import GRAPH, MODEL, NOTHING, RUNS, model_title, number, plus_minus, verdict
from apgcn.benchmark.published import ACCURACIES, MODEL_TITLES
from apgcn.benchmark.records import Record
from apgcn.benchmark.store import Store
from apgcn.models.presets import KINDS
from apgcn.models.registry import MODELS

INTERVALS = (
    "Test accuracy in percent. ± is the paper's interval: 95 %, percentile bootstrap of the mean over runs as if they "
    "were independent, 1000 resamples, the larger side. “By split” resamples whole splits, because runs on one split "
    "share its luck; it is the honest one for another draw of the data.",
    "The verdict compares our mean with the paper's by the paper's kind of interval: both were made on the same "
    "splits.",
    "Stars, at the best of the models that were run on a graph: it differs from the second best of them by an aligned "
    "Friedman test over paired runs of ours, * below 0.05, ** below 0.01.",
    "Settings are those behind the paper's row: “paper” what its authors ran, or would have by what they say of "
    "Amazon; “published” what came with the numbers that they copied or, where they have none, with the model. “Tuned” "
    "are ours, found on validation seeds or taken over from a relative; apgcn models has the source of every value. "
    "Rows with other settings than the paper's row come below it and have stars among themselves.",
)
OTHER = "other settings than the paper's row"
ONE_RUN = "{} has no initial weights, and so one run per split: at most 20."
COPIED = "“Copied” marks numbers that the paper took from Gasteiger et al. (PPNP, 2019) and did not run."
FEW = "Intervals over fewer than 20 runs are too narrow: there is too little to resample."

COLUMNS = (
    GRAPH,
    MODEL,
    ArtifactColumn("hyperparameters", lambda row: row["settings_kind"], words=True),
    RUNS,
    ArtifactColumn("ours", lambda row: plus_minus(row["accuracy"], row["interval"]) + row["stars"]),
    ArtifactColumn("by split", lambda row: number(row["split_interval"])),
    ArtifactColumn(
        "paper", lambda row: plus_minus(row["paper_accuracy"], row["paper_interval"]) + row["paper_stars"] + _mark(row)
    ),
    ArtifactColumn("difference", lambda row: number(row["difference"], sign=True)),
    ArtifactColumn("verdict", lambda row: row["verdict"], words=True),
)


def plan(scope: Scope) -> list[RunKey]:
    """Every model on every graph."""
    return [
        key
        for dataset, model in scope.pairs()
        for key in scope.run_config(dataset, model).first_runs(scope.runs or PROTOCOL)
    ]


def content(store: Store, scope: Scope, *, name: str, title: str) -> Artifact:
    """Ours beside the paper's, graph by graph; models that were not run are there with the paper's number alone."""
    rows: list[Row] = []
    shown: list[Record] = []
    for dataset in scope.datasets:
        for group in (scope, *_others(scope)):
            found = {model: _records(store, group, dataset, model) for model in group.models}
            if group is not scope:
                usual = {model: scope.run_config(dataset, model) for model, records in found.items() if records}
                found = {model: found[model] for model in usual if group.run_config(dataset, model) != usual[model]}
            stars = _stars(found)
            for model in sorted(found, key=_order):
                if found[model] or (group is scope and (dataset, model) in ACCURACIES):
                    rows.append(_row(group, dataset, model, Summary.of(found[model]), stars.get(model, "")))
                    shown += found[model]
    notes = [*INTERVALS]
    unweighted = {row["model"] for row in rows if row["model"] in MODELS and not MODELS[row["model"]].has_weights}
    lacking = [model for model in scope.models if not any(scope.takes(graph, model) for graph in scope.datasets)]
    if scope.kind and lacking:
        notes.append(f"Without {scope.kind} settings, and so not here: {', '.join(map(model_title, lacking))}.")
    notes += [ONE_RUN.format(model_title(model)) for model in sorted(unweighted)]
    notes += [COPIED] if any(_mark(row) for row in rows) else []
    notes += [FEW] if any(1 < row["runs"] < 20 for row in rows) else []
    return Artifact(name, title, ArtifactTable(COLUMNS, tuple(rows)), notes=tuple(notes), records=tuple(shown))


def _records(store: Store, scope: Scope, dataset: str, model: str) -> list[Record]:
    return store.of(scope.run_config(dataset, model), scope.runs) if scope.takes(dataset, model) else []


def _others(scope: Scope) -> list[Scope]:
    """The same with each kind of settings, where all that a store has is asked for."""
    return [replace(scope, kind=kind) for kind in KINDS] if scope.kind is None and scope.runs is None else []


def _order(model: str) -> int:
    """The paper's order; what it does not have comes last."""
    return [*MODEL_TITLES].index(model) if model in MODEL_TITLES else len(MODEL_TITLES)


def _row(group: Scope, dataset: str, model: str, mean: Summary, stars: str) -> dict[str, Any]:
    """A line of the table; only one with the settings behind the paper's number stands beside it."""
    run_config = group.run_config(dataset, model) if group.takes(dataset, model) else None
    usual = run_config is None or run_config == replace(group, kind=None).run_config(dataset, model)
    paper = ACCURACIES.get((dataset, model)) if usual else None
    accuracy, interval = (paper.accuracy, paper.interval) if paper else (None, None)
    return {
        "dataset": dataset,
        "model": model,
        "settings_kind": (group.kind or run_config.kind) if run_config else NOTHING,
        **mean.row,
        "stars": stars,
        "paper_accuracy": accuracy,
        "paper_interval": interval,
        "paper_stars": paper.stars if paper else "",
        "paper_source": paper and paper.source,
        "difference": None if mean.accuracy is None or accuracy is None else mean.accuracy - accuracy,
        "verdict": verdict(mean.accuracy, mean.interval, accuracy, interval) if usual else OTHER,
        "diverged": mean.diverged,
    }


def _mark(row: Row) -> str:
    return " (copied)" if (row["paper_source"] or "").startswith("copied") else ""


def _stars(found: dict[str, list[Record]]) -> dict[str, str]:
    """The stars of the best model, if there is a second best to compare it with on paired runs."""
    means = {model: Summary.of(records).accuracy for model, records in found.items() if records}
    ranked = sorted((model for model in means if means[model] is not None), key=lambda model: -(means[model] or 0))
    if len(ranked) < 2:
        return {}
    best, second = _paired(found[ranked[0]], found[ranked[1]])
    return {ranked[0]: aligned_friedman(best, second).stars} if len(best) > 1 else {}


def _paired(first: Sequence[Record], second: Sequence[Record]) -> tuple[list[float], list[float]]:
    """The test accuracies on the runs that both have."""
    one, other = (
        {(record.split, record.init): record.test_accuracy or 0.0 for record in records} for records in (first, second)
    )
    shared = [run for run in one if run in other]
    return [one[run] for run in shared], [other[run] for run in shared]
