"""Ablation of what the authors' script has and the paper's text has not: two dropouts and the monitored loss.

The paper has no such table; see docs/paper_vs_code.md.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from apgcn.benchmark.aggregate import Summary, paired_difference, restrict_to_common_runs
from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Row
from apgcn.benchmark.config import RunConfig, RunKey, Scope
from apgcn.benchmark.formatting import ACCURACY, BY_SPLIT, GRAPH, MODEL, RUNS, STEPS, plus_minus
from apgcn.benchmark.penalty_sweep import halting_models
from apgcn.benchmark.records import Record
from apgcn.benchmark.store import Store

MAX_RUNS = 20
SETTINGS: dict[str, tuple[Any, Any]] = {  # by hyperparameter: the text's value and the script's
    "z0_dropout": (0.0, 0.5),
    "update_dropout": (0.0, 0.5),
    "monitor": ("stopping", "training"),
}
Switches = tuple[bool, ...]  # for each of the settings, whether it is the script's
TEXT: Switches = (False,) * len(SETTINGS)

NOTES = (
    "Everything else is as in the paper. “x” marks the script's value: dropout of 0.5 on z^0, dropout of 0.5 on each "
    "node's update at each step, or the training loss as the monitored loss of early stopping; otherwise it is the "
    "text's: no such dropout, and the loss of the stopping set.",
    "The difference is to the row without any, the text's, in percentage points over paired runs; ± resamples whole "
    "splits.",
)


def _switch(index: int, heading: str) -> ArtifactColumn:
    return ArtifactColumn(heading, lambda row: "x" if row["script"][index] else "", is_text=True)


COLUMNS = (
    GRAPH,
    MODEL,
    _switch(0, "dropout of z^0"),
    _switch(1, "dropout of updates"),
    _switch(2, "training loss monitored"),
    RUNS,
    ACCURACY,
    BY_SPLIT,
    STEPS,
    ArtifactColumn("difference", lambda row: plus_minus(row["difference"], row["difference_interval"])),
)


def plan(scope: Scope) -> list[RunKey]:
    """Every combination of the three settings, for every model whose nodes halt on every graph; at most 20 runs."""
    return [
        key
        for dataset, model in _pairs(scope)
        for run_config in _run_configs(scope, dataset, model).values()
        for key in run_config.first_runs(min(scope.runs or MAX_RUNS, MAX_RUNS))
    ]


def build(store: Store, scope: Scope) -> Artifact:
    """A row per graph, model and combination of the three settings, over the same runs."""
    rows: list[Row] = []
    shown: list[Record] = []
    for dataset, model in _pairs(scope):
        run_configs = _run_configs(scope, dataset, model)
        records = restrict_to_common_runs(
            {switches: store.records_for(config, MAX_RUNS) for switches, config in run_configs.items()}
        )
        if TEXT not in records or len(records) < 2:
            continue
        for switches, members in records.items():
            difference, half_width = None, None
            if switches != TEXT:
                difference, half_width = paired_difference(members, records[TEXT])
            rows.append(
                {
                    "dataset": dataset,
                    "model": model,
                    "script": switches,
                    **Summary.from_records(members).row,
                    "difference": difference,
                    "difference_interval": half_width,
                }
            )
            shown += members
    title = "the script's dropouts and monitored loss, one by one"
    return Artifact("ablation", title, ArtifactTable(COLUMNS, tuple(rows)), notes=NOTES, records=tuple(shown))


def _pairs(scope: Scope) -> list[tuple[str, str]]:
    """Pairs of graph and model; of the models whose nodes halt."""
    models = halting_models(scope.models)
    return [(dataset, model) for dataset, model in scope.pairs() if model in models]


def _run_configs(scope: Scope, dataset: str, model: str) -> dict[Switches, RunConfig]:
    combinations = product((False, True), repeat=len(SETTINGS))
    return {
        switches: scope.run_config(
            dataset, model, **{name: SETTINGS[name][on] for name, on in zip(SETTINGS, switches, strict=True)}
        )
        for switches in combinations
    }
