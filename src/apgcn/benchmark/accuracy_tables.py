"""Tables 2 and 3: test accuracy of every model, on citation and co-author graphs and on the Amazon graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from apgcn._utils.significance import aligned_friedman, holm, stars_of
from apgcn.benchmark.aggregate import Summary, paired_difference
from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Row
from apgcn.benchmark.config import PROTOCOL_RUNS, RunKey, Scope
from apgcn.benchmark.formatting import (
    BY_SPLIT,
    GRAPH,
    MISSING,
    MODEL,
    PRESET,
    RUNS,
    TREATMENT,
    VERDICT,
    model_title,
    plus_minus,
    treatment,
    verdict,
)
from apgcn.benchmark.published import ACCURACIES, GRAPHS, MODEL_TITLES
from apgcn.benchmark.records import Record
from apgcn.benchmark.store import Store
from apgcn.models.presets import PRESET_NAMES
from apgcn.models.registry import MODELS

NOTES = (
    "Test accuracy in percent. ± is the paper's interval: 95 %, percentile bootstrap of the mean over runs as if they "
    "were independent, 1000 resamples, the larger side. “By split” resamples whole splits, because the runs on one "
    "split are correlated; it is the interval for another draw of the splits.",
    "The verdict is on our mean less the paper's; ± combines our interval by split with the paper's interval. It is "
    "lower or higher beyond that interval, within 1 point if the whole interval is, and undecided otherwise.",
    "“To the best” is the mean difference to the best model of the graph in the same group of rows, over the runs that "
    "both have; ± resamples whole splits.",
    "Rows differ in their treatment: what stops a training (the rule of the AP-GCN paper's text, that of its script, "
    "which monitors the training loss, or that of the PPNP paper's code), and whether it has the two dropouts of the "
    "script. The presets script, text and protocol give all models the same.",
    "Stars mark the best of the models that were run on a graph if it differs from the second best by an aligned "
    "Friedman test over paired runs of ours: * p < 0.05, ** p < 0.01, by Holm's correction for the number of graphs of "
    "Tables 2 and 3 on which two models were run.",
    "The preset is the one behind the paper's row: “paper” has what its authors ran, or would have run by what they "
    "write about Amazon; “published” has what came with the numbers that they copied or, where there are none, with "
    "the model; “tuned” has values of ours, found on validation seeds or taken over from a related model; “text” and "
    "“script” have what the AP-GCN paper's text or script states; “protocol” has the text's stopping for every model. "
    "apgcn models lists the source of every value. Rows with another preset than the paper's row come below it and "
    "have their own stars.",
)
OTHER_PRESET = "another preset than the paper's row"
ONE_RUN_PER_SPLIT = "{} has no initial weights, and so one run per split: at most 20."
COPIED = "“Copied” marks numbers that the paper took from Gasteiger et al. (PPNP, 2019) and did not run."
FEW_RUNS = "Intervals over fewer than 20 runs are too narrow: there is too little to resample."

COLUMNS = (
    GRAPH,
    MODEL,
    PRESET,
    RUNS,
    ArtifactColumn("ours", lambda row: plus_minus(row["accuracy"], row["interval"]) + row["stars"]),
    BY_SPLIT,
    ArtifactColumn("to the best", lambda row: plus_minus(row["to_best"], row["to_best_interval"])),
    TREATMENT,
    ArtifactColumn(
        "paper",
        lambda row: plus_minus(row["paper_accuracy"], row["paper_interval"]) + row["paper_stars"] + _copied(row),
    ),
    VERDICT,
)


def plan(scope: Scope) -> list[RunKey]:
    """Every model on every graph."""
    return [
        key
        for dataset, model in scope.pairs()
        for key in scope.run_config(dataset, model).first_runs(scope.runs or PROTOCOL_RUNS)
    ]


def build_table2(store: Store, scope: Scope) -> Artifact:
    """Table 2."""
    return build(store, scope, name="table2", title="accuracy on citation and co-author graphs")


def build_table3(store: Store, scope: Scope) -> Artifact:
    """Table 3."""
    return build(store, scope, name="table3", title="accuracy on the Amazon graphs")


def build(store: Store, scope: Scope, *, name: str, title: str) -> Artifact:
    """Our accuracies beside the paper's, graph by graph; a model that was not run has the paper's number only."""
    rows: list[Row] = []
    shown: list[Record] = []
    stars = {group: _stars(store, scope, group) for group in (scope, *_by_preset(scope))}
    for dataset in scope.datasets:
        for group in stars:
            by_model = _group_records(store, group, dataset)
            best = next(iter(_ranked(by_model)), None)
            for model in sorted(by_model, key=_paper_order):
                records = by_model[model]
                if group is not scope and _is_row_of(scope, group, dataset, model):
                    continue  # shown above, with the default preset
                if records or (group is scope and (dataset, model) in ACCURACIES):
                    row = _row(group, dataset, model, records, by_model[best] if best else [])
                    rows.append({**row, "stars": stars[group].get((dataset, model), "")})
                    shown += records
    table = ArtifactTable(COLUMNS, tuple(rows))
    return Artifact(name, title, table, notes=tuple(_notes(scope, rows)), records=tuple(shown))


def _notes(scope: Scope, rows: Sequence[Row]) -> list[str]:
    without_weights = {row["model"] for row in rows if row["model"] in MODELS and not MODELS[row["model"]].has_weights}
    without_preset = [
        model for model in scope.models if not any(scope.includes(graph, model) for graph in scope.datasets)
    ]
    notes = [*NOTES]
    if scope.preset and without_preset:
        notes.append(
            f"Without the preset {scope.preset}, and so not here: {', '.join(map(model_title, without_preset))}."
        )
    notes += [ONE_RUN_PER_SPLIT.format(model_title(model)) for model in sorted(without_weights)]
    notes += [COPIED] if any(_copied(row) for row in rows) else []
    notes += [FEW_RUNS] if any(1 < row["runs"] < 20 for row in rows) else []
    return notes


def _records(store: Store, scope: Scope, dataset: str, model: str) -> list[Record]:
    return store.records_for(scope.run_config(dataset, model), scope.runs) if scope.includes(dataset, model) else []


def _by_preset(scope: Scope) -> list[Scope]:
    """The scope once per preset, if it takes all records of a store."""
    if scope.preset is not None or scope.runs is not None:
        return []
    return [replace(scope, preset=preset) for preset in PRESET_NAMES]


def _paper_order(model: str) -> int:
    """Position of a model in the paper's tables; models that they do not have come last."""
    return [*MODEL_TITLES].index(model) if model in MODEL_TITLES else len(MODEL_TITLES)


def _row(group: Scope, dataset: str, model: str, records: Sequence[Record], best: Sequence[Record]) -> dict[str, Any]:
    """Row of the table; the paper's number is in it only if the preset is the one behind that number."""
    summary = Summary.from_records(records)
    to_best, to_best_interval = (None, None) if records is best else paired_difference(records, best)
    run_config = group.run_config(dataset, model) if group.includes(dataset, model) else None
    is_paper_row = run_config is None or run_config == replace(group, preset=None).run_config(dataset, model)
    paper = ACCURACIES.get((dataset, model)) if is_paper_row else None
    accuracy, interval = (paper.accuracy, paper.interval) if paper else (None, None)
    return {
        "dataset": dataset,
        "model": model,
        "preset": (group.preset or run_config.preset) if run_config else MISSING,
        **summary.row,
        "treatment": treatment(run_config) if run_config else MISSING,
        "to_best": to_best,
        "to_best_interval": to_best_interval,
        "paper_accuracy": accuracy,
        "paper_interval": interval,
        "paper_stars": paper.stars if paper else "",
        "paper_source": paper and paper.source,
        "difference": None if summary.accuracy is None or accuracy is None else summary.accuracy - accuracy,
        "verdict": verdict(summary.accuracy, summary.split_interval, accuracy, interval)
        if is_paper_row
        else OTHER_PRESET,
        "diverged": summary.diverged,
    }


def _copied(row: Row) -> str:
    return " (copied)" if (row["paper_source"] or "").startswith("copied") else ""


def _group_records(store: Store, group: Scope, dataset: str) -> dict[str, list[Record]]:
    """Records of each model on a graph, with the preset of a group."""
    return {model: _records(store, group, dataset, model) for model in group.models}


def _is_row_of(scope: Scope, group: Scope, dataset: str, model: str) -> bool:
    """Whether a model has the same hyperparameters in both, or no preset of the group."""
    if not group.includes(dataset, model):
        return True
    return group.run_config(dataset, model) == scope.run_config(dataset, model)


def _stars(store: Store, scope: Scope, group: Scope) -> dict[tuple[str, str], str]:
    """Stars by graph and model: the best model of each graph on which it shares runs with a second best.

    The p-values are corrected for all graphs of both tables, whichever of them the scope has.
    """
    tests = {
        (dataset, best[0]): best[1]
        for dataset in dict.fromkeys((*GRAPHS, *scope.datasets))
        if (best := _best_model(_group_records(store, group, dataset)))
    }
    return dict(zip(tests, map(stars_of, holm(list(tests.values()))), strict=True))


def _best_model(by_model: dict[str, list[Record]]) -> tuple[str, float] | None:
    """The best model, and the p-value of its comparison with the second best; None if they do not share runs."""
    ranked = _ranked(by_model)
    if len(ranked) < 2:
        return None
    best, second = _paired_accuracies(by_model[ranked[0]], by_model[ranked[1]])
    return (ranked[0], aligned_friedman(best, second).p_value) if len(best) > 1 else None


def _ranked(by_model: dict[str, list[Record]]) -> list[str]:
    """The models that have accuracies, the best first."""
    means = {model: Summary.from_records(records).accuracy for model, records in by_model.items() if records}
    return sorted((model for model in means if means[model] is not None), key=lambda model: -(means[model] or 0))


def _paired_accuracies(first: Sequence[Record], second: Sequence[Record]) -> tuple[list[float], list[float]]:
    """Test accuracies of two models on the runs that both have."""
    by_run = [
        {(record.split, record.init): record.test_accuracy or 0.0 for record in records} for records in (first, second)
    ]
    shared = [run for run in by_run[0] if run in by_run[1]]
    return [by_run[0][run] for run in shared], [by_run[1][run] for run in shared]
